"""Ways to store one table, and ways to read it: what no answer may depend on."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel import kernels
from tessel.api import Store, open_store
from tessel.arrays import numpy_array
from tessel.clauses.spill import local_pool
from tessel.clauses.spill.local_pool import LocalPool, Task
from tessel.kernels import library
from tessel.options import options
from tessel.store.segment import reader as opened
from tessel.store.segment.sources import MemorySource, ObjectStoreSource
from tests.clauses.helpers import SETTINGS
from tests.clauses.stored_ways import by_values
from tests.forms.writing import FormsOfPages

__all__ = ["Reading", "Rows", "Stored", "readings", "stored"]

_PASSING = 3
"""Rows that are written in one place and deleted again."""

_FEW_ROWS = 300
"""Up to so many rows kernels may run as Python."""

_SOURCES: dict[str, Any] = {"memory": MemorySource, "object_store": ObjectStoreSource}

_NOT_AT_RUN_TIME = ("build", "lowering")
"""Modules of kernels that need a compiler."""


# --- storing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The rows of a symbol.

    Attributes
    ----------
    table
        All of them.
    index
        The time index, or None.
    late
        Columns at the end of the table that are null in the first rows.
    late_row
        How many rows these are.
    """

    table: pa.Table
    index: str | None
    late: tuple[str, ...] = ()
    late_row: int = 0

    @classmethod
    def of(cls, table: pa.Table, index: str | None, random: np.random.Generator) -> Rows:
        """Draw columns of a table that are null up to some row."""
        names = table.column_names
        later = names[names.index(index) + 1 if index else 1 :]
        if random.random() < 0.6 or not later or not len(table):
            return cls(table, index)
        late = later[int(random.integers(len(later))) :][-3:]
        row = int(random.integers(len(table) + 1))
        for name in late:
            place, held = names.index(name), table.column(name).slice(row)
            field = table.schema.field(place)
            nulls = pa.nulls(row, field.type)
            table = table.set_column(place, field, pa.chunked_array([nulls, *held.chunks]))
        return cls(table, index, tuple(late), row)


def stored(rows: Rows, seed: int, symbol: str = "x", store: Store | None = None) -> Stored:
    """Write rows as a symbol in a way that chance draws; into a store of its own by default."""
    store = open_store("memory://") if store is None else store
    writing = _Writing(store, symbol, rows, np.random.default_rng(seed))
    writing.write()
    return Stored(store, writing.told)


@dataclass(frozen=True)
class Stored:
    """A store, and what was done to it."""

    store: Store
    told: list[str]


class _Writing:
    """Writes a table in several steps, each with segments and pages of its own."""

    def __init__(self, store: Store, symbol: str, rows: Rows, random: np.random.Generator) -> None:
        self._store, self._symbol, self._random = store, symbol, random
        self._rows, self._table, self._index = rows, rows.table, rows.index
        self._written = 0
        self.told: list[str] = []

    def write(self) -> None:
        table, late = self._table, list(self._rows.late)
        how = self._one_of(["whole", "evolve", "fill"]) if late else "whole"
        cuts = self._random.integers(0, len(table) + 1, int(self._random.integers(0, 3))).tolist()
        if how == "evolve":
            cuts = [self._rows.late_row, *(cut for cut in cuts if cut > self._rows.late_row)]
        if how == "fill":
            table = table.drop_columns(late)
        bounds = [0, *sorted(cuts), len(table)]
        for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
            part = table.slice(start, stop - start)
            if how == "evolve" and number == 0:
                part = part.drop_columns(late)
            with self._edits(part) as rows, self._drawn(f"rows {start} to {stop} written"):
                if number == 0:
                    self._store.write(self._symbol, rows, index=self._index)
                else:
                    self._store.append(self._symbol, rows, evolve="add")
        for name in late if how == "fill" else []:
            with self._drawn(f"column {name} added"):
                self._store.add_column(self._symbol, name, self._table.column(name))
        if self._chance(0.15):
            with self._drawn("compacted"):
                self._store.compact(self._symbol)

    # --- rows that were others, or are there for a while ------------------------------------------

    @contextlib.contextmanager
    def _edits(self, part: pa.Table) -> Iterator[pa.Table]:
        """Give rows to write in the place of a part, and make them its rows afterwards."""
        kinds = ["", "", "delete", "delete", *(["update"] if self._index else [])]
        kind = self._one_of(kinds) if len(part) else ""
        before, self._written = self._written, self._written + len(part)
        if kind == "delete":
            row, source = self._random.integers(0, len(part), 2).tolist()
            yield self._with_passing(part, row, source)
            first = before + row + 1
            with self._drawn(f"rows {first} to {first + _PASSING} deleted"):
                self._store.delete_rows(self._symbol, rows=(first, first + _PASSING))
        elif kind == "update":
            start, stop = self._span(part)
            others = self._random.integers(0, len(part), stop - start)
            wrong = self._at_times(part.take(others), part.slice(start, stop - start))
            yield pa.concat_tables([part.slice(0, start), wrong, part.slice(stop)])
            self._update(before + start, before + stop, part.column_names)
        else:
            yield part

    def _update(self, start: int, stop: int, names: list[str]) -> None:
        """Update a span of rows that are there, and with it all of the times at its ends."""
        times = numpy_array(self._table.column(self._index).slice(0, self._written).cast("int64"))
        start = int(np.searchsorted(times, times[start], "left"))
        stop = int(np.searchsorted(times, times[stop - 1], "right"))
        rows = self._table.slice(start, stop - start).select(names)
        with self._drawn(f"rows {start} to {stop} updated"):
            self._store.update(self._symbol, rows)

    def _span(self, part: pa.Table) -> tuple[int, int]:
        start = int(self._random.integers(len(part)))
        return start, int(self._random.integers(start + 1, len(part) + 1))

    def _with_passing(self, part: pa.Table, row: int, source: int) -> pa.Table:
        copied = part.take([source] * _PASSING)
        copied = self._at_times(copied, part.take([row] * _PASSING))
        return pa.concat_tables([part.slice(0, row + 1), copied, part.slice(row + 1)])

    def _at_times(self, rows: pa.Table, of: pa.Table) -> pa.Table:
        if self._index is None:
            return rows
        place = rows.schema.get_field_index(self._index)
        return rows.set_column(place, rows.schema.field(place), of.column(self._index))

    # --- chance -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _drawn(self, what: str) -> Iterator[None]:
        """Draw the size of segments and the forms of their pages."""
        rows = len(self._table)
        size = int(self._random.integers(1, rows + 2)) if self._chance(0.7) else rows + _PASSING
        size = max(size, rows // 30)
        columns = int(self._random.integers(1, self._table.num_columns + 1))
        most = min(max(rows, 1).bit_length(), 16)
        shifts = range(int(self._random.integers(max(most - 6, 0), most + 1)), most + 1)
        self.told.append(f"{what}, segments of {size} rows and {columns} columns, pages {shifts}")
        with (
            options(workers=1, segment_rows=size, segment_columns=columns),
            FormsOfPages(self._random, shifts)(),
        ):
            yield

    def _chance(self, share: float) -> bool:
        return bool(self._random.random() < share)

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How a query is run.

    Attributes
    ----------
    settings
        Options.
    form
        Of the kernels: a level of the processor, or ``python``.
    block_rows
        Rows that kernels take at a time, where they run as Python.
    order
        The seed of the order in which units are done; None for the pool as it is.
    source
        How bytes are read.
    values
        Whether all is left to values that were decoded.
    """

    settings: dict[str, int]
    form: str
    block_rows: int
    order: int | None
    source: str
    values: bool

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(options(**self.settings))
            stack.enter_context(library.using_form(self.form))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            if self.form == "python":
                _set_block_rows(patch, self.block_rows)
            if self.order is not None:
                random = np.random.default_rng(self.order)
                patch.setattr(LocalPool, "map", lambda pool, tasks: _in_any_order(tasks, random))
            patch.setattr(opened, "open_source", _SOURCES[self.source])
            if self.values:
                stack.enter_context(by_values())
            yield


def readings(seed: int, rows: int, count: int) -> list[Reading]:
    """Return some ways to run a query on a table of so many rows."""
    random = np.random.default_rng(seed)

    def one_of(choices: Sequence[Any]) -> Any:
        return choices[int(random.integers(len(choices)))]

    levels = [each for each in library.machine_levels() if each <= library.machine_level()]
    forms = [*levels, *["python"] * len(levels)] if rows <= _FEW_ROWS else levels
    return [
        Reading(
            one_of(SETTINGS),
            one_of(forms),
            int(one_of([8, 8, 16, 64])),
            int(random.integers(1 << 30)) if random.integers(2) else None,
            one_of(["memory", "object_store"]),
            bool(random.integers(6) == 0),
        )
        for _ in range(count)
    ]


def _set_block_rows(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Let kernels that run as Python take fewer rows at a time.

    All modules of kernels are imported first: one that is imported while the number is patched
    would keep it, allocate for few rows and hand that to machine code, which takes many.
    """
    for found in pkgutil.iter_modules(kernels.__path__, "tessel.kernels."):
        if found.name.rpartition(".")[2] not in _NOT_AT_RUN_TIME:
            importlib.import_module(found.name)
    for name, module in list(sys.modules.items()):
        if name.startswith("tessel.kernels.") and hasattr(module, "BLOCK_ROWS"):
            patch.setattr(module, "BLOCK_ROWS", rows)


def _in_any_order(tasks: Iterable[Task[Any]], random: np.random.Generator) -> Iterator[Any]:
    """Run tasks as a pool may: some ahead of their turn, in any order; results in their order."""
    source = local_pool._failing_last(tasks)
    done = False
    while not done:
        window: list[Task[Any]] = []
        for _ in range(int(random.integers(1, 9))):
            task = next(source, None)
            if task is None:
                done = True
                break
            window.append(task)
        ended: dict[int, Callable[[], Any]] = {}
        for at in random.permutation(len(window)).tolist():
            ended[at] = _outcome_of(window[at])
        for at in range(len(window)):
            yield ended.pop(at)()


def _outcome_of(task: Task[Any]) -> Callable[[], Any]:
    try:
        result = task.run()
    except Exception as error:
        failure = error

        def fail() -> Any:
            raise failure

        return fail
    return lambda: result

"""The dynamic filter of distinct: keys that earlier rows are known to have.

``distinct`` enters here with batches that are not read yet. Where keys are codes or narrow integers
as they are stored, a kernel stops as soon as it has seen every key that there can be, and rows with
keys that earlier rows have are dropped. Otherwise the keys are read, and each batch knows only
itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.numbered_keys import key_values
from tessel.clauses.grouped.stored_keys import PlannedGroups, planned_groups
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.best_rows import first_of_groups
from tessel.store.manifest.batch import Batch

Keep = Literal["first", "last", "none"]
Rows = NDArray[np.int64]

_Plan = tuple[PlannedGroups, UnboundProgram]
"""How rows are numbered, and the program that computes it."""

_MOST_SEEN = 1 << 16
_MOST_CHECKED = 1 << 12
"""More keys of a unit than this are not checked: a hash table drops them later, and faster."""


class SeenKeys:
    """The keys seen in one run, and the earliest row of each.

    A row is dropped only where an earlier one with the same key was seen, which its own unit keeps,
    or drops for one that is earlier still.
    """

    def __init__(self, keys: tuple[str, ...], keep: Keep) -> None:
        self._columns = keys
        self._keep = keep
        self._rows: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def look(self, batch: Batch) -> None:
        """Learn nothing: zone maps name no keys."""

    def narrow(self, batch: Batch, unit: int) -> Batch | None:
        """Drop rows that have no say in what is kept of all units."""
        places = self._stored(batch) if self._keep == "first" else None
        if places is None:
            names = [batch.columns[name] for name in self._columns]
            rows = batch.rows_left(names, unit)
            if rows is None:
                return None
            table = rows.values(names)
            places = rows.places()[partly_distinct_rows(table, names, self._keep)]
        return batch.keep(places)

    def still_needed(self, batch: Batch) -> Batch:
        """Keep all rows: their keys were seen in no earlier row, so far."""
        return batch

    # --- inside -----------------------------------------------------------------------------------

    def _stored(self, batch: Batch) -> Rows | None:
        """Return the first row of each key, but of keys that were seen in earlier rows.

        None where the groups need values, or are about as many as rows.
        """

        def plan(program: BlockProgram, select: int | None) -> _Plan | None:
            planned = planned_groups(
                program, select, self._columns, batch.schema, drop_missing=False
            )
            return None if planned is None else (planned, program.program())

        exact = not batch.bindings.are_stored(self._columns)
        opened = batch.open(self._columns, "first rows", plan, exact=exact)
        grouped = None if opened is None else opened.plan[0].few(opened)
        if opened is None or grouped is None:
            return None
        assert grouped.register is not None  # there are keys
        first = first_of_groups(
            opened.spans,
            opened.bound(opened.plan[1]),
            select=grouped.select,
            group=grouped.register,
            groups=grouped.groups,
        )
        there = np.flatnonzero(first >= 0)
        there = there[np.argsort(first[there])]
        # Kernels count from the first row of the segment.
        places: Rows = first[there] - (opened.spans[0].start - batch.first_place)
        return places[self._are_new(key_values(grouped.keys, there), batch.first_row + places)]

    def _are_new(self, keys: Sequence[pa.Array], rows: Rows) -> NDArray[np.bool_]:
        """Return a mask: which rows come before all seen rows of their key. These are then seen.

        Parameters
        ----------
        rows
            Their numbers in the symbol, int64.
        """
        new = np.ones(len(rows), np.bool_)
        if len(rows) > _MOST_CHECKED or not all(map(_is_hashable, keys)):
            return new
        values = list(zip(*(each.to_pylist() for each in keys), strict=True))
        with self._lock:
            seen = self._rows
            for place, (value, row) in enumerate(zip(values, rows.tolist(), strict=True)):
                before = seen.get(value)
                if before is not None and before < row:
                    new[place] = False
                elif before is not None or len(seen) < _MOST_SEEN:
                    seen[value] = row
        return new


def _is_hashable(values: pa.Array) -> bool:
    """Return whether Python compares values of a type as Arrow does, and makes them quickly."""
    kind = values.type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def distinct_rows(table: pa.Table, keys: Sequence[str], keep: Keep) -> Rows:
    """Return which rows are kept, ascending. int64."""
    found = group_codes([table.column(name) for name in keys], drop_missing=False)
    if keep == "first":
        return found.first_row
    if keep == "last":
        last = np.zeros(len(found), np.int64)
        last[found.codes] = np.arange(len(found.codes))  # the last to be written stays
        return np.sort(last)
    counts = np.bincount(found.codes, minlength=len(found))
    alone: Rows = found.first_row[counts == 1]
    return alone


def partly_distinct_rows(table: pa.Table, keys: Sequence[str], keep: Keep) -> Rows:
    """Return which rows of a part are kept, ascending, int64.

    Where none of several is kept, two of them say in other parts that there are several.
    """
    if keep != "none":
        return distinct_rows(table, keys, keep)
    found = group_codes([table.column(name) for name in keys], drop_missing=False)
    rest = np.ones(len(found.codes), np.bool_)
    rest[found.first_row] = False
    later = np.flatnonzero(rest)
    _, at = np.unique(found.codes[later], return_index=True)
    return np.sort(np.concatenate([found.first_row, later[at]]))

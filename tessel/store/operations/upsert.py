"""upsert: rows replace those of the same key; rows of new keys are added."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_array, arrow_scalar, fill_null, numpy_array, scalar_text
from tessel.errors import DuplicateColumnError, InvalidInputError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.history.changes import Claim
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.rebase import ReadRange
from tessel.store.index_column import index_integers, sorted_by
from tessel.store.operations.incoming import Evolve, take
from tessel.store.operations.reading import Planned, Reader, staged_edits
from tessel.store.operations.stage import Stage


def upsert(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    keys: Sequence[str],
    evolve: Evolve = None,
) -> None:
    """Replace rows by key, add those of new keys; see ``Store.upsert``."""
    working = stage.existing(symbol)
    names = _checked_keys(keys, working.state.schema)
    incoming = take(working, data, evolve)
    table = incoming.table()
    index = incoming.state.schema.index
    if index is not None and table.num_rows:
        table = sorted_by(table, index)
    lookup = KeyLookup(table, names)
    stage.reads.append(ReadRange(working.base_name or symbol))
    rows = _positions(stage.reader(working.state), lookup, names)
    incoming.apply(working, stage)
    if not table.num_rows:
        return
    reader = stage.reader(working.state)
    plan = _Plan.of(reader, table, rows, index)
    end = working.state.rows
    tail = plan.starts >= end if index is None else np.zeros(len(plan.starts), dtype=bool)
    fresh = rows < 0
    claims: list[Claim] = []
    if fresh.any():
        claims.append(_claim(table.filter(arrow_array(fresh)), index, names))
    edits = staged_edits(
        stage,
        working.state,
        plan.planned(table, ~tail),
        reader=reader,
        touched=plan.touched(reader, table, index),
    )
    edits += staged_edits(stage, working.state, plan.planned(table, tail), at_end=True)
    working.splice(edits, "upsert", claims)


def _checked_keys(keys: Any, schema: TableSchema) -> list[str]:
    listed = [keys] if isinstance(keys, str) else list(keys)
    if not listed:
        raise InvalidInputError(
            "upsert needs keys: the columns that tell one row from another",
            hint='for instance keys=["time", "ticker"]',
        )
    schema.require(listed, where="the symbol (as a key)")
    twice = repeated(listed)
    if twice is not None:
        raise DuplicateColumnError(
            f"column {twice!r} is named twice among the keys",
            hint="name it once",
            column=twice,
        )
    for name in listed:
        if pa.types.is_nested(schema.type_of(name)):
            raise InvalidInputError(
                f"column {name!r} of type {schema.type_of(name)} cannot be a key",
                hint="keys are plain values",
                column=name,
            )
    return listed


def _positions(reader: Reader, lookup: KeyLookup, keys: Sequence[str]) -> Integers:
    """Return for each row of the frame the row of the symbol with its key; -1 where none has."""
    found = np.full(lookup.rows, -1, dtype=np.int64)
    if not lookup.rows:
        return found
    columns = reader.columns([name for name in reader.schema.names if name in keys])
    for start, table in columns.slices():
        place = lookup.places(table)
        here = np.flatnonzero(place >= 0)
        hit = place[here]
        twice = np.flatnonzero(np.bincount(hit, minlength=lookup.rows) + (found >= 0) > 1)
        if len(twice):
            raise InvalidInputError(
                f"the key {lookup.shown(int(twice[0]))} is that of several rows of the symbol",
                hint="upsert replaces one row by one: choose keys that tell rows apart",
            )
        found[hit] = start + here
    return found


@dataclass(frozen=True, eq=False)
class _Plan:
    """What happens where, ordered: rows ``[start, stop)`` go, a row of the frame comes or none."""

    starts: Integers
    stops: Integers
    rows: Integers

    @classmethod
    def of(cls, reader: Reader, table: pa.Table, rows: Integers, index: str | None) -> _Plan:
        """Plan for the rows of a frame, sorted by the index, and their rows in the symbol."""
        numbers = np.arange(len(rows))
        known = rows >= 0
        if index is None:
            end = np.full(len(rows), reader.index.row_count, dtype=np.int64)
            starts = np.where(known, rows, end)
            return cls._sorted(starts, starts + known, numbers)
        times = index_integers(table.column(index), index)
        stays = known.copy()
        if known.any():
            stays[known] = _times_at(reader, rows[known]) == times[known]
        # A row whose time changes leaves its place and is merged like a new one.
        moves = known & ~stays
        merged = reader.ends_of(times[~stays]) if (~stays).any() else np.zeros(0, np.int64)
        return cls._sorted(
            np.concatenate([rows[stays], rows[moves], merged]),
            np.concatenate([rows[stays] + 1, rows[moves] + 1, merged]),
            np.concatenate([numbers[stays], np.full(int(moves.sum()), -1), numbers[~stays]]),
        )

    @classmethod
    def _sorted(cls, starts: Integers, stops: Integers, rows: Integers) -> _Plan:
        # At one place, rows that are put in come before the row that is there.
        order = np.lexsort((rows, stops, starts))
        return cls(starts[order], stops[order], rows[order])

    def planned(self, table: pa.Table, mask: np.ndarray[Any, Any]) -> list[Planned]:
        """Return the chosen steps with their rows; steps that touch are one."""
        starts, stops, rows = self.starts[mask], self.stops[mask], self.rows[mask]
        if not len(starts):
            return []
        reach = np.maximum.accumulate(stops)
        cuts = np.flatnonzero(starts[1:] > reach[:-1]) + 1
        bounds = np.concatenate([[0], cuts, [len(starts)]]).tolist()
        made = []
        for low, high in itertools.pairwise(bounds):
            chosen = rows[low:high]
            chosen = chosen[chosen >= 0]
            part = table.take(arrow_array(chosen)) if len(chosen) else None
            made.append(Planned(int(starts[low]), int(reach[high - 1]), part))
        return made

    def touched(self, reader: Reader, table: pa.Table, index: str | None) -> TimeBounds | None:
        """Return bounds of the index over all rows that go or come."""
        if index is None:
            return None
        times = index_integers(table.column(index), index)
        gone = self.starts[self.stops > self.starts]
        ends = _times_at(reader, gone[[0, -1]]) if len(gone) else times
        return int(min(times[0], ends[0])), int(max(times[-1], ends[-1]))


def _times_at(reader: Reader, rows: Integers) -> Integers:
    order = np.argsort(rows, kind="stable")
    times = np.empty(len(rows), dtype=np.int64)
    for at in order.tolist():
        times[at] = reader.time_at(int(rows[at]))
    return times


def _claim(fresh: pa.Table, index: str | None, keys: Sequence[str]) -> Claim:
    """Return where nobody else may have put rows, which could have the keys of ours."""
    if index is None or index not in keys:
        return None, None
    times = index_integers(fresh.column(index), index)
    return int(times[0]), int(times[-1])


class KeyLookup:
    """The keys of a frame, each of them once.

    0.0 and -0.0 are one key. A key with a missing value is refused.

    Raises InvalidInputError for a missing key, and for a key that two rows have.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self.rows = table.num_rows
        self._keys = list(keys)
        self._table = table.select(self._keys)
        self._values: list[pa.Array] = []
        self._known: list[Integers] = []
        for name in self._keys:
            column = table.column(name)
            missing = np.flatnonzero(_missing(column))
            if len(missing):
                raise InvalidInputError(
                    f"the key column {name!r} is missing in row {int(missing[0])} "
                    f"({len(missing)} missing values)",
                    hint="drop these rows, or fill the column",
                    column=name,
                    row=int(missing[0]),
                )
            values = _plain(column)
            self._values.append(values.unique())
        codes = self._codes(table, learn=True)
        order = np.argsort(codes, kind="stable")
        twice = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        if len(twice):
            first, second = sorted(order[twice[0] : twice[0] + 2].tolist())
            raise InvalidInputError(
                f"rows {first} and {second} of the table have the key {self.shown(first)}",
                hint="keep one row of each key",
            )
        self._sorted, self._order = codes[order], order

    def places(self, table: pa.Table) -> Integers:
        """Return the row of the frame with the key of each row of a table; -1 where none has."""
        codes = self._codes(table, learn=False)
        place = np.minimum(np.searchsorted(self._sorted, codes), max(self.rows - 1, 0))
        hit = (codes >= 0) & (self._sorted[place] == codes)
        found: Integers = np.where(hit, self._order[place], -1)
        return found

    def shown(self, row: int) -> str:
        """Return the key of a row of the frame, for people."""
        return ", ".join(
            f"{name}={scalar_text(self._table.column(name)[row])}" for name in self._keys
        )

    def _codes(self, table: pa.Table, *, learn: bool) -> Integers:
        """Return one number for the key of each row; -1 for a key that the frame has not."""
        total = np.zeros(table.num_rows, dtype=np.int64)
        for at, name in enumerate(self._keys):
            values = _plain(table.column(name)).cast(self._values[at].type)
            found = fill_null(pc.index_in(values, value_set=self._values[at]), -1)
            own = numpy_array(found).astype(np.int64)
            # Numbers stay below the square of the frame's rows: after each column they are
            # replaced by their ranks among those that the frame has.
            wide = total * len(self._values[at]) + own
            wide[(total < 0) | (own < 0)] = -1
            if learn:
                self._known.append(np.unique(wide))
            ranks = np.searchsorted(self._known[at], wide)
            inside = np.minimum(ranks, max(len(self._known[at]) - 1, 0))
            known = (wide >= 0) & (self._known[at][inside] == wide) if table.num_rows else wide >= 0
            total = np.where(known, inside, -1)
        return total


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return values as one array without dictionaries, -0.0 as 0.0."""
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pat.is_floating(column.type):
        column = pc.add(column, arrow_scalar(0.0, column.type))
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _missing(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    plain = _plain(column)
    nulls = pc.is_null(plain, nan_is_null=pat.is_floating(plain.type))
    return np.asarray(numpy_array(nulls), dtype=np.bool_)

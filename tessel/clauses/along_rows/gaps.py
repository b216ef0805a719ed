"""What lies on either side of missing values: the carry of ``fill``, and the sources of a fill.

Of a run of rows it is carried, for each key and column, how many rows there are, the first and the
last value that is not missing, and how many rows without one lie before and after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.clauses.along_rows.key_order import (
    KeyOrder,
    key_fields,
    keyed_carries,
    keyed_rows,
    patched,
    taken,
)
from tessel.clauses.values import BoolArray, missing_rows, plain
from tessel.ecs import ProcessingUnit
from tessel.kernels.source_rows import edges_of_gaps, nearest_present
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers

__all__ = ["Gaps", "Side", "Sides", "present_rows"]

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """The nearest value on one side of each row, in key order.

    Attributes
    ----------
    source
        int64, shape ``(rows,)``: a row of ``values``; −1 where there is none.
    distance
        int64, shape ``(rows,)``: rows of the key from there to here; 0 is the row itself.
    values
        The column: first what was carried, then the rows of the unit.
    times
        int64, shape of ``values``: when each was; None where nobody asks.
    """

    source: Codes
    distance: Codes
    values: pa.ChunkedArray
    times: Codes | None

    @property
    def found(self) -> BoolArray:
        """Where there is a value on this side."""
        return self.source >= 0

    @property
    def rows(self) -> Codes:
        """The sources, 0 where there is none: to look up what is then not used."""
        return np.maximum(self.source, 0)


@dataclass(frozen=True)
class Sides:
    """Both sides of the rows of a unit, in key order."""

    before: Side
    after: Side


@dataclass(frozen=True)
class Gaps:
    """What is carried around missing values.

    Attributes
    ----------
    columns, by
        The columns that are read, and the keys.
    timed
        Whether the times of values are carried as well.
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    timed: bool

    def schema(self, types: Sequence[pa.DataType], keys: Sequence[pa.DataType]) -> pa.Schema:
        """Return the columns of the carry, for columns and keys of these types."""
        fields = [*key_fields(keys), pa.field("rows", pa.int64())]
        for at, kind in enumerate(types):
            for side in ("first", "last"):
                fields += [
                    pa.field(f"{side}_{at}", kind),
                    pa.field(f"{side}_gap_{at}", pa.int64()),
                    pa.field(f"{side}_time_{at}", pa.int64()),
                ]
        return pa.schema(fields)

    def summary(self, unit: ProcessingUnit, schema: pa.Schema) -> pa.Table:
        """Return one row a key of a unit."""
        keyed = keyed_rows(unit, self.by)
        times = self._times(unit)
        gaps = [
            edges_of_gaps(present_rows(unit.column(name)), keyed.codes, keyed.groups)
            for name in self.columns
        ]
        arrays = [*keyed.keys, arrow_array(gaps[0][0])]
        for name, edges in zip(self.columns, gaps, strict=True):
            column = unit.column(name)
            for rows, gap in (edges[1:3], edges[3:5]):
                absent = rows < 0
                arrays += [
                    taken(column, rows, absent),
                    arrow_array(gap),
                    pa.nulls(len(rows), pa.int64())
                    if times is None
                    else arrow_array(times[np.maximum(rows, 0)], mask=absent),
                ]
        return pa.table(arrays, schema=schema)

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return one row a key of both runs."""
        keyed = keyed_carries(earlier, later, self.by)
        if not keyed.groups:
            return earlier
        both = pa.concat_tables([earlier, later])
        codes = np.split(keyed.codes, [earlier.num_rows])
        one, two = (_row_of_group(each, keyed.groups) for each in codes)
        two = np.where(two < 0, -1, two + earlier.num_rows)
        rows = _numbers(both.column("rows"))
        chosen = list(keyed.keys)
        own_rows, other_rows = (np.where(each >= 0, rows[each], 0) for each in (one, two))
        chosen.append(arrow_array(own_rows + other_rows))
        for at in range(len(self.columns)):
            for side, near, far, passed in (
                ("first", one, two, own_rows),
                ("last", two, one, other_rows),
            ):
                chosen += _nearer(both, f"{side}_", at, near, far, passed)
        return pa.table(chosen, schema=earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table, limit: int | None) -> bool:
        """Say whether the gaps at the end of a unit are closed, or ``limit`` rows have passed."""
        keyed = keyed_carries(summary, after, self.by)
        own, others = np.split(keyed.codes, [summary.num_rows])
        there = _row_of_group(others, keyed.groups)[own]
        seen = np.maximum(there, 0)
        for at in range(len(self.columns)):
            is_open = _numbers(summary.column(f"last_gap_{at}")) > 0
            if not after.num_rows:
                if is_open.any():
                    return False
                continue
            closed = numpy_array(after.column(f"first_{at}").is_valid())
            if limit is not None:
                closed = closed | (_numbers(after.column(f"first_gap_{at}")) >= limit)
            if (is_open & ((there < 0) | ~closed[seen])).any():
                return False
        return True

    def filled(
        self, unit: ProcessingUnit, carried: pa.Table, *, backward: bool, limit: int | None
    ) -> Iterator[Any]:
        """Yield each column of a unit with its gaps filled from what lies before them.

        Parameters
        ----------
        unit
            Whose rows are filled.
        carried
            What lies before it, or after where filled backward.
        backward
            Whether a row is filled from the next one that has a value, not from the last.
        limit
            How many rows in a row are filled; None for all.
        """
        keyed = keyed_rows(unit, self.by)
        (other,), groups = keyed.numbers(carried)
        there = _row_of_group(other, groups)
        side = "first" if backward else "last"
        for at, name in enumerate(self.columns):
            column = unit.column(name)
            present = present_rows(column)
            if present.all():
                yield column
                continue
            values = carried.column(f"{side}_{at}")
            known = np.append(numpy_array(values.is_valid()), False)
            gaps = np.append(_numbers(carried.column(f"{side}_gap_{at}")), 0)
            rows, sources = nearest_present(
                present,
                keyed.codes if self.by else None,
                np.where(known[there], there, -1),
                gaps[there],
                offset=carried.num_rows,
                limit=unit.num_rows + int(gaps.max()) if limit is None else limit,
                backward=backward,
            )
            complete = len(rows) == len(present) - np.count_nonzero(present)
            yield patched(column, rows, values, sources, all_valid=complete)

    def sides(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> tuple[KeyOrder, list[Sides]]:
        """Return the order of the rows of a unit, and both sides of each column."""
        keyed = keyed_rows(unit, self.by)
        (earlier, later), groups = keyed.numbers(before, after)
        order = keyed.order
        key = order.arranged(keyed.codes)
        times = self._times(unit)
        found = []
        for at, name in enumerate(self.columns):
            column = unit.column(name)
            sides = []
            for carried, codes, side, nearest, rest in zip(
                (before, after),
                (earlier, later),
                ("last", "first"),
                _nearest(order.arranged(present_rows(column)), order),
                (order.places - order.start + 1, order.stop - order.places),
                strict=True,
            ):
                there = _row_of_group(codes, groups)[key]
                sides.append(
                    _side(carried, f"{side}_", at, column, times, order, nearest, there, rest)
                )
            found.append(Sides(*sides))
        return order, found

    def _times(self, unit: ProcessingUnit) -> Codes | None:
        if not self.timed:
            return None
        assert unit.schema.index is not None  # the clause was refused without one
        times: Codes = index_integers(unit.column(unit.schema.index), unit.schema.index)
        return times


def present_rows(column: pa.ChunkedArray) -> BoolArray:
    """Return which rows of a column have a value."""
    if pa.types.is_nested(column.type):
        valid: BoolArray = numpy_array(column.is_valid())
        return valid
    absent = missing_rows(plain(column))
    return np.ones(len(column), np.bool_) if absent is None else ~absent


def _nearest(present: BoolArray, order: KeyOrder) -> tuple[Codes, Codes]:
    """Return the place of the nearest value at or before, and at or after, each; −1 for none."""
    places, rows = order.places, len(order)
    before = np.maximum.accumulate(np.where(present, places, -1)) if rows else places
    after = np.where(present, places, rows)[::-1]
    after = np.minimum.accumulate(after)[::-1] if rows else places
    before = np.where(before >= order.start, before, -1)
    return before, np.where(after < order.stop, after, -1)


def _side(
    carried: pa.Table,
    side: str,
    at: int,
    column: pa.ChunkedArray,
    times: Codes | None,
    order: KeyOrder,
    nearest: Codes,
    there: Codes,
    rest: Codes,
) -> Side:
    """Return the values on one side: in the unit, or else what was carried from that side."""
    values = carried.column(f"{side}{at}")
    offset = carried.num_rows
    rows = np.where(nearest < 0, -1, order.rows_at(np.maximum(nearest, 0)) + offset)
    distance = np.abs(order.places - nearest)
    if offset:
        known = np.append(numpy_array(values.is_valid()), False)
        gaps = np.append(_numbers(carried.column(f"{side}gap_{at}")), 0)
        use = (nearest < 0) & (there >= 0) & known[there]
        rows = np.where(use, there, rows)
        distance = np.where(use, rest + gaps[there], distance)
    both = pa.chunked_array([*values.chunks, *column.chunks], type=column.type)
    if times is not None:
        times = np.concatenate([_numbers(carried.column(f"{side}time_{at}")), times])
    return Side(rows, distance, both, times)


def _nearer(
    both: pa.Table, side: str, at: int, near: Codes, far: Codes, passed: Codes
) -> list[Any]:
    """Return value, gap and time of the near run, or of the far one where that has no value."""
    known = np.append(numpy_array(both.column(f"{side}{at}").is_valid()), False)
    gaps = np.append(_numbers(both.column(f"{side}gap_{at}")), 0)
    use_near = known[near] | (far < 0)
    rows = arrow_array(np.where(use_near, near, far))
    gap = np.where(use_near, gaps[near], passed + gaps[far])
    return [
        both.column(f"{side}{at}").take(rows),
        arrow_array(gap),
        both.column(f"{side}time_{at}").take(rows),
    ]


def _row_of_group(codes: Codes, groups: int) -> Codes:
    """Return the one row of each group; −1 for a group without one."""
    rows = np.full(groups, -1)
    rows[codes] = np.arange(len(codes))
    return rows


def _numbers(column: pa.ChunkedArray) -> Codes:
    """Return a column of integers, 0 where it is null."""
    found: Codes = numpy_array(fill_null(column, 0))
    return found

"""What lies on either side of missing values: the carry of ``fill``, and the sources of a fill.

Of a run of rows it is carried, for each key and column, how many rows there are, the first and the
last value that is not missing, and how many rows without one lie before and after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, fill_null, numpy_array
from tessel.clauses.along_rows.key_order import (
    key_fields,
    keyed_carries,
    keyed_rows,
    patched,
    taken,
)
from tessel.clauses.index_values import index_integers
from tessel.clauses.values import BoolArray, missing_rows, plain
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.kernels.source_rows import edges_of_gaps, nearest_on_side, nearest_present
from tessel.lazy import dataclass

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """The nearest value on one side of each row.

    Attributes
    ----------
    rows
        int64, shape ``(rows,)``: a row of ``values``; the row itself where there is none.
    distance
        int64, shape ``(rows,)``: rows of the key from there to here; 0 is the row itself, −1 is
        none.
    values
        The column: first what was carried, then the rows of the unit.
    times
        int64, shape of ``values``: when each was; None where nobody asks.
    """

    rows: Codes
    distance: Codes
    values: pa.ChunkedArray
    times: Codes | None

    @property
    def found(self) -> BoolArray:
        """Where there is a value on this side."""
        return self.distance >= 0


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

    def schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of the carry, for a table of a schema."""
        keys = [input_schema.type_of(name) for name in self.by]
        fields = [*key_fields(keys), pa.field("rows", pa.int64())]
        for at, kind in enumerate(map(input_schema.type_of, self.columns)):
            for side in ("first", "last"):
                fields += [
                    pa.field(f"{side}_{at}", kind),
                    pa.field(f"{side}_gap_{at}", pa.int64()),
                    pa.field(f"{side}_time_{at}", pa.int64()),
                ]
        return pa.schema(fields)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
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
        return pa.table(arrays, schema=self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return one row a key of both runs."""
        keyed = keyed_carries(earlier, later, self.by)
        if not keyed.groups:
            return earlier
        both = concat_tables([earlier, later])
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
        side = "first" if backward else "last"
        for at, name in enumerate(self.columns):
            column = unit.column(name)
            present = present_rows(column)
            if present.all():
                yield column
                continue
            last, passed = _reached(carried, f"{side}_", at, other, groups)
            rows, sources = nearest_present(
                present,
                keyed.codes if self.by else None,
                last,
                passed,
                offset=carried.num_rows,
                limit=unit.num_rows + int(passed.max()) if limit is None else limit,
                backward=backward,
            )
            values = carried.column(f"{side}_{at}")
            complete = len(rows) == len(present) - np.count_nonzero(present)
            yield patched(column, rows, values, sources, all_valid=complete)

    def sides(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> list[tuple[Side, Side]]:
        """Return what lies before the rows of each column, and what lies after."""
        keyed = keyed_rows(unit, self.by)
        (earlier, later), groups = keyed.numbers(before, after)
        times = self._times(unit)

        def side(at: int, column: pa.ChunkedArray, *, backward: bool) -> Side:
            carried, codes = (after, later) if backward else (before, earlier)
            name = "first_" if backward else "last_"
            rows, distance = nearest_on_side(
                present_rows(column),
                keyed.codes,
                *_reached(carried, name, at, codes, groups),
                offset=carried.num_rows,
                backward=backward,
            )
            values = [*carried.column(f"{name}{at}").chunks, *column.chunks]
            seen = None
            if times is not None:
                seen = np.concatenate([_numbers(carried.column(f"{name}time_{at}")), times])
            return Side(rows, distance, pa.chunked_array(values, type=column.type), seen)

        return [
            (side(at, column, backward=False), side(at, column, backward=True))
            for at, column in enumerate(map(unit.column, self.columns))
        ]

    def _times(self, unit: ProcessingUnit) -> Codes | None:
        return index_integers(unit) if self.timed else None


def present_rows(column: pa.ChunkedArray) -> BoolArray:
    """Return which rows of a column have a value."""
    if pa.types.is_nested(column.type):
        valid: BoolArray = numpy_array(column.is_valid())
        return valid
    absent = missing_rows(plain(column))
    return np.ones(len(column), np.bool_) if absent is None else ~absent


def _reached(
    carried: pa.Table, side: str, at: int, codes: Codes, groups: int
) -> tuple[Codes, Codes]:
    """Return for each key the row of a carry that has its value, −1 for none, and the gap there."""
    last, passed = np.full(groups, -1), np.zeros(groups, np.int64)
    known = numpy_array(carried.column(f"{side}{at}").is_valid())
    last[codes] = np.where(known, np.arange(len(known)), -1)
    passed[codes] = _numbers(carried.column(f"{side}gap_{at}"))
    return last, passed


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

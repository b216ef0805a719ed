"""Rows of other units around a unit: the carry of clauses that look some rows back or ahead.

Of a run of rows the first ``ahead`` and the last ``back`` rows of each key are carried: a row a
key, with a list of the values of each column that is read.

Rows of other units near in time: the carry of clauses that look some time back or ahead.

Of a run of rows those are carried whose time is no more than ``ahead`` after its first, or ``back``
before its last: a row a key, with lists of their times and of the values of the columns that are
read. Rows are in time order, so those of a key are, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.along_rows.carried_lists import (
    ends_of,
    joined_values,
    key_runs,
    list_fields,
    list_values,
    lists,
)
from tessel.clauses.along_rows.key_order import (
    Codes,
    Column,
    KeyedRows,
    KeyOrder,
    in_rows,
    key_fields,
    keyed_carries,
    keyed_rows,
    taken,
)
from tessel.clauses.base import Carry
from tessel.clauses.index_values import index_of
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.kernels.group_rows import rows_by_code, rows_of_runs
from tessel.kernels.window_rows import KeyRuns
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers


@dataclass(frozen=True)
class Around:
    """The rows of a unit and those around it, by key.

    Attributes
    ----------
    keys
        Their order by key; rows are those carried from before, of the unit, from after.
    runs
        Where keys begin, and the places of the unit's rows in each.
    order
        The rows of the unit in key order; None where they are in place.
    start, stop
        Which of the rows are those of the unit.
    kept
        Of what was carried from before and from after the values that are among the rows.
    """

    keys: KeyOrder
    runs: KeyRuns
    order: Codes | None
    start: int
    stop: int
    kept: tuple[slice, slice]

    def column(
        self, before: pa.ChunkedArray, own: pa.ChunkedArray, after: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """Return a column of the rows: of lists that were carried, and of the unit between them."""
        edges = (list_values(each) for each in (before, after))
        first, last = (each[kept] for each, kept in zip(edges, self.kept, strict=True))
        return pa.chunked_array([first, *own.chunks, last], type=own.type)

    def restored(self, column: Column) -> Column:
        """Return a value a row of the unit, in key order, in the order of its rows."""
        return column if self.order is None else in_rows(column, self.order)


@dataclass(frozen=True)
class Reach:
    """How far a clause looks, in rows of a key, and what it looks at.

    Attributes
    ----------
    back, ahead
        Rows of the same key before and after a row that its result may depend on.
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    back: int
    ahead: int

    @property
    def carries(self) -> Carry | None:
        """From which side rows of other units matter."""
        if self.back:
            return Carry.BOTH if self.ahead else Carry.BEFORE
        return Carry.AFTER if self.ahead else None

    def schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of the carry: keys, then lists of values."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        return pa.schema([*fields, *list_fields(self.columns, input_schema)])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit at its edges."""
        keyed = keyed_rows(unit, self.by)
        begins, ends = keyed.order.bounds[:-1], keyed.order.bounds[1:]
        head = begins + np.minimum(self.ahead, ends - begins)
        tail = np.maximum(ends - np.minimum(self.back, ends - begins), head)
        firsts, lasts = np.stack([begins, tail], 1), np.stack([head, ends], 1)
        rows = rows_of_runs(firsts, lasts, keyed.order.order)
        values = [taken(unit.column(name), rows) for name in self.columns]
        ends = ends_of(firsts, lasts)[: keyed.groups + 1]
        return _carry(keyed, ends, values, self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return the rows at the edges of two runs."""
        keyed = keyed_carries(earlier, later, self.by)
        (begin, end), (more, stop) = key_runs(
            np.split(keyed.codes, [earlier.num_rows]), keyed.groups, earlier, later
        )
        passed, rows = end - begin, (end - begin) + (stop - more)
        # What lies between the first and the last rows of a key, in both runs, is dropped.
        head = np.minimum(self.ahead, rows)
        tail = np.maximum(rows - np.minimum(self.back, rows), head)
        (near, left), (far, right) = (
            (begin + np.minimum(each, passed), more + np.maximum(each - passed, 0))
            for each in (head, tail)
        )
        firsts, lasts = np.stack([begin, far, more, right], 1), np.stack([near, end, left, stop], 1)
        values = joined_values(earlier, later, rows_of_runs(firsts, lasts))
        return _carry(keyed, ends_of(firsts, lasts), values, earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether of each key of a unit enough rows were seen after it."""
        keyed = keyed_carries(summary, after, self.by)
        own, others = np.split(keyed.codes, [summary.num_rows])
        ((more, stop),) = key_runs([others], keyed.groups, after)
        seen = (stop - more)[own]
        return bool((seen >= self.ahead).all())

    def around(self, unit: ProcessingUnit, before: pa.Table, after: pa.Table) -> Around:
        """Return the rows of a unit with those around it."""
        return rows_around(unit, self.by, before, after, self.back, self.ahead)


def rows_around(
    unit: ProcessingUnit,
    by: Sequence[str],
    before: pa.Table,
    after: pa.Table,
    back: int | None = None,
    ahead: int | None = None,
) -> Around:
    """Return the rows of a unit, by key, with those that were carried from before and after.

    Parameters
    ----------
    before, after
        A row a key, lists behind the columns of keys.
    back, ahead
        How many of the last rows before and of the first rows after a key has; None for all.
    """
    keyed = keyed_rows(unit, by)
    codes, groups = keyed.numbers(before, after)
    (begin, end), (more, stop) = key_runs(codes, groups, before, after)
    if back is not None:
        begin = end - np.minimum(back, end - begin)
    if ahead is not None:
        stop = more + np.minimum(ahead, stop - more)
    start, rows = int(end.max(initial=0)), unit.num_rows
    if groups == 1:
        return _of_one_key(rows, *(int(each[0]) for each in (begin, end, more, stop)))
    own = np.full(groups + 1, rows)
    own[: len(keyed.order.bounds)] = keyed.order.bounds
    firsts = np.stack([begin, own[:-1] + start, more + rows], 1)
    lasts = np.stack([end, own[1:] + start, stop + rows], 1)
    # The rows of a unit of one key are in its order as they are.
    places = np.arange(rows) if keyed.order.order is None else keyed.order.order
    order, bounds = rows_of_runs(firsts, lasts, places, start), ends_of(firsts, lasts)
    first = bounds[:-1] + (end - begin)
    runs = KeyRuns(bounds, first, first + np.diff(own))
    return Around(KeyOrder(order, bounds), runs, places, start, start + rows, _ALL)


def _of_one_key(rows: int, begin: int, end: int, more: int, stop: int) -> Around:
    """Return the rows of a unit between those of carries, which are in place as they are."""
    first = end - begin
    runs = KeyRuns.of_one(first + rows + stop - more, first, first + rows)
    kept = slice(begin, end), slice(more - end, stop - end)
    return Around(KeyOrder(None, runs.bounds), runs, None, first, first + rows, kept)


_ALL = slice(None), slice(None)


_TIME = "time"


@dataclass(frozen=True)
class TimeReach:
    """How far a clause looks in time, and what it looks at.

    Attributes
    ----------
    back, ahead
        Time before and after that of a row that its result may depend on, in units of the index,
        both ends included; None looks to that side not at all, 0 at rows of the same time.
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    back: int
    ahead: int | None

    @property
    def carries(self) -> Carry:
        """From which side rows of other units matter."""
        return Carry.BEFORE if self.ahead is None else Carry.BOTH

    def schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of the carry: keys, then lists of values and times."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        if self.columns:
            fields += list_fields(self.columns, input_schema)
        time = pa.field(_TIME, pa.large_list(input_schema.type_of(index_of(input_schema))))
        return pa.schema([*fields, time])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit near its first and its last time."""
        index = unit.column(index_of(unit.schema))
        near = np.flatnonzero(self._near_edges(index_integers(index, _TIME)))
        keyed = keyed_rows(unit, self.by)
        order, bounds = rows_by_code(keyed.codes[near], keyed.groups)
        columns = [*(unit.column(name) for name in self.columns), index]
        values = [taken(column, near[order]) for column in columns]
        return _carry(keyed, bounds, values, self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return the rows near the first and the last time of two runs."""
        keyed = keyed_carries(earlier, later, self.by)
        codes = np.split(keyed.codes, [earlier.num_rows])
        (begin, end), (more, stop) = key_runs(codes, keyed.groups, earlier, later)
        firsts, lasts = np.stack([begin, more], 1), np.stack([end, stop], 1)
        rows = rows_of_runs(firsts, lasts)
        *_, column = joined_values(earlier.select([_TIME]), later.select([_TIME]), rows)
        near = self._near_edges(index_integers(column, _TIME))
        bounds = np.append(0, np.cumsum(near))[ends_of(firsts, lasts)]
        values = joined_values(earlier, later, rows[near])
        return _carry(keyed, bounds, values, earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether a row was seen that is too late to matter to a unit."""
        if self.ahead is None or not summary.num_rows:
            return True
        if not after.num_rows:
            return False
        last, seen = (_times(table).max() for table in (summary, after))
        return int(seen) > int(last) + self.ahead

    def around(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> tuple[Around, NDArray[np.int64]]:
        """Return the rows of a unit with those around it, and their times by key."""
        around = rows_around(unit, self.by, before, after)
        own = unit.column(index_of(unit.schema))
        times = around.column(before.column(_TIME), own, after.column(_TIME))
        return around, around.keys.arranged(index_integers(times, _TIME))

    def _near_edges(self, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are near the first time or the last; of times in any order."""
        if not len(times):
            return np.zeros(0, np.bool_)
        # In Python's integers: the ends of time may lie past 64 bits.
        near: NDArray[np.bool_] = times >= _clipped(int(times.max()) - self.back)
        if self.ahead is not None:
            near |= times <= _clipped(int(times.min()) + self.ahead)
        return near


def _carry(
    keyed: KeyedRows, bounds: Codes, values: Sequence[Column], schema: pa.Schema
) -> pa.Table:
    """Return values by key as a carry; keys without any are none of it."""
    chosen = np.flatnonzero(np.diff(bounds))
    keys = [taken(each, chosen) for each in keyed.keys]
    return pa.table([*keys, *lists(np.append(bounds[chosen], bounds[-1]), values)], schema=schema)


def _times(carry: pa.Table) -> NDArray[np.int64]:
    return index_integers(list_values(carry.column(_TIME)), _TIME)


def _clipped(time: int) -> int:
    limits = np.iinfo(np.int64)
    return min(max(time, limits.min), limits.max)

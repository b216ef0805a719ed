"""Rows of other units near in time: the carry of clauses that look some time back or ahead.

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
    Column,
    KeyedRows,
    key_fields,
    keyed_carries,
    keyed_rows,
    taken,
)
from tessel.clauses.along_rows.neighbours import Around, rows_around
from tessel.clauses.base import Carry
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.kernels.rows_by_code import rows_by_code, rows_of_runs
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers

__all__ = ["TimeReach"]

_TIME = "time"


@dataclass(frozen=True)
class TimeReach:
    """How far a clause looks in time, and what it looks at.

    Attributes
    ----------
    columns, by
        The columns that are read, and the keys.
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
        assert input_schema.index is not None  # a window of time was refused without one
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        if self.columns:
            fields += list_fields(self.columns, input_schema)
        time = pa.field(_TIME, pa.large_list(input_schema.type_of(input_schema.index)))
        return pa.schema([*fields, time])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit near its first and its last time."""
        assert unit.schema.index is not None
        index = unit.column(unit.schema.index)
        near = np.flatnonzero(self._near_edges(index_integers(index, _TIME)))
        keyed = keyed_rows(unit, self.by)
        order, bounds = rows_by_code(keyed.codes[near], keyed.groups)
        columns = [*(unit.column(name) for name in self.columns), index]
        values = [taken(column, near[order]) for column in columns]
        return self._carry(keyed, bounds, values, self.schema(unit.schema))

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
        return self._carry(keyed, bounds, values, earlier.schema)

    def _carry(
        self,
        keyed: KeyedRows,
        bounds: NDArray[np.int64],
        values: Sequence[Column],
        schema: pa.Schema,
    ) -> pa.Table:
        """Return values by key as a carry; keys without any are none of it."""
        chosen = np.flatnonzero(np.diff(bounds))
        keys = [taken(each, chosen) for each in keyed.keys]
        return pa.table(
            [*keys, *lists(np.append(bounds[chosen], bounds[-1]), values)], schema=schema
        )

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
        assert unit.schema.index is not None
        around = rows_around(unit, self.by, before, after)
        own = unit.column(unit.schema.index)
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


def _times(carry: pa.Table) -> NDArray[np.int64]:
    return index_integers(list_values(carry.column(_TIME)), _TIME)


def _clipped(time: int) -> int:
    limits = np.iinfo(np.int64)
    return min(max(time, limits.min), limits.max)

"""Rows of other units near in time: the carry of clauses that look some time back or ahead.

Of a run of rows those are carried whose time is no more than ``ahead`` after its first, or ``back``
before its last, copied, with their keys, times, and the columns that are read. Rows are in time
order, so those of a key are, too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.along_rows.key_order import KeyOrder, codes_of_parts, key_fields, plain_keys
from tessel.clauses.along_rows.neighbours import Around, carried_keys, values_around
from tessel.clauses.base import Carry
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
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
        """Return the columns of the carry: keys, the time, values."""
        assert input_schema.index is not None  # a window of time was refused without one
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        fields.append(pa.field(_TIME, input_schema.type_of(input_schema.index)))
        fields += [
            pa.field(f"value_{at}", input_schema.type_of(name))
            for at, name in enumerate(self.columns)
        ]
        return pa.schema(fields)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit near its first and its last time."""
        assert unit.schema.index is not None
        index = unit.column(unit.schema.index)
        rows = self._near_edges(index_integers(index, _TIME))
        keys = plain_keys([unit.column(name) for name in self.by], rows)
        values = [unit.column(name).take(arrow_array(rows)) for name in self.columns]
        time = index.take(arrow_array(rows))
        return pa.table([*keys, time, *values], schema=self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return the rows near the first and the last time of two runs."""
        both = pa.concat_tables([earlier, later])
        rows = self._near_edges(index_integers(both.column(_TIME), _TIME))
        return both if len(rows) == both.num_rows else both.take(arrow_array(rows))

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether a row was seen that is too late to matter to a unit."""
        if self.ahead is None or not summary.num_rows:
            return True
        if not after.num_rows:
            return False
        last, seen = (index_integers(table.column(_TIME), _TIME)[-1] for table in (summary, after))
        return int(seen) > int(last) + self.ahead

    def around(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> tuple[Around, NDArray[np.int64]]:
        """Return the rows of a unit with those around it, and the times of all of them."""
        assert unit.schema.index is not None
        parts = [
            carried_keys(before, self.by),
            [unit.column(name) for name in self.by],
            carried_keys(after, self.by),
        ]
        codes, groups = codes_of_parts(parts, [before.num_rows, unit.num_rows, after.num_rows])
        columns = (before.column(_TIME), unit.column(unit.schema.index), after.column(_TIME))
        times = np.concatenate([index_integers(column, _TIME) for column in columns])
        keys = KeyOrder.of_codes(np.concatenate(codes), groups)
        table = values_around(unit, before, after, self.columns)
        start = before.num_rows
        return Around(table, keys, start, start + unit.num_rows), times

    def _near_edges(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(times):
            return np.zeros(0, np.int64)
        near = np.zeros(len(times), np.bool_)
        # In Python's integers: the ends of time may lie past 64 bits.
        near[_place(times, int(times[-1]) - self.back, "left") :] = True
        if self.ahead is not None:
            near[: _place(times, int(times[0]) + self.ahead, "right")] = True
        found: NDArray[np.int64] = np.flatnonzero(near)
        return found


def _place(times: NDArray[np.int64], time: int, side: str) -> int:
    limits = np.iinfo(np.int64)
    clipped = min(max(time, limits.min), limits.max)
    return int(np.searchsorted(times, clipped, side="left" if side == "left" else "right"))

"""latest_at: what was known at given times."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, different
from tessel.clauses.along_rows.key_order import KeyedRows, KeyOrder, keyed_rows
from tessel.clauses.along_rows.ordered import CarryingClause, check_keys, check_names
from tessel.clauses.base import Carry, ClauseInfo, IndexEffect
from tessel.clauses.grouped.grouping import order_of_keys
from tessel.clauses.index_values import index_integers, index_of, with_times_of_index
from tessel.clauses.registry import register
from tessel.clauses.values import of_integers, plain
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError
from tessel.expression.periods import instant_units
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

Instant = int | str


@register
@dataclass(frozen=True)
class LatestAt(CarryingClause):
    """For each of some times, the last row at or before it; of each key, where there are keys.

    Attributes
    ----------
    times
        ISO text, an instant each; whole numbers where the index has them. A partial text is its
        first instant, and text without a zone is in that of the index. They are taken in time
        order, each once.
    by
        Keys: a missing key is a key like others.
    origin
        Name of a column that gets the time of the row itself; by default it is not kept.

    Notes
    -----
    The index of the result is the time that was asked for; rows come out by time, then by key, the
    missing key last. Of several rows of one time the last one counts, also where values in it are
    missing. A time, or a key at it, before which there is no row has none in the result.
    """

    name: ClassVar[str] = "latest_at"
    times: tuple[Instant, ...]
    by: tuple[str, ...] = ()
    origin: str | None = None

    def __post_init__(self) -> None:
        for time in self.times:
            if isinstance(time, bool) or not isinstance(time, int | str):
                raise PlanError(
                    f"latest_at: {time!r} is no time that a plan can hold",
                    hint="give ISO text, or whole numbers for an index of integers",
                )
        check_names(self.name, [*self.by, *(() if self.origin is None else (self.origin,))])

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out; the times that were asked for are the index."""
        return ClauseInfo(
            adds=frozenset(() if self.origin is None else (self.origin,)),
            uses_index=True,
            keeps_order=False,
            index=IndexEffect.REPLACE,
            carries=Carry.BOTH,
            coded=frozenset(self.by),
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema, with the origin added; refuse what is no time of the index."""
        input_schema.require(self.by, where=self.name)
        check_keys(self.by, input_schema)
        index = index_of(input_schema, self.name)
        if index in self.by:
            raise PlanError(
                f"latest_at: the index {index!r} is no key: at each time it has one value",
                hint="leave it out of by",
            )
        self._targets(input_schema.type_of(index))
        if self.origin is None:
            return input_schema
        if self.origin in input_schema:
            raise DuplicateColumnError(
                f"latest_at: there is a column {self.origin!r} already",
                hint="give the origin another name",
                column=self.origin,
            )
        return input_schema.with_column(self.origin, input_schema.type_of(index))

    def _targets(self, kind: pa.DataType) -> NDArray[np.int64]:
        """Return the times in units of the index: ascending, each once."""
        if pa.types.is_integer(kind):
            limits = np.iinfo(kind.to_pandas_dtype())
            for time in self.times:
                if isinstance(time, str) or not limits.min <= time <= limits.max:
                    raise PlanError(f"latest_at: {time!r} is no value of an index of {kind}")
            numbers = set(self.times)
        else:
            numbers = {_units(time, kind) for time in self.times}
        return np.array(sorted(numbers), np.int64)

    # --- what is carried --------------------------------------------------------------------------

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the first time, and the columns of the last row of each key."""
        fields = [pa.field("first_time", pa.int64())]
        fields += [
            pa.field(f"column_{at}", field.type) for at, field in enumerate(input_schema.arrow)
        ]
        return pa.schema(fields)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the last row of each key, with the first time of the unit."""
        rows = _last_rows(keyed_rows(unit, self.by))
        times = index_integers(unit)
        first = arrow_array(np.full(len(rows), times[0] if len(times) else 0, np.int64))
        columns = [column.take(arrow_array(rows)) for column in unit.table.columns]
        return pa.table([first, *columns], schema=self.carry_schema(unit.schema))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return the last row of each key of both, with the first time of all."""
        both = concat_tables([earlier, later])
        keys = [both.column(1 + schema.names.index(name)) for name in self.by]
        rows = _last_rows(KeyedRows.of(keys, both.num_rows))
        first = both.column("first_time").take(arrow_array(np.zeros(len(rows), np.int64)))
        return both.take(arrow_array(rows)).set_column(0, both.schema.field(0), first)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether it is known when the next rows come."""
        return bool(summary.num_rows == 0 or after.num_rows)

    # --- computing --------------------------------------------------------------------------------

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Answer for the times from the first row of a unit until the first row after it."""
        index = index_of(unit.schema)
        kind = unit.schema.type_of(index)
        own = index_integers(unit)
        targets = self._targets(kind)
        low = np.searchsorted(targets, own[0]) if len(own) else len(targets)
        high = len(targets)
        if after.num_rows:
            high = int(np.searchsorted(targets, after.column("first_time")[0].as_py()))
        targets = targets[low : max(low, high)]
        known = before.drop_columns(["first_time"]).rename_columns(unit.schema.names)
        both = concat_tables([known, unit.table])
        times, rows = self._latest(unit, both, own, targets)
        found = both.take(arrow_array(rows))
        if self.origin is not None:
            found = found.append_column(self.origin, found.column(index))
        at, asked = unit.schema.names.index(index), of_integers(times, kind)
        found = found.set_column(at, pa.field(index, kind), asked)
        return with_times_of_index(unit.replace(found, index=index))

    def _latest(
        self,
        unit: ProcessingUnit,
        both: pa.Table,
        own: NDArray[np.int64],
        targets: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the time that was asked for and the row of ``both`` of each answer, in order."""
        if not both.num_rows or not len(targets):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys = [plain(both.column(name)) for name in self.by]
        carried, keyed = both.num_rows - unit.num_rows, keyed_rows(unit, self.by)
        known = both.slice(0, carried)
        if keys:
            names = [f"key_{at}" for at in range(len(keys))]
            known = pa.table([each.slice(0, carried) for each in keys], names=names)
        (codes,), groups = keyed.numbers(known)
        order = KeyOrder.of_codes(np.concatenate([codes, keyed.codes]), groups)
        starts = different(order.start)
        first_rows = order.rows_at(starts)
        by_key = np.arange(len(starts))
        if keys:
            by_key = order_of_keys([column.take(arrow_array(first_rows)) for column in keys])
        # Rows ascend within a key: its number and the row make one ascending number.
        stride = both.num_rows + 1
        rows = order.places if order.order is None else order.order
        numbers = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order))) * stride
        seen = carried + np.searchsorted(own, targets, side="right")
        places = np.searchsorted(numbers + rows, by_key * stride + seen[:, None]) - 1
        there = places >= starts[by_key]
        asked = np.broadcast_to(targets[:, None], places.shape)
        return asked[there], order.rows_at(places[there])


def _last_rows(keyed: KeyedRows) -> NDArray[np.int64]:
    """Return the last row of each key, ascending."""
    last = np.zeros(keyed.groups, np.int64)
    last[keyed.codes] = np.arange(len(keyed.codes))  # the last to be written stays
    last.sort()
    return last


def _units(time: Instant, kind: pa.DataType) -> int:
    if not isinstance(time, str):
        raise PlanError(
            f"latest_at: {time!r} is no time of an index of {kind}", hint="give it as ISO text"
        )
    units = instant_units(time, kind)
    if units is None:
        raise PlanError(
            f"latest_at: {time!r} is finer than the index of {kind}",
            hint="give times of whole units of the index",
        )
    return units

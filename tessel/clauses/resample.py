"""resample: one row a time bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.buckets import Bucketer, bucketer_for
from tessel.clauses.group_tables import complete_table, partial_schema, partial_table
from tessel.clauses.index_values import index_integers, with_times_of_index
from tessel.clauses.named_aggregate import NamedAggregate, check_outputs
from tessel.clauses.registry import register
from tessel.clauses.structures import StructuredUnits, UnitFacts, structure_by_time_bucket
from tessel.ecs import ProcessingUnit
from tessel.ecs.components import RowRange, TimeRange
from tessel.errors import ExecutionError, IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.store import SegmentIndex

__all__ = ["PartialResample", "Resample"]

_DATA_ORIGINS = ("start", "start_day", "end", "end_day")


@dataclass(frozen=True)
class _Resampling(Clause):
    """What the two forms of resample share: the rule, the aggregates, and the buckets."""

    rule: str
    aggregates: tuple[NamedAggregate, ...]
    closed: Literal["left", "right"] = "left"
    label: Literal["left", "right"] = "left"
    origin: str = "epoch"
    offset: str | None = None

    def __post_init__(self) -> None:
        for name, side in (("closed", self.closed), ("label", self.label)):
            if side not in ("left", "right"):
                raise PlanError(f"resample: {name} is {side!r}", hint="it is left or right")
        if self.origin in _DATA_ORIGINS:
            raise PlanError(
                f"resample: the origin {self.origin!r} is not supported",
                hint='use "epoch", or an instant as ISO text',
            )

    def bucketer(self, schema: TableSchema) -> Bucketer:
        """Return the buckets of the rule for the index of a table."""
        if schema.index is None:
            raise IndexColumnError.required("resample")
        kind = schema.type_of(schema.index)
        return bucketer_for(
            self.rule, kind, closed=self.closed, origin=self.origin, offset=self.offset
        )

    def labels(self, numbers: np.ndarray, schema: TableSchema) -> pa.Array:
        """Return the label of each bucket, of the type of the index."""
        edges = self.bucketer(schema).edges(numbers + (self.label == "right"))
        assert schema.index is not None  # bucketer() refused a table without one
        return pa.array(edges, pa.int64()).view(schema.type_of(schema.index))

    def _check(self, schema: TableSchema) -> str:
        self.bucketer(schema)
        assert schema.index is not None
        check_outputs([schema.index], self.aggregates, "resample")
        for each in self.aggregates:
            each.result_type(schema)
        return schema.index


@register
@dataclass(frozen=True)
class Resample(_Resampling):
    """One row a time bucket that has rows: the bucket's label as index, then each aggregate.

    Attributes
    ----------
    rule
        Length of a bucket: ``"15s"``, ``"1h30min"``, ``"1D"``. Days are calendar days in the zone
        of the index; hours and less are elapsed time.
    aggregates
        What to compute; first and last skip missing values.
    closed, label
        Which edge of a bucket belongs to it, and which one it is labelled with.
    origin
        ``"epoch"`` or ISO text: an instant at which a bucket starts.
    offset
        A rule by which all edges are moved.
    """

    name: ClassVar[str] = "resample"

    @property
    def structure(self) -> ClauseInfo:
        """Time buckets in, time buckets out; the label is the index of the result."""
        return ClauseInfo(
            Structure.TIME_BUCKETED,
            Structure.TIME_BUCKETED,
            columns=frozenset().union(*(each.columns for each in self.aggregates)),
            adds=frozenset(each.output for each in self.aggregates),
            uses_index=True,
            index=IndexEffect.REPLACE,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the index, then the outputs; refuse a table without a time index."""
        index = self._check(input_schema)
        fields = [pa.field(index, input_schema.type_of(index))]
        fields += [
            pa.field(each.output, each.result_type(input_schema)) for each in self.aggregates
        ]
        return TableSchema(pa.schema(fields), index)

    def structure_units(self, index: SegmentIndex) -> StructuredUnits:
        """Group row slices whose buckets touch, from their first and last time alone."""
        bucketer = self.bucketer(index.schema)
        assert index.slice_first_time is not None
        assert index.slice_last_time is not None
        first = bucketer.numbers(index.slice_first_time)
        last = bucketer.numbers(index.slice_last_time)
        members = [np.flatnonzero(index.slice_number == s).tolist() for s in range(index.slices)]
        units = structure_by_time_bucket(first, last)
        return StructuredUnits(index, [[p for s in unit for p in members[s]] for unit in units])

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Group what the stage before left by the time ranges it came from."""
        bucketer = self.bucketer(schema)
        slices: dict[tuple[int, RowRange, TimeRange], list[int]] = {}
        for position, facts in enumerate(units):
            if facts.rows == 0:
                continue  # a piece without rows is in no bucket
            if facts.time_range is None:
                raise ExecutionError(
                    "resample needs the time range of every piece, and a clause left one without",
                    hint="return what a method of the unit returns, such as unit.replace(table)",
                    clause=self.name,
                )
            slices.setdefault((facts.unit, facts.row_range, facts.time_range), []).append(position)
        first = bucketer.numbers(np.array([t.first for *_, t in slices], dtype=np.int64))
        last = bucketer.numbers(np.array([t.last for *_, t in slices], dtype=np.int64))
        members = list(slices.values())
        groups = structure_by_time_bucket(first, last)
        return [[p for slice_ in group for p in members[slice_]] for group in groups]

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Aggregate the buckets that are this unit's own.

        A front piece that an earlier unit fetches too leaves its first bucket there, and rows past
        the front slice's last bucket belong to the units after.
        """
        bucketer = self.bucketer(unit.schema)
        table = unit.table
        numbers = bucketer.numbers(index_integers(unit))
        front = unit.pieces[0] if unit.pieces else None
        if front is not None and front.time_range is not None:
            bounds = np.array([front.time_range.first, front.time_range.last], dtype=np.int64)
            low, high = bucketer.numbers(bounds)
            low += front.planned_fetches > 1
            start, stop = np.searchsorted(numbers, [low, high + 1])
            table, numbers = table.slice(start, stop - start), numbers[start:stop]
        name = unit.schema.index
        assert name is not None
        labels = self.labels(numbers, unit.schema)
        others = table.drop_columns([name]) if name in table.column_names else table
        keyed = others.append_column(_KEY, labels)
        if any(each.column == name for each in self.aggregates):
            keyed = keyed.append_column(name, table.column(name))
        result, _ = complete_table(keyed, [_KEY], self.aggregates)
        names = [name if column == _KEY else column for column in result.column_names]
        return with_times_of_index(unit.replace(result.rename_columns(names), index=name))


_KEY = "\0bucket"


@register
@dataclass(frozen=True)
class PartialResample(_Resampling):
    """One row a time bucket of this unit: the label, and the state of each aggregate."""

    name: ClassVar[str] = "partial_resample"
    internal: ClassVar[bool] = True

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset().union(*(each.columns for each in self.aggregates)),
            adds=frozenset(each.output for each in self.aggregates),
            uses_index=True,
            index=IndexEffect.REPLACE,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the label and the states."""
        index = self._check(input_schema)
        return TableSchema(partial_schema([index], self.aggregates, input_schema), index)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Reduce the unit; its buckets are runs, since the index never goes back."""
        name = unit.schema.index
        assert name is not None
        numbers = self.bucketer(unit.schema).numbers(index_integers(unit))
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        codes = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(numbers)))
        keys = [self.labels(numbers[starts], unit.schema)]
        partial = partial_table(
            unit.table, codes, len(starts), keys, [name], self.aggregates, unit.schema
        )
        return unit.replace(partial, index=name)

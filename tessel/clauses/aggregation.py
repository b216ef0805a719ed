"""aggregation: one row a group (the second half of groupby), and the forms it is run in.

Where every aggregate merges, the planner runs ``partition`` + ``aggregation`` as one
:class:`PartialAggregation` per unit followed by one :class:`MergeAggregation`; elsewhere as hash
buckets followed by a sort of the groups.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.base import (
    Clause,
    ClauseInfo,
    IndexEffect,
    LoweredClause,
    StreamClause,
    Structure,
)
from tessel.clauses.computed import columns_of_keys, key_fields, key_names, stored_names
from tessel.clauses.grouped.group_merging import GroupMerge
from tessel.clauses.grouped.group_states import (
    POSITION,
    GroupShape,
    complete_table,
    parts_to_reduce,
)
from tessel.clauses.grouped.grouping import group_codes, order_of_keys
from tessel.clauses.grouped.kernel_reductions import all_reducible
from tessel.clauses.grouped.partial_groups import PartialGroups, joined_groups
from tessel.clauses.grouped.scanned_groups import scanned_groups
from tessel.clauses.reducing import Reducing
from tessel.clauses.registry import register
from tessel.clauses.results import AggregatingClause, NamedAggregate
from tessel.clauses.spill.workspace import Workspace, workspace_of
from tessel.clauses.units.bound_unit import is_bound
from tessel.clauses.units.reduced import ReducedUnit, groups_of, units_of_tables
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers
from tessel.store.manifest.batch import Batch


def _grouped_schema(
    keys: tuple[str | ComputedColumn, ...],
    aggregates: tuple[NamedAggregate, ...],
    schema: TableSchema,
) -> TableSchema:
    fields = key_fields(keys, schema)
    fields += [pa.field(each.output, each.result_type(schema)) for each in aggregates]
    return TableSchema(pa.schema(fields))


@register
@dataclass(frozen=True)
class Aggregation(AggregatingClause):
    """One row a group: the keys, then each aggregate under its output name.

    Attributes
    ----------
    keys
        The keys, the same as those of the partition before; none makes one group.
    aggregates
        What to compute. Missing values are skipped (see the table of result types).
    sort
        Whether groups come out by key, missing last; otherwise in order of first appearance.
    results
        The outputs, where some compute with the results of aggregates.
    """

    name: ClassVar[str] = "aggregation"
    keys: tuple[str | ComputedColumn, ...]
    aggregates: tuple[NamedAggregate, ...]
    sort: bool = True
    results: tuple[ComputedColumn, ...] = ()

    def __post_init__(self) -> None:
        self.check_results(key_names(self.keys))

    @property
    def structure(self) -> ClauseInfo:
        """Hash buckets in, hash buckets out; without keys everything in, row slices out."""
        return ClauseInfo(
            Structure.HASH_BUCKETED if self.keys else Structure.ALL,
            Structure.HASH_BUCKETED if self.keys else Structure.ROW_SLICE,
            columns=columns_of_keys(self.keys).union(*(each.columns for each in self.aggregates)),
            adds=self.output_names,
            keeps_order=False,
            index=IndexEffect.DROP,
            whole=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return keys and outputs; a hidden position column is handed on for the order."""
        fields = [*key_fields(self.keys, input_schema), *self.output_fields(input_schema)]
        schema = TableSchema(pa.schema(fields))
        return schema.with_column(POSITION, pa.int64()) if POSITION in input_schema else schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Aggregate one bucket, in which every group is whole."""
        self.check_planned()
        table, keys = unit.table, stored_names(self.keys)
        result, first_row = complete_table(table, keys, self.aggregates)
        if POSITION in unit.schema:
            result = result.append_column(
                POSITION, table.column(POSITION).take(arrow_array(first_row))
            )
        elif self.sort and keys:
            columns = [result.column(key) for key in keys]
            result = result.take(arrow_array(order_of_keys(columns)))
        bucket = unit.pieces[0].bucket if unit.pieces else None
        return unit.replace(result, bucket=bucket)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Aggregate one bucket of which not all can be held; see :func:`aggregate_rows`."""
        keys = stored_names(self.keys)
        outputs = self.aggregates
        if POSITION in schema:
            outputs = (*outputs, NamedAggregate(POSITION, POSITION, find_aggregate("first")))
        names = self.output_schema(schema).names
        if any(each.further for each in outputs if not has_compact_state(each.aggregate)):
            pieces = [piece for unit in units for piece in unit.pieces]
            yield self.process(ProcessingUnit(0, schema, pieces))
            return
        with workspace_of(units) as workspace:
            from tessel.clauses.grouped.ordered_aggregation import aggregate_rows

            tables = (unit.table for unit in units)
            found = aggregate_rows(tables, schema, keys, outputs, workspace)
            yield from units_of_tables((table.select(names) for table in found), None)


@register
@dataclass(frozen=True)
class PartialAggregation(Reducing):
    """One row a group of this unit: keys, and the state of each aggregate.

    Attributes
    ----------
    sort
        Whether the result is in the order of keys; else partials are in that of first appearance.
    """

    name: ClassVar[str] = "partial_aggregation"
    internal: ClassVar[bool] = True
    keys: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    drop_missing: bool = True
    sort: bool = True

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out."""
        columns = frozenset(self.keys).union(*(each.columns for each in self.aggregates))
        return ClauseInfo(
            columns=columns,
            adds=frozenset(each.output for each in self.aggregates),
            keeps_order=False,
            index=IndexEffect.DROP,
            stored=columns if all_reducible(self.aggregates) else frozenset(),
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return keys and states."""
        return self.shape(input_schema).table_schema

    def joins(self) -> bool:
        """Return whether states do not grow with the rows."""
        return self.is_reducible

    def shape_of(self, schema: TableSchema) -> GroupShape:
        """Return the shape: groups by the keys."""
        _grouped_schema(self.keys, self.aggregates, schema)
        return GroupShape(self.keys, self.aggregates, schema)

    @property
    def coded_keys(self) -> frozenset[str]:
        """Keys that no aggregate reads: they are wanted for the result only."""
        return frozenset(self.keys).difference(*(each.columns for each in self.aggregates))

    def of_stored(
        self, rows: Sequence[Batch], shape: GroupShape, *, by_appearance: bool
    ) -> list[PartialGroups] | None:
        """Reduce rows as they are stored."""
        by_appearance = by_appearance or not self.sort
        return scanned_groups(
            rows, shape, drop_missing=self.drop_missing, by_appearance=by_appearance
        )

    def of_values(self, unit: ProcessingUnit, shape: GroupShape) -> list[PartialGroups]:
        """Reduce values, some rows after others; keys that nothing else reads are codes."""
        if is_bound(unit):
            unit = unit.as_codes(self.coded_keys)
        return [self._partial(part, shape) for part in parts_to_reduce(unit.table_as_read)]

    def _partial(self, table: pa.Table, shape: GroupShape) -> PartialGroups:
        if not self.keys:
            return PartialGroups.of_rows(shape, table, np.zeros(table.num_rows, np.int64), 1, [])
        columns = [table.column(key) for key in self.keys]
        found = group_codes(columns, drop_missing=self.drop_missing)
        if found.rows is not None:
            table = table.take(arrow_array(found.rows))
        return PartialGroups.of_rows(shape, table, found.codes, len(found), found.keys)


@register
@dataclass(frozen=True)
class MergeAggregation(LoweredClause, StreamClause):
    """Merge the partials of all units into the groups.

    Attributes
    ----------
    source
        Schema of the rows before they were reduced: the states alone do not tell every type.
    index
        Key column that is the time index of the result; None without one.
    """

    name: ClassVar[str] = "merge_aggregation"
    internal: ClassVar[bool] = True
    keys: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema
    sort: bool = True
    index: str | None = None

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out."""
        return ClauseInfo(
            Structure.ALL,
            keeps_order=False,
            index=IndexEffect.DROP if self.index is None else IndexEffect.REPLACE,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return keys and outputs."""
        grouped = _grouped_schema(self.keys, self.aggregates, self.source)
        return TableSchema(grouped.arrow, self.index)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Merge partials as they come, within the byte budget."""
        with workspace_of(units) as workspace:
            shape = GroupShape(self.keys, self.aggregates, self.source)
            parts = (part for unit in units for part in groups_of(unit, shape))
            merging = self._together if self.index is None else self._along_time
            tables = self._named(merging(parts, shape, workspace))
            yield from units_of_tables(tables, self.index, workspace)

    def combined(self, units: Sequence[ProcessingUnit]) -> ProcessingUnit:
        """Merge the partials of some units, which stay partials."""
        shape = GroupShape(self.keys, self.aggregates, self.source)
        parts = [part for unit in units for part in groups_of(unit, shape)]
        return ReducedUnit.of(units[0], units[0].schema, [joined_groups(parts).compacted()])

    def parted(self, buckets: int) -> Clause | None:
        """Return the partition by keys; None where groups come out as they appeared."""
        from tessel.clauses.partition import Partition

        if not (self.keys and self.sort and self.index is None):
            return None
        return Partition(self.keys, drop_missing=False, buckets=buckets)

    def _together(
        self, parts: Iterable[PartialGroups], shape: GroupShape, workspace: Workspace
    ) -> Iterator[pa.Table]:
        """Merge all partials, and give the groups when the last has come."""
        positions = bool(self.keys) and not self.sort
        with GroupMerge(shape, workspace, sort=self.sort, positions=positions) as groups:
            for part in parts:
                groups.add(part)
            yield from groups.ordered()

    def _along_time(
        self, parts: Iterable[PartialGroups], shape: GroupShape, workspace: Workspace
    ) -> Iterator[pa.Table]:
        """Merge partials of which the first key never goes back; give groups when all are full.

        Rows of the last time may be followed by more of it; those of times before it are complete.
        """
        with contextlib.ExitStack() as stack:
            groups = stack.enter_context(GroupMerge(shape, workspace, sort=self.sort))
            last: PartialGroups | None = None
            for part in parts:
                if not part.num_rows:
                    continue
                if last is not None and groups.is_full(part.nbytes):
                    ends = self._times(last.take(np.array([last.num_rows - 1])))
                    same = int(np.searchsorted(self._times(part), ends[0], side="right"))
                    if same < part.num_rows:
                        groups.add_last(part.take(np.arange(same)))
                        part = part.take(np.arange(same, part.num_rows))
                        yield from groups.ordered()
                        stack.close()
                        groups = stack.enter_context(GroupMerge(shape, workspace, sort=self.sort))
                groups.add(part)
                last = part
            yield from groups.ordered()

    def _times(self, groups: PartialGroups) -> np.ndarray:
        return index_integers(pa.chunked_array(groups.key_values()[:1]), self.keys[0])

    def _named(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Let errors name the clause; nothing of the stages before runs any more."""
        try:
            yield from tables
        except TesselError as error:
            error.with_context(clause=self.as_written)
            raise

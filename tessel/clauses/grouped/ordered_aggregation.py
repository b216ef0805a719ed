"""Aggregates that need all values of a group, where the values do not fit in memory.

Hash buckets bring the rows of a group together, which is of no use where one group alone is more
than may be held. Here values are sorted outside of memory, by key and then by value, and aggregates
read them as they come: groups that fit are computed as always; of one that does not, the values are
put aside in order, and only what the aggregate asks for is read back (:class:`FromOrder`). States
of one group of everything are partitioned by ranges of values instead, or by a hash where nobody
asks for their order (:mod:`value_ranges`).

Everything else of the aggregation goes as partials that merge (:mod:`group_merging`); the results
found here join them as partials of an aggregate ``first``, of which there is one a group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.aggregates.base import FromOrder
from tessel.clauses.aggregates.holistic import (
    GroupValues,
    HolisticAggregate,
    Values,
    values_of_state,
)
from tessel.clauses.aggregates.kernels.value_runs import has_integers
from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.grouped.group_merging import GroupMerge
from tessel.clauses.grouped.group_states import GroupShape, StateKey, StatePlan, States, grouped
from tessel.clauses.grouped.numbered_keys import numbered_keys
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.value_ranges import ValueBuckets, ValueRanges
from tessel.clauses.ordering import Ordering
from tessel.clauses.results import NamedAggregate
from tessel.clauses.spill.sorting import ExternalSort
from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer
from tessel.clauses.spill.workspace import Workspace
from tessel.clauses.values import plain, plain_type
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_VALUE = "__tessel_value"
_Intake = ExternalSort | ValueRanges | ValueBuckets
_ROWS_AT_A_TIME = 1 << 16


def aggregate_rows(
    tables: Iterable[pa.Table],
    schema: TableSchema,
    keys: tuple[str, ...],
    aggregates: Sequence[NamedAggregate],
    workspace: Workspace,
) -> Iterator[pa.Table]:
    """Aggregate rows that are more than may be held.

    Parameters
    ----------
    tables
        The rows, of a schema. Missing is a key like others.
    schema
        Their columns.
    keys, aggregates
        As in an aggregation, by the names of columns.
    workspace
        The account and the files of the query.

    Returns
    -------
    iterator of pyarrow.Table
        Keys and outputs; each group in one row of one table, in no order.
    """
    held = [
        each if each.aggregate.mergeable else replace(each, aggregate=_AllValues())
        for each in aggregates
    ]
    shape = GroupShape(keys, tuple(held), schema)

    def reduced() -> Iterator[PartialGroups]:
        for table in tables:
            codes, groups, first_row = grouped(table, keys)
            yield PartialGroups.of_rows(shape, table, codes, len(first_row), groups)

    pieces = _Pieces(shape, aggregates, workspace, are_many=False)
    yield from pieces.aggregated(reduced())


def aggregate_states(
    parts: Iterable[PartialGroups], shape: GroupShape, workspace: Workspace
) -> Iterator[pa.Table]:
    """Finish groups by their states, of which those that hold values are more than may be held.

    Parameters
    ----------
    parts
        The groups; where they have positions, so have the tables.
    shape
        What is grouped.
    workspace
        The account and the files of the query.

    Returns
    -------
    iterator of pyarrow.Table
        Keys and outputs; each group in one row of one table, in no order.
    """
    pieces = _Pieces(shape, shape.aggregates, workspace, are_many=True)
    yield from pieces.aggregated(parts)


@dataclass(frozen=True)
class _AllValues(HolisticAggregate):
    """Stands for an aggregate that is no mergeable one: its state is all values."""

    name: ClassVar[str] = "all_values"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        return value_type

    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:
        raise NotImplementedError  # results are those of the aggregate that it stands for


class _Pieces:
    """What is computed how: which states merge, and which aggregates read values in order.

    Parameters
    ----------
    given
        The shape of the groups that are given.
    aggregates
        What to compute of their states, in the order of the aggregates of the shape.
    workspace
        The account and the files of the query.
    are_many
        Whether states have many values each, which are worth a cut by ranges.
    """

    def __init__(
        self,
        given: GroupShape,
        aggregates: Sequence[NamedAggregate],
        workspace: Workspace,
        *,
        are_many: bool,
    ) -> None:
        self._workspace = workspace
        self._by_ranges = are_many and not given.keys
        self._states: dict[str, StateKey] = {}
        """The state that holds the values of a column, so often as aggregates look at them."""
        for key, reduction in given.plan.reductions.items():
            if isinstance(reduction, Values):
                ((column,), which) = key
                if which == "values" or column not in self._states:
                    self._states[column] = key
        self._ordered: list[NamedAggregate] = []
        results: list[NamedAggregate] = []
        source, standing = given.source, list[NamedAggregate]()
        for each, held in zip(aggregates, given.aggregates, strict=True):
            if isinstance(held.aggregate, HolisticAggregate):
                self._ordered.append(each)
                source = source.with_column(_result_name(each), each.result_type(given.source))
                each = NamedAggregate(each.output, _result_name(each), find_aggregate("first"))
                results.append(each)
            standing.append(each)
        self._shape = GroupShape(given.keys, tuple(standing), source)
        self._results = StatePlan(results, source)

    def aggregated(self, parts: Iterable[PartialGroups]) -> Iterator[pa.Table]:
        """Give the results of all groups."""
        with contextlib.ExitStack() as stack:
            groups = stack.enter_context(GroupMerge(self._shape, self._workspace))
            intakes: dict[str, _Intake] = {}
            for column in self._states:
                intakes[column] = self._intake(column)
                stack.callback(intakes[column].close)
            has_positions = False
            for part in parts:
                has_positions = part.positions is not None
                groups.add(self._standing(part))
                for column, intake in intakes.items():
                    self._take_in(part, column, intake)
            for column, intake in intakes.items():
                for found in self._found(column, intake):
                    positions = np.zeros(found.num_rows, np.int64) if has_positions else None
                    groups.add(replace(found, positions=positions))  # they are behind all others
                intake.close()
            for table in groups.finished():
                yield self._completed(table)

    def _standing(self, part: PartialGroups) -> PartialGroups:
        """Return the states of what merges; of the others, that nothing is known."""
        nothing = self._nothing(self._results, part.num_rows)
        standing = self._shape.plan.reductions.keys() - nothing.keys()
        states = {key: part.states[key] for key in standing}
        return replace(part, shape=self._shape, states={**states, **nothing})

    def _nothing(self, plan: StatePlan, groups: int) -> States:
        source = self._shape.source
        names = {name for inputs, _ in plan.reductions for name in inputs}
        nothing = {name: arrow_array([], source.type_of(name)) for name in names}
        return plan.of_rows(nothing, np.zeros(0, np.int64), groups)

    def _type_of(self, name: str) -> pa.DataType:
        return plain_type(self._shape.source.type_of(name))

    def _intake(self, column: str) -> _Intake:
        """Return what takes the values of a column, and gives them in order."""
        kind = self._type_of(column)
        if self._by_ranges and has_integers(kind):
            return ValueRanges(kind, self._workspace)
        if self._by_ranges and self._states[column][1] == "different":
            return ValueBuckets(self._workspace)
        by = (*self._shape.keys, _VALUE)
        ordering = Ordering(by, (False,) * len(by))
        return ExternalSort(ordering, self._value_schema(column), self._workspace)

    def _value_schema(self, column: str) -> pa.Schema:
        """Return keys, and the values of a column."""
        fields = [pa.field(key, self._type_of(key)) for key in self._shape.keys]
        return pa.schema([*fields, pa.field(_VALUE, self._type_of(column))])

    def _take_in(self, part: PartialGroups, column: str, intake: _Intake) -> None:
        """Give the values of a column to what takes them."""
        state = part.states[self._states[column]]
        if isinstance(intake, ValueRanges | ValueBuckets):
            intake.add(state)
            return
        keys, schema = part.key_values(), self._value_schema(column)
        for values, owners in values_of_state(state, _ROWS_AT_A_TIME):
            rows = arrow_array(owners)
            columns = [*(key.take(rows) for key in keys), values]
            intake.add(pa.Table.from_arrays(columns, schema=schema))

    def _found(self, column: str, intake: _Intake) -> Iterator[PartialGroups]:
        """Give the results of the aggregates of a column, from its values in order."""
        if isinstance(intake, ValueRanges | ValueBuckets):
            if intake.count:
                yield self._joining(column, [], lambda each: _from_order(each, intake))
            return
        with self._workspace.spill_buffer() as buffer:
            open_group = _OpenGroup(buffer)
            for table in intake.sorted():
                belonging = self._belonging(open_group, table)
                open_group.add(table.slice(0, belonging))
                rest = table.slice(belonging)
                if not rest.num_rows:
                    continue
                yield from self._closed(column, open_group)
                _, _, starts = grouped(rest, self._shape.keys)
                if starts[-1]:
                    yield self._computed(column, rest.slice(0, int(starts[-1])))
                open_group.add(rest.slice(int(starts[-1])))
            yield from self._closed(column, open_group)

    def _completed(self, table: pa.Table) -> pa.Table:
        """Return groups with what an aggregate answers for no values, where there were none."""
        for each in self._ordered:
            kind = each.input_type(self._shape.source)
            none = np.zeros(0, np.int64)
            of_none = each.aggregate.compute(arrow_array([], kind), none, 1, each.column)[0]
            if of_none.is_valid:
                at = table.column_names.index(each.output)
                filled = table.column(at).fill_null(of_none)
                table = table.set_column(at, table.schema.field(at), filled)
        return table

    def _belonging(self, open_group: _OpenGroup, table: pa.Table) -> int:
        """Return how many rows at the start of a table are of the group that is open."""
        if open_group.last is None:
            return 0
        codes, _, _ = grouped(concat_tables([open_group.last, table]), self._shape.keys)
        # Rows are in order of their keys, so codes never go back.
        return int(np.searchsorted(codes, 0, side="right")) - 1

    def _closed(self, column: str, open_group: _OpenGroup) -> Iterator[PartialGroups]:
        last = open_group.last
        if last is None:
            return
        if open_group.in_memory:
            yield self._computed(column, open_group.table())
        else:
            _, keys, _ = grouped(last, self._shape.keys)
            yield self._joining(column, keys, lambda each: _from_order(each, open_group))
        open_group.clear()

    def _computed(self, column: str, table: pa.Table) -> PartialGroups:
        """Aggregate groups that are whole in a table."""
        codes, keys, starts = grouped(table, self._shape.keys)
        values = table.column(_VALUE)
        return self._joining(
            column,
            keys,
            lambda each: each.aggregate.compute(values, codes, len(starts), each.column),
        )

    def _joining(
        self, column: str, keys: list[pa.Array], compute: Callable[[NamedAggregate], pa.Array]
    ) -> PartialGroups:
        """Return results as partials: nothing of what merges, and the first of the others."""
        found = {_result_name(e): compute(e) for e in self._ordered if e.column == column}
        groups = len(next(iter(found.values())))
        shape = self._shape
        results = [each for each in shape.aggregates if each.column in found]
        states = {
            **self._nothing(shape.plan, groups),
            **StatePlan(results, shape.source).of_rows(found, np.arange(groups), groups),
        }
        return PartialGroups(shape, *numbered_keys(keys), states)


class _OpenGroup:
    """The rows, in order of their values, of a group of which more may come."""

    def __init__(self, buffer: SpillBuffer) -> None:
        self._spill_buffer = buffer
        self._parts: list[BufferedTable] = []
        self.last: pa.Table | None = None
        """Its last row, which has its key; None where no group is open."""

    @property
    def in_memory(self) -> bool:
        """Whether all of it is held."""
        return all(part.in_memory for part in self._parts)

    @property
    def count(self) -> int:
        """Rows of the group."""
        return sum(part.rows for part in self._parts)

    def add(self, table: pa.Table) -> None:
        """Put rows at the end."""
        if table.num_rows:
            self._parts.append(self._spill_buffer.put(table))
            self.last = table.slice(table.num_rows - 1)

    def table(self) -> pa.Table:
        """Return all rows."""
        return concat_tables([self._spill_buffer.read(part) for part in self._parts])

    def chunks(self) -> Iterator[pa.Array]:
        """Give the values in order, some at a time."""
        for part in self._parts:
            yield plain(self._spill_buffer.read(part).column(_VALUE))

    def at(self, places: Sequence[int]) -> pa.Array:
        """Return the values at some places, ascending."""
        found: list[pa.Array] = []
        start = 0
        for part in self._parts:
            inside = [place - start for place in places if start <= place < start + part.rows]
            if inside:
                values = self._spill_buffer.read(part).column(_VALUE)
                found.append(plain(values.take(arrow_array(inside, pa.int64()))))
            start += part.rows
        return pa.concat_arrays(found)

    def clear(self) -> None:
        """Close the group."""
        for part in self._parts:
            self._spill_buffer.drop(part)
        self._parts, self.last = [], None


def _from_order(each: NamedAggregate, group: _OpenGroup | ValueRanges | ValueBuckets) -> pa.Array:
    if isinstance(each.aggregate, FromOrder):
        return each.aggregate.from_order(group, each.column)
    # An aggregate of other people that needs all values gets them.
    values = pa.chunked_array(list(group.chunks()))
    return each.aggregate.compute(values, np.zeros(group.count, np.int64), 1, each.column)


def _result_name(each: NamedAggregate) -> str:
    return f"{each.output}\0result"

"""Aggregates that need all values of a group, where the values do not fit in memory.

Hash buckets bring the rows of a group together, which is of no use where one group alone is more
than may be held. Here values are sorted outside of memory, by key and then by value, and aggregates
read them as they come: groups that fit are computed as always; of one that does not, the values are
put aside in order, and only what the aggregate asks for is read back (:class:`FromOrder`). States
of one group of everything are partitioned by ranges of values instead (:mod:`value_ranges`).

Everything else of the aggregation goes as partials that merge (:mod:`group_merging`); the results
found here join them as partials of an aggregate ``first``, of which there is one a group.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import FromOrder, has_compact_state
from tessel.clauses.aggregates.holistic import values_of_state
from tessel.clauses.aggregates.kernels.value_runs import has_integers
from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.grouped.group_merging import GroupMerge
from tessel.clauses.grouped.group_states import StatePlan
from tessel.clauses.grouped.group_tables import POSITION, GroupShape
from tessel.clauses.grouped.grouping import group_codes, missing_rows
from tessel.clauses.grouped.value_ranges import ValueRanges
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.ordering import Ordering
from tessel.clauses.spill.sorting import ExternalSort
from tessel.clauses.spill.spool import Parked, Spool
from tessel.clauses.spill.workspace import Workspace
from tessel.clauses.values import plain, plain_type
from tessel.expression.schema import TableSchema

__all__ = ["aggregate_pieces", "aggregate_states"]

_VALUE = "__tessel_value"
_Intake = ExternalSort | ValueRanges
_ROWS_AT_A_TIME = 1 << 16


def aggregate_pieces(
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
    yield from _reduced(tables, _Pieces(schema, keys, tuple(aggregates), workspace), workspace)


def aggregate_states(
    tables: Iterable[pa.Table], shape: GroupShape, workspace: Workspace
) -> Iterator[pa.Table]:
    """Finish groups by their states, of which those that hold values are more than may be held.

    Parameters
    ----------
    tables
        Partial tables; a column :data:`POSITION` is handed on.
    shape
        What is grouped.
    workspace
        The account and the files of the query.

    Returns
    -------
    iterator of pyarrow.Table
        Keys and outputs; each group in one row of one table, in no order.
    """
    waiting = iter(tables)
    first = next(waiting)
    pieces = _StatePieces(shape, POSITION in first.column_names, workspace)
    yield from _reduced(itertools.chain([first], waiting), pieces, workspace)


def _reduced(
    tables: Iterable[pa.Table], found: _Pieces, workspace: Workspace
) -> Iterator[pa.Table]:
    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(GroupMerge(found.shape, found.shape.schema, workspace))
        intakes: dict[str, _Intake] = {}
        for column in found.columns:
            intakes[column] = found.intake(column)
            stack.callback(intakes[column].close)
        for table in tables:
            groups.add(found.partials(table))
            for column, intake in intakes.items():
                found.take_in(table, column, intake)
        for column, intake in intakes.items():
            for part in found.results(column, intake):
                groups.add(part)
            intake.close()
        for table in groups.finished():
            yield found.completed(table)


class _Pieces:
    """What is computed how: which aggregates merge, and which read values in order."""

    def __init__(
        self,
        schema: TableSchema,
        keys: tuple[str, ...],
        aggregates: tuple[NamedAggregate, ...],
        workspace: Workspace,
    ) -> None:
        self._schema = schema
        self._keys = keys
        self._workspace = workspace
        self._ordered = [each for each in aggregates if not has_compact_state(each.aggregate)]
        self.columns = list(dict.fromkeys(str(each.column) for each in self._ordered))
        source = schema
        standing: list[NamedAggregate] = []
        for each in aggregates:
            if has_compact_state(each.aggregate):
                standing.append(each)
                continue
            source = source.with_column(_result_name(each), each.result_type(schema))
            first = find_aggregate("first")
            standing.append(NamedAggregate(each.output, _result_name(each), first))
        self.shape = GroupShape(keys, tuple(standing), source)
        by = (*keys, _VALUE)
        self.ordering = Ordering(by, (False,) * len(by))

    def value_schema(self, column: str) -> pa.Schema:
        """Return keys, and the values of a column."""
        fields = [pa.field(key, self._schema.type_of(key)) for key in self._keys]
        return pa.schema([*fields, pa.field(_VALUE, self._schema.type_of(column))])

    def partials(self, table: pa.Table) -> pa.Table:
        """Return partials of what merges; of the others, that nothing is known."""
        for each in self._ordered:
            nothing = pa.nulls(table.num_rows, self.shape.source.type_of(_result_name(each)))
            table = table.append_column(_result_name(each), nothing)
        codes, keys, first_row = self._codes(table)
        return self.shape.of_rows(table, codes, len(first_row), keys)

    def intake(self, column: str) -> _Intake:
        """Return what takes the values of a column, and gives them in order."""
        return ExternalSort(self.ordering, self.value_schema(column), self._workspace)

    def take_in(self, table: pa.Table, column: str, intake: _Intake) -> None:
        """Give the values of a column to what takes them."""
        assert isinstance(intake, ExternalSort)
        for values in self.values(table, column):
            intake.add(values)

    def values(self, table: pa.Table, column: str) -> Iterator[pa.Table]:
        """Give keys and values, of the rows that have a value."""
        arrays = [table.column(name) for name in (*self._keys, column)]
        found = pa.Table.from_arrays(arrays, schema=self.value_schema(column))
        missing = missing_rows([table.column(column)])
        yield found.filter(arrow_array(~missing)) if missing.any() else found

    def results(self, column: str, intake: _Intake) -> Iterator[pa.Table]:
        """Return the results of the aggregates of a column, from its values in order."""
        if isinstance(intake, ValueRanges):
            if intake.count:
                yield self._joining(column, [], lambda each: _from_order(each, intake))
            return
        with self._workspace.spool() as spool:
            open_group = _OpenGroup(spool)
            for table in intake.sorted():
                belonging = self._belonging(open_group, table)
                open_group.add(table.slice(0, belonging))
                rest = table.slice(belonging)
                if not rest.num_rows:
                    continue
                yield from self._closed(column, open_group)
                _, _, starts = self._codes(rest)
                if starts[-1]:
                    yield self._computed(column, rest.slice(0, int(starts[-1])))
                open_group.add(rest.slice(int(starts[-1])))
            yield from self._closed(column, open_group)

    def completed(self, table: pa.Table) -> pa.Table:
        """Return groups with what an aggregate answers for no values, where there were none."""
        for each in self._ordered:
            kind = each.input_type(self._schema)
            of_none = each.aggregate.compute(arrow_array([], kind), _none(), 1, each.column)[0]
            if of_none.is_valid:
                at = table.column_names.index(each.output)
                filled = table.column(at).fill_null(of_none)
                table = table.set_column(at, table.schema.field(at), filled)
        return table

    def _belonging(self, open_group: _OpenGroup, table: pa.Table) -> int:
        """Return how many rows at the start of a table are of the group that is open."""
        if open_group.last is None:
            return 0
        codes, _, _ = self._codes(pa.concat_tables([open_group.last, table]))
        # Rows are in order of their keys, so codes never go back.
        return int(np.searchsorted(codes, 0, side="right")) - 1

    def _closed(self, column: str, open_group: _OpenGroup) -> Iterator[pa.Table]:
        last = open_group.last
        if last is None:
            return
        if open_group.in_memory:
            yield self._computed(column, open_group.table())
        else:
            _, keys, _ = self._codes(last)
            yield self._joining(column, keys, lambda each: _from_order(each, open_group))
        open_group.clear()

    def _computed(self, column: str, table: pa.Table) -> pa.Table:
        """Aggregate groups that are whole in a table."""
        codes, keys, starts = self._codes(table)
        values = table.column(_VALUE)
        return self._joining(
            column,
            keys,
            lambda each: each.aggregate.compute(values, codes, len(starts), each.column),
        )

    def _joining(
        self, column: str, keys: list[pa.Array], compute: Callable[[NamedAggregate], pa.Array]
    ) -> pa.Table:
        """Return results as partials: nothing of what merges, and the first of the others."""
        found = {_result_name(e): compute(e) for e in self._ordered if e.column == column}
        groups = len(next(iter(found.values())))
        shape = self.shape
        names = {name for each in shape.aggregates for name in each.inputs}
        nothing = {name: arrow_array([], shape.source.type_of(name)) for name in names}
        results = [each for each in shape.aggregates if each.column in found]
        states = {
            **shape.plan.of_rows(nothing, _none(), groups),
            **StatePlan(results, shape.source).of_rows(found, np.arange(groups), groups),
        }
        return shape.of_states(keys, states)

    def _codes(
        self, table: pa.Table
    ) -> tuple[NDArray[np.int64], list[pa.Array], NDArray[np.int64]]:
        """Return the group of each row, the keys of the groups, and where each appears first."""
        if not self._keys:
            return np.zeros(table.num_rows, np.int64), [], np.zeros(1, np.int64)
        columns = [table.column(key) for key in self._keys]
        found = group_codes(columns, drop_missing=False)
        return found.codes, list(found.keys), found.first_row


class _StatePieces(_Pieces):
    """The same, of rows that were reduced to states already."""

    def __init__(self, shape: GroupShape, by_position: bool, workspace: Workspace) -> None:
        arrow = shape.source.arrow
        for at, field in enumerate(arrow):
            arrow = arrow.set(at, field.with_type(plain_type(field.type)))
        schema, aggregates = TableSchema(arrow), shape.aggregates
        if by_position:
            schema = schema.with_column(POSITION, pa.int64())
            position = NamedAggregate(POSITION, POSITION, find_aggregate("first"))
            aggregates = (*aggregates, position)
        super().__init__(schema, shape.keys, aggregates, workspace)
        self._given = shape

    def partials(self, table: pa.Table) -> pa.Table:
        """Return the states of what merges; of the others, that nothing is known."""
        given = dict(zip(table.column_names, table.columns, strict=True))
        if POSITION in given:
            (name,) = self.shape.plan.names(((POSITION,), "first"))
            given[name] = given[POSITION]
        arrays = [
            given[field.name] if field.name in given else pa.nulls(table.num_rows, field.type)
            for field in self.shape.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.shape.schema)

    def intake(self, column: str) -> _Intake:
        """Return ranges of values where there is one group, and values have integers."""
        kind = self._schema.type_of(column)
        if self._keys or not has_integers(kind):
            return super().intake(column)
        return ValueRanges(kind, self._workspace)

    def take_in(self, table: pa.Table, column: str, intake: _Intake) -> None:
        """Give the values of a column to what takes them."""
        if not isinstance(intake, ValueRanges):
            super().take_in(table, column, intake)
            return
        columns, _ = self._states(table, column)
        intake.add(columns)

    def _states(self, table: pa.Table, column: str) -> tuple[list[Any], pa.DataType]:
        """Return the states that hold the values of a column, so often as aggregates need them."""
        plan = self._given.plan
        key = (column,), "values"
        if key not in plan.reductions:
            key = (column,), "different"
        return plan.columns(table, key), self._given.source.type_of(column)

    def values(self, table: pa.Table, column: str) -> Iterator[pa.Table]:
        """Give keys and values, so often as they occur where an aggregate looks at that."""
        columns, kind = self._states(table, column)
        for values, owners in values_of_state(columns, kind, _ROWS_AT_A_TIME):
            keys = table.select(list(self._keys)).take(arrow_array(owners))
            schema = self.value_schema(column)
            yield pa.Table.from_arrays([*keys.columns, values], schema=schema)


class _OpenGroup:
    """The rows, in order of their values, of a group of which more may come."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._parts: list[Parked] = []
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
            self._parts.append(self._spool.put(table))
            self.last = table.slice(table.num_rows - 1)

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables([self._spool.read(part) for part in self._parts])

    def chunks(self) -> Iterator[pa.Array]:
        """Give the values in order, some at a time."""
        for part in self._parts:
            yield plain(self._spool.read(part).column(_VALUE))

    def at(self, places: Sequence[int]) -> pa.Array:
        """Return the values at some places, ascending."""
        found: list[pa.Array] = []
        start = 0
        for part in self._parts:
            inside = [place - start for place in places if start <= place < start + part.rows]
            if inside:
                values = self._spool.read(part).column(_VALUE)
                found.append(plain(values.take(arrow_array(inside, pa.int64()))))
            start += part.rows
        return pa.concat_arrays(found)

    def clear(self) -> None:
        """Close the group."""
        for part in self._parts:
            self._spool.drop(part)
        self._parts, self.last = [], None


def _from_order(each: NamedAggregate, group: _OpenGroup | ValueRanges) -> pa.Array:
    if isinstance(each.aggregate, FromOrder):
        return each.aggregate.from_order(group, each.column)
    # An aggregate of other people that needs all values gets them.
    values = pa.chunked_array(list(group.chunks()))
    return each.aggregate.compute(values, np.zeros(group.count, np.int64), 1, each.column)


def _result_name(each: NamedAggregate) -> str:
    return f"{each.output}\0result"


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)

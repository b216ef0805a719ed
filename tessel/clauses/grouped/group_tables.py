"""Tables of groups: the arithmetic that groupby and resample share, on one table at a time.

A *partial* table has one row a group of one unit: the key columns, then the states of the
aggregates (:class:`~tessel.clauses.grouped.group_states.StatePlan`). Partials of several units,
stacked in plan order, merge into one table of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.grouped.group_states import StatePlan, States
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import current

__all__ = ["POSITION", "GroupShape", "complete_table", "parts_to_reduce"]

_LEAST_ROWS_REDUCED = 1 << 16
_BUDGET_A_ROW = 1024
"""Bytes of the budget for each row that is reduced at a time: exact sums take some 150 a row, and
each worker reduces some rows."""

POSITION = "__tessel_position"
"""Hidden column of a partitioned table: unit ordinal × 2³² + row, what first appearance goes by."""


@dataclass(frozen=True)
class GroupShape:
    """What is grouped, and how.

    Attributes
    ----------
    keys, aggregates
        As in an aggregation; all aggregates are mergeable.
    source
        Schema of the rows before they were reduced.
    """

    keys: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema

    @cached
    def plan(self) -> StatePlan:
        """What states consist of."""
        return StatePlan(self.aggregates, self.source)

    @cached
    def schema(self) -> pa.Schema:
        """The columns of a partial table: keys, then states."""
        keys = [pa.field(key, plain_type(self.source.type_of(key))) for key in self.keys]
        return pa.schema([*keys, *self.plan.fields()])

    @cached
    def table_schema(self) -> TableSchema:
        """That of a partial table, which has no index."""
        return TableSchema(self.schema)

    def of_states(self, keys: Sequence[pa.Array], states: States) -> pa.Table:
        """Return a partial table; keys are one array a column, one value a group."""
        return pa.Table.from_arrays([*keys, *self.plan.arrays(states)], schema=self.schema)

    def of_rows(
        self, table: pa.Table, codes: np.ndarray, groups: int, keys: Sequence[pa.Array]
    ) -> pa.Table:
        """Reduce a table to one row a group.

        Parameters
        ----------
        table
            Rows in order; only the aggregated columns are read.
        codes
            Group of each row, int64, shape (rows,).
        groups
            Number of groups.
        keys
            One array a key column, one value a group.
        """
        names = dict.fromkeys(name for each in self.aggregates for name in each.inputs)
        columns = {name: table.column(name) for name in names}
        return self.of_states(keys, self.plan.of_rows(columns, codes, groups))

    def merged(self, table: pa.Table) -> pa.Table:
        """Merge stacked partial tables into one: one row a group, in order of first appearance.

        A column :data:`POSITION` holds that of the first row of each group afterwards.
        """
        keys, states, first_row = self._merged(table)
        return _with_positions(self.of_states(keys, states), table, first_row)

    def finished(self, table: pa.Table) -> pa.Table:
        """Return the results of stacked partial tables: keys and outputs, as :meth:`merged`.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        keys, states, first_row = self._merged(table)
        columns = dict(zip(self.keys, keys, strict=True)) | self.plan.finish(states)
        return _with_positions(pa.table(columns), table, first_row)

    def _merged(self, table: pa.Table) -> tuple[list[pa.Array], States, np.ndarray]:
        codes, groups, keys, first_row = _codes(table, self.keys)
        states = self.plan.of_table(table.select(self.schema.names[len(self.keys) :]).columns)
        return keys, self.plan.merge(states, codes, groups), first_row


def _with_positions(found: pa.Table, table: pa.Table, first_row: np.ndarray) -> pa.Table:
    if POSITION not in table.column_names:
        return found
    return found.append_column(POSITION, table.column(POSITION).take(arrow_array(first_row)))


def parts_to_reduce(table: pa.Table) -> list[pa.Table]:
    """Return a table in parts that are reduced one after another, for the memory that takes.

    There is one part at least; the partial tables of several merge as those of units do.
    """
    rows = max(_LEAST_ROWS_REDUCED, current().live_bytes // _BUDGET_A_ROW)
    if table.num_rows <= rows:
        return [table]
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def complete_table(
    table: pa.Table, key_names: Sequence[str], aggregates: Sequence[NamedAggregate]
) -> tuple[pa.Table, np.ndarray]:
    """Aggregate a table in which every group is whole.

    Returns
    -------
    table
        One row a group, in order of first appearance.
    first_row
        Row of ``table`` at which each group first appears, int64, shape (groups,).
    """
    codes, groups, keys, first_row = _codes(table, key_names)
    results = []
    for each in aggregates:
        values = each.values({name: table.column(name) for name in each.inputs})
        results.append(each.aggregate.compute(values, codes, groups, each.column))
    fields = [*key_names, *(each.output for each in aggregates)]
    return pa.Table.from_arrays([*keys, *results], names=fields), first_row


def _codes(
    table: pa.Table, key_names: Sequence[str]
) -> tuple[np.ndarray, int, list[pa.Array], np.ndarray]:
    if not key_names:  # one group of everything, also of nothing
        return np.zeros(table.num_rows, np.int64), 1, [], np.zeros(1, np.int64)
    columns = [table.column(name) for name in key_names]
    found = group_codes(columns, drop_missing=False)
    return found.codes, len(found.first_row), list(found.keys), found.first_row

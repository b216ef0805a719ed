"""Tables of groups: what is grouped and how, partial tables, and tables of whole groups.

A *partial* table has one row a group of one unit: the key columns, then the states of the
aggregates (:class:`~tessel.clauses.grouped.group_states.StatePlan`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.cached import cached
from tessel.clauses.grouped.group_states import StatePlan, States
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.results import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import current

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
    codes, keys, first_row = grouped(table, key_names)
    results = []
    for each in aggregates:
        values = each.values({name: table.column(name) for name in each.inputs})
        results.append(each.aggregate.compute(values, codes, len(first_row), each.column))
    fields = [*key_names, *(each.output for each in aggregates)]
    return pa.Table.from_arrays([*keys, *results], names=fields), first_row


def grouped(
    table: pa.Table, key_names: Sequence[str]
) -> tuple[np.ndarray, list[pa.Array], np.ndarray]:
    """Return the group of each row, the keys of the groups, and where each appears first.

    Without keys there is one group of everything, also of nothing.
    """
    if not key_names:
        return np.zeros(table.num_rows, np.int64), [], np.zeros(1, np.int64)
    found = group_codes([table.column(name) for name in key_names], drop_missing=False)
    return found.codes, found.keys, found.first_row

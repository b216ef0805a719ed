"""Tables of groups: the arithmetic that groupby and resample share, on one table at a time.

A *partial* table has one row a group of one unit: the key columns, then the state columns of every
aggregate. Partials of several units, stacked in plan order, merge into one table of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.grouped.grouping import group_codes, order_of_groups
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.schema import TableSchema
from tessel.options import current

__all__ = [
    "POSITION",
    "complete_table",
    "finished_groups",
    "finished_table",
    "merge_partials",
    "merged_states",
    "partial_schema",
    "partial_table",
    "parts_to_reduce",
    "state_columns",
]

_LEAST_ROWS_REDUCED = 1 << 16
_BUDGET_A_ROW = 1024
"""Bytes of the budget for each row that is reduced at a time: exact sums take some 150 a row, and
each worker reduces some rows."""

POSITION = "__tessel_position"
"""Hidden column of a partitioned table: unit ordinal × 2³² + row, what first appearance goes by."""


def partial_schema(
    keys: Sequence[str], aggregates: Sequence[NamedAggregate], source: TableSchema
) -> pa.Schema:
    """Return the columns of a partial table: keys, then the states of each aggregate."""
    fields = [pa.field(key, plain_type(source.type_of(key))) for key in keys]
    for each in aggregates:
        fields += [
            state.with_name(_state_name(each, state.name)) for state in _states(each, source)
        ]
    return pa.schema(fields)


def partial_table(
    table: pa.Table,
    codes: np.ndarray,
    groups: int,
    keys: Sequence[pa.Array],
    key_names: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    source: TableSchema,
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
    keys, key_names
        One array a key column, one value a group.
    """
    arrays = list(keys)
    for each in aggregates:
        arrays += _mergeable(each).partial(_values(table, each), codes, groups)
    return pa.Table.from_arrays(arrays, schema=partial_schema(key_names, aggregates, source))


def parts_to_reduce(table: pa.Table) -> list[pa.Table]:
    """Return a table in parts that are reduced one after another, for the memory that takes.

    There is one part at least; the partial tables of several merge as those of units do.
    """
    rows = max(_LEAST_ROWS_REDUCED, current().live_bytes // _BUDGET_A_ROW)
    if table.num_rows <= rows:
        return [table]
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def merge_partials(
    table: pa.Table,
    key_names: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    source: TableSchema,
    *,
    sort: bool,
) -> pa.Table:
    """Merge stacked partial tables and finish: one row a group, ordered by key or appearance."""
    result = finished_groups(table, key_names, aggregates, source)
    if not sort or not key_names:
        return result
    return result.take(arrow_array(order_of_groups([result.column(key) for key in key_names])))


def merged_states(
    table: pa.Table,
    key_names: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    source: TableSchema,
) -> pa.Table:
    """Merge stacked partial tables into one: one row a group, in order of first appearance.

    A column :data:`POSITION` holds that of the first row of each group afterwards.
    """
    codes, groups, keys, first_row = _codes(table, key_names)
    arrays = list(keys)
    for each in aggregates:
        merge = _mergeable(each).merge
        arrays += merge(state_columns(table, each, source), codes, groups, each.input_type(source))
    schema = partial_schema(key_names, aggregates, source)
    if POSITION in table.column_names:
        arrays.append(table.column(POSITION).take(arrow_array(first_row)))
        schema = schema.append(pa.field(POSITION, pa.int64()))
    return pa.Table.from_arrays(arrays, schema=schema)


def finished_groups(
    table: pa.Table,
    key_names: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    source: TableSchema,
) -> pa.Table:
    """Return the results of stacked partial tables: keys and outputs, as :func:`merged_states`.

    Raises
    ------
    IntegerOverflowError
        Where a result does not fit its type.
    """
    codes, groups, keys, first_row = _codes(table, key_names)
    columns = dict(zip(key_names, keys, strict=True))
    for each in aggregates:
        states, kind = state_columns(table, each, source), each.input_type(source)
        finish = _mergeable(each).finish_merged
        columns[each.output] = finish(states, codes, groups, kind, each.column)
    if POSITION in table.column_names:
        columns[POSITION] = table.column(POSITION).take(arrow_array(first_row))
    return pa.table(columns)


def finished_table(
    states: pa.Table, aggregates: Sequence[NamedAggregate], source: TableSchema
) -> pa.Table:
    """Return the results of merged states, a row each; raises as :func:`finished_groups`."""
    columns = {}
    for each in aggregates:
        held = [column.combine_chunks() for column in state_columns(states, each, source)]
        kind = each.input_type(source)
        columns[each.output] = _mergeable(each).finish(held, kind, each.column)
    return pa.table(columns)


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
    results = [
        each.aggregate.compute(_values(table, each), codes, groups, each.column)
        for each in aggregates
    ]
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


def _values(table: pa.Table, each: NamedAggregate) -> pa.ChunkedArray | pa.Array | None:
    return each.values({name: table.column(name) for name in each.inputs})


def state_columns(
    table: pa.Table, each: NamedAggregate, source: TableSchema
) -> list[pa.ChunkedArray]:
    """Return the state columns of an aggregate in a partial table."""
    return [table.column(_state_name(each, state.name)) for state in _states(each, source)]


def _mergeable(each: NamedAggregate) -> MergeableAggregate:
    assert isinstance(each.aggregate, MergeableAggregate)  # the planner makes partials of no other
    return each.aggregate


def _states(each: NamedAggregate, source: TableSchema) -> list[pa.Field]:
    return _mergeable(each).partial_fields(each.input_type(source))


def _state_name(each: NamedAggregate, state: str) -> str:
    return f"{each.output}\0{state}"

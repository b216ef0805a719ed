"""Columns that a clause computes for itself: keys and aggregated values that are expressions.

``groupby(day=col("time").floor("1d"))`` groups by a column that the table does not have. The clause
holds its name and its expression; the planner makes an ``apply`` of it before the clause, under a
name that no column has, so that nobody sees it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tessel.clauses.grouped.grouping import check_key_type
from tessel.clauses.values import plain_type
from tessel.errors import PlanError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema


def free_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken, the wanted one or with a number behind it."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted} {number}"
    return name


def type_of_column(
    name: str, computed: tuple[ComputedColumn, ...], schema: TableSchema
) -> pa.DataType:
    """Return the type of a column of the table, or of one of those that are computed."""
    for column in computed:
        if column.name == name:
            return column.expression.result_type(schema)
    return schema.type_of(name)


# --- keys -----------------------------------------------------------------------------------------


def key_names(keys: Sequence[str | ComputedColumn]) -> tuple[str, ...]:
    """Return the names that keys have in the result."""
    return tuple(key if isinstance(key, str) else key.name for key in keys)


def columns_of_keys(keys: Sequence[str | ComputedColumn]) -> frozenset[str]:
    """Return the columns of the table that keys are made of."""
    stored = frozenset(key for key in keys if isinstance(key, str))
    return stored.union(*(k.expression.columns() for k in keys if not isinstance(k, str)))


def types_of_keys(
    keys: Sequence[str | ComputedColumn], schema: TableSchema
) -> list[tuple[str, pa.DataType]]:
    """Return names and types of keys; unknown columns are refused."""
    schema.require(tuple(key for key in keys if isinstance(key, str)))
    return [
        (key, schema.type_of(key))
        if isinstance(key, str)
        else (key.name, key.expression.result_type(schema))
        for key in keys
    ]


def key_fields(keys: Sequence[str | ComputedColumn], schema: TableSchema) -> list[pa.Field]:
    """Return the columns of keys in the result; those whose values have no equality are refused."""
    fields = []
    for name, kind in types_of_keys(keys, schema):
        check_key_type(name, kind)
        fields.append(pa.field(name, plain_type(kind)))
    return fields


def stored_names(keys: Sequence[str | ComputedColumn]) -> tuple[str, ...]:
    """Return keys that are all columns of the table, as the planner makes them."""
    for key in keys:
        if not isinstance(key, str):
            raise PlanError(
                f"the key {key!r} is not computed yet",
                hint="the planner computes keys of a groupby before it runs: give the clauses to "
                "a query",
                key=key.name,
            )
    return tuple(key for key in keys if isinstance(key, str))

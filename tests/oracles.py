"""Other engines as oracles, and what must be adapted before they agree with the semantics.

Engines differ from one another and from us. Each difference has an adapter with a name, used where
it is needed and nowhere else, so that no assertion has to be loosened::

    expected = duckdb_answer("select sum(i) as total from x", x=nan_as_null(table))
    assert same_rows(found, as_declared(expected, found.schema))

`duckdb`, `polars` and `pandas` are needed only by the functions that name them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tessel.testing.conformance import nan_as_null

if TYPE_CHECKING:
    import polars

__all__ = [
    "as_declared",
    "duckdb_answer",
    "nan_as_null",
    "one_zero",
    "plain_dictionaries",
    "polars_frame",
    "rows_numbered",
    "same_rows",
]


def one_zero(table: pa.Table) -> pa.Table:
    """Make every −0.0 a 0.0: for us they are one value, Polars and Arrow group them apart."""

    def changed(column: pa.ChunkedArray) -> pa.ChunkedArray:
        zero = pa.scalar(0.0, column.type)
        return pc.if_else(pc.fill_null(pc.equal(column, zero), False), zero, column)

    return _changed(table, pa.types.is_floating, changed)


def plain_dictionaries(table: pa.Table) -> pa.Table:
    """Make dictionaries plain: DuckDB turns them into an ENUM of its own, ordered by entry."""
    return _changed(
        table, pa.types.is_dictionary, lambda column: column.cast(column.type.value_type)
    )


def _changed(
    table: pa.Table,
    is_wanted: Callable[[pa.DataType], bool],
    change: Callable[[pa.ChunkedArray], pa.ChunkedArray],
) -> pa.Table:
    for at, field in enumerate(table.schema):
        if is_wanted(field.type):
            column = change(table.column(at))
            table = table.set_column(at, field.with_type(column.type), column)
    return table


def rows_numbered(table: pa.Table, name: str = "row") -> pa.Table:
    """Add the row number as a column: SQL has no order of rows, ours is part of the answer."""
    return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


def as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast an oracle's answer to our types: DuckDB sums integers to 128 bits, times to µs.

    The cast is a checked one; a value that the type does not hold raises.
    """
    return table.select(schema.names).cast(pa.schema([(f.name, f.type) for f in schema]))


def duckdb_answer(sql: str, **tables: pa.Table) -> pa.Table:
    """Return DuckDB's answer to a query on Arrow tables, by name."""
    import duckdb

    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


def polars_frame(table: pa.Table) -> polars.DataFrame:
    """Return a table as a Polars frame."""
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """Say whether two tables have the same columns, types and rows, in order.

    Missing is missing (null or NaN) and −0.0 is 0.0, as in all comparisons. Large and view types of
    text are text: Polars knows no other.
    """
    if found.column_names != expected.column_names:
        return False
    kinds = zip(found.schema, expected.schema, strict=True)
    if any(_plain_type(ours.type) != _plain_type(theirs.type) for ours, theirs in kinds):
        return False
    return all(
        [_value(v) for v in found.column(name).to_pylist()]
        == [_value(v) for v in expected.column(name).to_pylist()]
        for name in found.column_names
    )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value

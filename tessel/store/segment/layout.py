"""How a table is cut into segments: row ranges × column ranges. Pure, no data is moved.

The *stored order* of a symbol's columns is that of their ids: the time index first, then the
columns in the order of the user. So the index lies in the first column slice of each row range and
in no other, and a column range of a segment is a range of ids. What users see keeps their order.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.ecs.components import ColRange, RowRange
from tessel.expression.schema import TableSchema

__all__ = ["assign_column_ids", "column_slices", "row_slices", "stored_order"]

_COLUMN_BYTES = 1 << 30
"""One column of one segment stays below this, so that 32-bit offsets always reach."""


def stored_order(schema: TableSchema) -> list[str]:
    """Return the column names in stored order: the index first, then as they stand."""
    rest = [name for name in schema.names if name != schema.index]
    return rest if schema.index is None else [schema.index, *rest]


def assign_column_ids(schema: TableSchema, first: int) -> dict[str, int]:
    """Give the columns of a new table ids from ``first`` on, in stored order."""
    return {name: first + at for at, name in enumerate(stored_order(schema))}


def column_slices(columns: int, segment_columns: int) -> list[ColRange]:
    """Cut ``columns`` columns into ranges of at most ``segment_columns``."""
    return [
        ColRange(start, min(start + segment_columns, columns))
        for start in range(0, columns, segment_columns)
    ]


def row_slices(table: pa.Table, segment_rows: int) -> list[RowRange]:
    """Cut the rows of a table into ranges of at most ``segment_rows``.

    A range in which some column has more than 1 GiB is halved until none has.
    """
    slices: list[RowRange] = []
    for start in range(0, table.num_rows, segment_rows):
        slices += _halved(table, RowRange(start, min(start + segment_rows, table.num_rows)))
    return slices


def _halved(table: pa.Table, rows: RowRange) -> list[RowRange]:
    part = table.slice(rows.start, len(rows))
    if len(rows) == 1 or all(column.nbytes <= _COLUMN_BYTES for column in part.columns):
        return [rows]
    middle = rows.start + len(rows) // 2
    return _halved(table, RowRange(rows.start, middle)) + _halved(table, RowRange(middle, rows.end))

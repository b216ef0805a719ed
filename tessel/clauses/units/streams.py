"""Units that a clause over everything makes anew, out of tables in plan order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.spill.workspace import Workspace
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.components import ColRange, RowRange, TimeRange
from tessel.expression.schema import TableSchema
from tessel.store.index_column import index_integers

UNIT_ROWS = 65_536
"""Rows that a unit has at least, but for the last: enough to be worth a task."""

_UNITS_ALIVE = 16


def unit_of_table(ordinal: int, row: int, table: pa.Table, index: str | None) -> ProcessingUnit:
    """Return a table as a unit of one piece whose first row is ``row`` of the whole."""
    schema = TableSchema(pa.schema([(f.name, f.type) for f in table.schema]), index)
    times = None
    if table.num_rows and index is not None:
        ends = table.column(index).take(arrow_array(np.array([0, table.num_rows - 1])))
        first, last = index_integers(ends, index).tolist()
        times = TimeRange(first, last)
    rows = RowRange(row, row + table.num_rows)
    piece = Piece(table, rows, ColRange(0, table.num_columns), times)
    return ProcessingUnit(ordinal, schema, [piece])


def units_of_tables(
    tables: Iterable[pa.Table], index: str | None, workspace: Workspace | None = None
) -> Iterator[ProcessingUnit]:
    """Gather tables, in order, into units of a size worth a task.

    Parameters
    ----------
    tables
        Of one schema.
    index
        The time index of the units.
    workspace
        Of the query, to whose byte budget many units fit.
    """
    most = None if workspace is None else workspace.account.limit // _UNITS_ALIVE
    waiting: list[pa.Table] = []
    ordinal = row = count = size = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        size += table.nbytes
        if count >= UNIT_ROWS or (most is not None and size >= most):
            yield unit_of_table(ordinal, row, concat_tables(waiting), index)
            ordinal, row, count, size, waiting = ordinal + 1, row + count, 0, 0, []
    if waiting:
        yield unit_of_table(ordinal, row, concat_tables(waiting), index)

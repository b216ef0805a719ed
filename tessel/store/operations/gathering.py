"""What an appender makes of rows: tables of dictionaries, and of tables that were taken earlier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tessel.errors import ColumnNotFoundError, InvalidInputError, TesselError
from tessel.expression.scalars import array_of
from tessel.expression.schema import TableSchema

__all__ = ["aligned", "rows_as_table"]


def aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema: added as missing, left out, or cast."""
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in names
        else pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_as_table(
    rows: Iterable[Mapping[str, Any]], schema: TableSchema, evolve: str | Iterable[str] | None
) -> pa.Table:
    """Return rows given as dictionaries as a table with the columns of a symbol.

    Parameters
    ----------
    rows
        The rows; a column that one does not name is missing in it.
    schema
        The columns of the symbol.
    evolve
        Whether other names become columns: as for ``append``.

    Raises
    ------
    ColumnNotFoundError
        For a name that no column has.
    InvalidInputError
        For what are no rows, and for values that a column cannot hold.
    """
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, Mapping) else None
    if listed is None or not all(isinstance(row, Mapping) for row in listed):
        raise InvalidInputError(
            f"rows are a list of dictionaries, not {type(rows).__name__}",
            hint='append_rows([{"price": 1.5, "qty": 3}])',
        )
    names = dict.fromkeys(schema.names)
    for row in listed:
        for name in row:
            if name in names:
                continue
            if "add" not in (evolve or ()) or not isinstance(name, str):
                raise ColumnNotFoundError.for_name(str(name), schema.names, where="the symbol")
            names[name] = None
    columns = []
    for name in names:
        kind = schema.type_of(name) if name in schema else None
        try:
            columns.append(array_of([row.get(name) for row in listed], kind))
        except TesselError as error:
            raise error.with_context(column=name) from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"the values of column {name!r} could not be taken: {error}",
                hint=f"it is {kind}" if kind is not None else "give values of one type",
                column=name,
            ) from error
    return pa.table(columns, names=list(names))

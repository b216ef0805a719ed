"""RowPipeline: filter and project rows when they arrive, before they become columns.

The expressions are those of queries, with the same answers. What can be a program on blocks runs on
the rows where they lie, as on the pages of a segment. For the rest the fields that the condition
reads become columns, for the rows that a program has left; the others are read for the rows that
are left then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from tessel.arrays import fill_null, numpy_array
from tessel.errors import ExpressionTypeError, InvalidInputError
from tessel.expression.context import ExpressionContext
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.text import parse
from tessel.store.rows.field_program import FieldProgram
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import RowSchema

__all__ = ["RowPipeline"]

_NO_COLUMN = "\0"


class RowPipeline:
    """A condition and a projection, compiled once for a schema.

    Parameters
    ----------
    schema
        Of the rows.
    where
        Rows are kept where it is true: an expression or its text. None keeps all.
    select
        The columns that come out: a name and the expression, or its text, that makes it. None gives
        all fields as they are.

    Raises
    ------
    TesselError
        For an expression that does not fit the schema; nothing is found wrong later that could be
        found now.

    Examples
    --------
    >>> pipeline = RowPipeline(
    ...     schema,
    ...     where="price > 100",
    ...     select={"symbol": "symbol", "notional": "price * quantity"},
    ... )
    >>> pipeline.run(received)
    """

    def __init__(
        self,
        schema: RowSchema,
        *,
        where: Expression | str | None = None,
        select: Mapping[str, Expression | str] | None = None,
    ) -> None:
        self.schema = schema
        table = TableSchema(schema.arrow)
        self._where = None if where is None else ExpressionContext.of(_expression(where))
        if self._where is not None:
            kind = _result_type(self._where, table)
            if not pa.types.is_boolean(kind):
                raise ExpressionTypeError(
                    f"rows are kept where a condition is true, and this one is {kind}",
                    hint='write a comparison, such as "price > 100"',
                )
        if select is not None and not select:
            raise InvalidInputError("select names no column", hint="leave it out to get all")
        chosen = {name: name for name in schema.names} if select is None else dict(select)
        plain = {name: _column_alone(schema, each) for name, each in chosen.items()}
        self._select = {
            name: ExpressionContext.of(_expression(each))
            for name, each in chosen.items()
            if plain[name] is None
        }
        self._plain = {name: field for name, field in plain.items() if field is not None}
        self.output_schema = pa.schema(
            [
                pa.field(
                    name,
                    schema.field(self._plain[name]).type.arrow
                    if name in self._plain
                    else _result_type(self._select[name], table),
                )
                for name in chosen
            ]
        )
        computed = {
            name: (each.expression(), self.output_schema.field(name).type)
            for name, each in self._select.items()
        }
        condition = None if self._where is None else self._where.expression()
        self._program = FieldProgram(schema, condition, computed)
        left = self._program.left
        self._left = None if left is None else ExpressionContext.of(left)

    def run(self, rows: Rows | BytesLike) -> pa.RecordBatch:
        """Return the rows that are kept, as columns of ``output_schema``, in their order.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema.
        IntegerOverflowError, ExpressionError
            Where a row has no result.
        """
        if not isinstance(rows, Rows):
            rows = Rows.from_bytes(self.schema, rows)
        kept, found = self._program.run(rows)
        if self._left is not None:
            kept, found = _filtered(kept, found, self._left)
        rest = {name: each for name, each in self._select.items() if name not in found}
        table = _table(kept, rest.values()) if rest else None
        memo: dict[str, object] = {}
        for name in self.output_schema.names:
            if name in self._plain:
                found[name] = kept.column(self._plain[name])
            elif name not in found:
                found[name] = evaluate(rest[name], table, memo)
        columns = [found[name] for name in self.output_schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def _filtered(
    rows: Rows, found: dict[str, pa.Array], condition: ExpressionContext
) -> tuple[Rows, dict[str, pa.Array]]:
    """Return the rows for which a condition is true, and what is computed of these."""
    mask = evaluate(condition, _table(rows, [condition]))
    mask = fill_null(mask, False) if mask.null_count else mask
    keep = numpy_array(mask)
    if keep.all():
        return rows, found
    return rows.taken(np.flatnonzero(keep)), {
        name: each.filter(mask) for name, each in found.items()
    }


def _expression(value: Expression | str) -> Expression:
    return parse(value) if isinstance(value, str) else value


def _result_type(context: ExpressionContext, schema: TableSchema) -> pa.DataType:
    return evaluate(context, schema.empty()).type


def _column_alone(schema: RowSchema, value: Expression | str) -> str | None:
    """Return the field that a projection hands on as it is; None for what is computed."""
    return value if isinstance(value, str) and value in schema.names else None


def _table(rows: Rows, contexts: Iterable[ExpressionContext]) -> pa.Table:
    """Return the columns that some expressions read."""
    names = sorted({name for context in contexts for name in context.columns.values()})
    if not names:  # a constant is computed for as many rows as there are
        return pa.table({_NO_COLUMN: pa.nulls(len(rows))})
    return pa.table({name: rows.column(name) for name in names})

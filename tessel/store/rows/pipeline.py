"""RowPipeline: filter and project rows when they arrive, before they become columns.

The expressions are those of queries, with the same answers. What has a step in a row program runs
on the rows where they lie, in one loop of machine code. For the rest the fields that the condition
reads become columns for all rows; the others are read for the rows that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import fill_null, numpy_array
from tessel.errors import ExpressionTypeError, InvalidInputError
from tessel.expression.context import ExpressionContext
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.text import parse
from tessel.kernels.filter_rows import FilteredRows, StructRows, filter_rows
from tessel.kernels.row_program import RowStatus
from tessel.store.rows.row_programs import RowCompiler
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
        compiler = RowCompiler(schema)
        self._computed: list[str] = []
        if self._where is None or compiler.keep(self._where):
            self._computed = [n for n, each in self._select.items() if compiler.output(each)]
        runs = self._computed or (self._where is not None and compiler.keeps)
        self._program = compiler.program() if runs else None
        self._shifted = compiler.shifted

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
        kept, found = self._filtered(rows)
        if kept is None:
            kept = rows if self._where is None else self._kept(rows, self._where)
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

    def _filtered(self, rows: Rows) -> tuple[Rows | None, dict[str, Any]]:
        """Return the rows that are kept, and what was computed of them; None to use columns."""
        if self._program is None or not len(rows):
            return None, {}
        starts = np.zeros(0, np.int64) if rows.starts is None else rows.starts
        data = rows.records.view(np.uint8)
        structs = StructRows(data, self.schema.fixed_size, rows.heap, starts)
        found = filter_rows(structs, self._program)
        if found.status != RowStatus.DONE:
            return None, {}  # the columns say whether a row has no result
        columns = {
            name: _column(found, at, self.output_schema.field(name).type, shifted=shifted)
            for at, (name, shifted) in enumerate(zip(self._computed, self._shifted, strict=True))
        }
        if len(found.rows) == len(rows):
            return rows, columns
        return _chosen(rows, found.rows), columns

    def _kept(self, rows: Rows, where: ExpressionContext) -> Rows:
        found = evaluate(where, _table(rows, [where]))
        mask = fill_null(found, False) if found.null_count else found
        keep = numpy_array(mask)
        if keep.all():
            return rows
        return _chosen(rows, np.flatnonzero(keep))


def _chosen(rows: Rows, chosen: np.ndarray) -> Rows:
    starts = None if rows.starts is None else rows.starts[chosen]
    return Rows(rows.schema, rows.records.take(chosen), rows.heap, starts)


def _column(found: FilteredRows, at: int, kind: pa.DataType, *, shifted: bool) -> pa.Array:
    """Return an output of a program as an array of its type."""
    bits, valid = found.bits[at], found.valid[at]
    count, nulls = len(bits), len(bits) - int(np.count_nonzero(valid))
    if pa.types.is_boolean(kind):
        values = np.packbits(bits != 0, bitorder="little")
    elif pa.types.is_floating(kind):
        values = bits.view(np.float64).astype(f"f{kind.bit_width // 8}")
    else:
        values = (bits ^ np.int64(-(1 << 63)) if shifted else bits).astype(
            f"i{kind.bit_width // 8}"
        )
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(values)], nulls)


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

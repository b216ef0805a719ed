"""RowPipeline: filter and project rows when they arrive, before they become columns.

The expressions are those of queries, with the same answers. What can be a program on blocks runs on
the rows where they lie, as on the pages of a segment (:class:`FieldProgram`). What programs do not
read (numbers in big endian, and rows of at most eight bytes, whose fields are in no word of their
own) has no column of a program. For the rest the fields that the condition reads become columns,
for the rows that a program has left; the others are read for the rows that are left then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.errors import ExpressionTypeError, InvalidInputError
from tessel.expression.checking import cannot_raise
from tessel.expression.context import ExpressionContext
from tessel.expression.encoded import BlockProgram, Output
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And
from tessel.expression.schema import TableSchema
from tessel.expression.text import parse
from tessel.kernels.blocks import ALL_PRESENT, SINGLE_BITS, Gap, StoredBlocks, spanned
from tessel.kernels.program import Op
from tessel.kernels.register_rows import register_rows
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import FieldLayout, Layout, RowSchema
from tessel.store.segment.page_tables import NOT_SCALED, PageFact
from tessel.store.segment.stored_columns import StoredColumn

_WORD_BYTES = 8
_ONE_PAGE = 40
"""All rows lie in one page, whatever their number."""


class FieldColumns:
    """The fields of rows of one schema.

    Attributes
    ----------
    columns
        By name, in the order of their number; none where programs do not read the rows.
    """

    def __init__(self, schema: RowSchema) -> None:
        is_read = schema.byte_order == "little" and schema.fixed_size > _WORD_BYTES
        fields = tuple(each for each in schema.fields if is_read and _is_read(schema, each))
        self.columns = {field.name: _column(schema, field) for field in fields}
        self._facts = np.zeros((PageFact.COUNT, len(fields), 1), np.int64)
        self._gaps = np.zeros((Gap.COUNT, len(fields), 1), np.int64)
        for place, field in enumerate(fields):
            self._facts[:, place, 0] = _facts(schema, field)
            self._gaps[Gap.NANS, place] = self.columns[field.name].exponents is not None
            self._gaps[Gap.VALIDITY, place] = ALL_PRESENT
            if schema.null_bitmap_size:
                self._gaps[Gap.VALIDITY, place] = schema.null_bitmap_offset * 8 + field.null_bit

    def blocks(self, rows: Rows, *, with_texts: bool) -> StoredBlocks:
        """Return rows as what kernels read, with the heap of their texts or without."""
        data, facts, gaps = rows.records.view(np.uint8), self._facts, self._gaps
        if with_texts:
            data, (start, heap) = spanned([data, rows.heap])
            facts, gaps = facts.copy(), gaps.copy()
            facts[PageFact.START] += start
            gaps[Gap.VALIDITY] += 8 * start  # rows with texts have a bitmap
            gaps[Gap.VALUES], gaps[Gap.PLACES] = heap, heap + len(rows.heap)
        return StoredBlocks(data, facts, _ONE_PAGE, 0, len(rows), gaps)


def _column(schema: RowSchema, field: FieldLayout) -> StoredColumn:
    """Return what is known of a field: the bounds are those of its type."""
    kind, has_nulls = field.type.arrow, schema.null_bitmap_size > 0
    if pa.types.is_floating(kind):
        exponent = NOT_SCALED if field.size == _WORD_BYTES else SINGLE_BITS
        return StoredColumn(kind, None, np.array([exponent]), (-np.inf, np.inf), True)
    if field.is_variable:
        return StoredColumn(kind, None, None, None, has_nulls)
    reach = 1 << 8 * field.size
    low = -reach >> 1 if _is_signed(field) else 0
    return StoredColumn(kind, None, None, (low, low + reach - 1), has_nulls)


def _facts(schema: RowSchema, field: FieldLayout) -> list[int]:
    """Return where the integers of a field are.

    Their words end with the row where they would pass its end, so that the last is no exception.
    """
    size = field.size
    start = min(field.offset, schema.fixed_size - _WORD_BYTES)
    mask = np.array(
        [((1 << 8 * size) - 1) << 8 * (field.offset - start) & (1 << 64) - 1], np.uint64
    )
    has_sign = _is_signed(field) and size < _WORD_BYTES
    base = -(1 << 8 * size - 1) if has_sign else 0
    exponent = SINGLE_BITS if field.type.getter == "f32" else NOT_SCALED
    return [start, 8 * schema.fixed_size, mask.view(np.int64).item(), base, 0, exponent]


def _is_read(schema: RowSchema, field: FieldLayout) -> bool:
    """Return whether a field is in one word; its text, if it has one, in a heap of all rows."""
    if field.is_variable:
        return schema.layout is Layout.PACKED
    return not pa.types.is_fixed_size_binary(field.type.arrow)


def _is_signed(field: FieldLayout) -> bool:
    return field.type.getter.startswith("i")


class FieldProgram:
    """Conjuncts and outputs as one program on the fields of rows.

    Parameters
    ----------
    where
        What is true of the rows that are kept; None keeps all.
    select
        What is computed of them, by name, each with its type.

    Attributes
    ----------
    left
        What has to be true, too, of the rows that the program keeps; None where that is all.
    """

    def __init__(
        self,
        schema: RowSchema,
        where: Expression | None,
        select: Mapping[str, tuple[Expression, pa.DataType]],
    ) -> None:
        self._fields, self._table = FieldColumns(schema), TableSchema(schema.arrow)
        program = self._empty()
        self._kept: int | None = None
        left = []
        for conjunct, is_computed in self._conjuncts(where):
            truth = program.truth(conjunct) if is_computed else None
            if truth is None:
                left.append(conjunct)
            else:
                self._kept = program.both(self._kept, truth)
        self.left = And(tuple(left)) if len(left) > 1 else left[0] if left else None
        self._registers = [] if self._kept is None else [program.rows()]
        self._outputs: dict[str, tuple[Output, pa.DataType]] = {}
        for name, (expression, kind) in select.items():
            output = program.output(expression) if self._is_computed(expression) else None
            if output is not None:
                self._outputs[name] = output, kind
                self._registers += [output.register]
                self._registers += [] if output.valid is None else [output.valid]
        self._program = program.program().bind(list(self._fields.columns.values()), 1)
        self._has_texts = bool((self._program.steps[:, 0] == Op.TEXT_EQUAL).any())

    def run(self, rows: Rows) -> tuple[Rows, dict[str, pa.Array]]:
        """Return the rows that are kept, and what is computed of them."""
        if not self._registers or not len(rows):
            return rows, {}
        blocks = self._fields.blocks(rows, with_texts=self._has_texts)
        lines = register_rows([blocks], self._program, select=self._kept, registers=self._registers)
        found = iter(lines)
        if self._kept is not None:
            places = next(found)
            rows = rows if len(places) == len(rows) else rows.taken(places)
        columns = {
            name: _array(next(found), None if output.valid is None else next(found), kind)
            for name, (output, kind) in self._outputs.items()
        }
        return rows, columns

    def _conjuncts(self, where: Expression | None) -> list[tuple[Expression, bool]]:
        """Return the conjuncts of a condition, each with whether the program computes it."""
        conjuncts = where.operands if isinstance(where, And) else () if where is None else (where,)
        found = [(conjunct, self._is_computed(conjunct)) for conjunct in conjuncts]
        if all(is_computed or cannot_raise(each, self._table) for each, is_computed in found):
            return found
        # Rows that the program leaves out might be without a result, which is an error.
        return [(conjunct, False) for conjunct in conjuncts]

    def _is_computed(self, expression: Expression) -> bool:
        """Return whether an expression can be in a program: what is begun of it stays there."""
        return self._empty().output(expression) is not None

    def _empty(self) -> BlockProgram:
        forms = {name: column.exact_form for name, column in self._fields.columns.items()}
        return BlockProgram(forms, self._table)


def _array(
    bits: npt.NDArray[np.int64], valid: npt.NDArray[np.int64] | None, kind: pa.DataType
) -> pa.Array:
    """Return an output of a program as an array of its type."""
    values: npt.NDArray[Any]
    if pa.types.is_boolean(kind):
        values = bits != 0
    elif pa.types.is_floating(kind):
        values = bits.view(np.float64).copy()
    else:
        values = bits.astype(f"i{kind.bit_width // 8}")
    return arrow_array(values, mask=None if valid is None else valid == 0).view(kind)


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
        # Fields that are handed on as they are, and what is computed.
        self._plain = {
            name: each
            for name, each in chosen.items()
            if isinstance(each, str) and each in schema.names
        }
        self._select = {
            name: ExpressionContext.of(_expression(each))
            for name, each in chosen.items()
            if name not in self._plain
        }
        kinds = {name: schema.field(field).type.arrow for name, field in self._plain.items()}
        kinds |= {name: _result_type(each, table) for name, each in self._select.items()}
        self.output_schema = pa.schema([(name, kinds[name]) for name in chosen])
        computed = {name: (each.expression(), kinds[name]) for name, each in self._select.items()}
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


def _table(rows: Rows, contexts: Iterable[ExpressionContext]) -> pa.Table:
    """Return the columns that some expressions read."""
    names = sorted({name for context in contexts for name in context.columns.values()})
    if not names:  # a constant is computed for as many rows as there are
        return pa.table({_NO_COLUMN: pa.nulls(len(rows))})
    return pa.table({name: rows.column(name) for name in names})

"""The values domain: an expression computed on an Arrow table.

Every node is computed once and kept by its name. First everything is computed for all rows; only
if that raises is it run again as written, where and, or, case and coalesce compute an operand for
the rows that reach it and no others.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, MutableMapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, fill_null, one_array
from tessel.cancelling import check_cancelled
from tessel.errors import ExpressionError, IntegerOverflowError, TesselError
from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And, Or
from tessel.expression.printing import limited_text
from tessel.expression.schema import TableSchema
from tessel.expression.types import TEXT_CHARACTERS
from tessel.expression.values import Value, coerce, literal_value, nan_to_null


def evaluate(
    expression: ExpressionContext | Expression,
    table: pa.Table,
    memo: MutableMapping[str, Any] | None = None,
) -> pa.Array:
    """Compute an expression for every row of a table.

    Parameters
    ----------
    expression
        The expression, or its context where it is computed for many tables.
    table
        The columns that the expression reads, others are ignored.
    memo
        Results by node name, shared between expressions on the *same* table; read and added to.

    Returns
    -------
    pa.Array
        ``table.num_rows`` values of exactly the expression's `result_type`.

    Raises
    ------
    ColumnNotFoundError, ExpressionTypeError
        Where the expression does not fit the table.
    IntegerOverflowError, ExpressionError
        Where a row that reaches an operator has no result: integers past 64 bits, a value that
        cannot be cast.
    """
    check_cancelled()
    context = ExpressionContext.of(expression)
    return _Evaluation(context, table.schema).run(table, {} if memo is None else memo)


_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError)
"""What a value raises that a type does not hold; the last one of Python's integers."""


class _Evaluation:
    """One context on tables of one schema."""

    def __init__(self, context: ExpressionContext, schema: pa.Schema) -> None:
        self._context = context
        self._types = _types_for(context, schema)

    def run(self, table: pa.Table, memo: MutableMapping[str, Any]) -> pa.Array:
        root = self._context.root
        if table.num_rows == 0:
            return self._empty(root)
        try:
            value = self._everywhere(table, memo)
        except TesselError:
            value = _driven(self._as_written(root, table, memo))
        return _rows(value, table.num_rows, self._types[root].result)

    def _empty(self, name: str) -> pa.Array:
        return arrow_array([], self._types[name].result)

    def _everywhere(self, table: pa.Table, memo: MutableMapping[str, Any]) -> Value:
        for name in self._context.order:
            if name not in memo:
                memo[name] = self._compute(
                    name, [memo[child] for child in self._context.children(name)], table
                )
        return memo[self._context.root]

    def _compute(self, name: str, operands: list[Value], table: pa.Table) -> Value:
        node = self._context.expression(name)
        if isinstance(node, Column):
            return _column(table, node.column)
        if isinstance(node, Literal):
            return node.scalar
        type_ = self._types[name]
        try:
            return _on_dictionary(node, type_, operands) or _apply(node, type_, operands)
        except _FAILURES as error:
            raise _failure(node, type_, error) from error

    def _chosen(self, name: str, place: int, value: Value) -> Value:
        """Return an operand that some rows get as it is, of the type of the result."""
        type_ = self._types[name]
        try:
            return _operand(value, type_.operands[place].literal, type_.result)
        except _FAILURES as error:
            raise _failure(self._context.expression(name), type_, error) from error

    # --- as written -------------------------------------------------------------------------------

    def _as_written(
        self, name: str, table: pa.Table, memo: MutableMapping[str, Any]
    ) -> Generator[Any, Value, Value]:
        """Compute one node for rows that reach it; yields operands to compute first."""
        if name in memo:
            return memo[name]
        if table.num_rows == 0:
            return self._empty(name)
        node = self._context.expression(name)
        children = self._context.children(name)
        if isinstance(node, And | Or):
            value = yield from self._chain(isinstance(node, And), children, table, memo)
        elif node.name == "case":
            conditions = len(children) // 2  # and as many values, and one more
            value = yield from self._case(name, conditions, children, table, memo)
        elif node.name == "coalesce":
            value = yield from self._coalesce(name, children, table, memo)
        else:
            operands: list[Value] = []
            for child in children:
                value = yield self._as_written(child, table, memo)
                operands += (value,)
            value = self._compute(name, operands, table)
        memo[name] = value
        return value

    def _reached(
        self, name: str, reach: pa.Array, table: pa.Table, memo: MutableMapping[str, Any]
    ) -> Generator[Any, Value, Value]:
        """Compute an operand for the rows of a mask; null in the others."""
        if pc.all(reach).as_py():
            return (yield self._as_written(name, table, memo))
        chosen = table.filter(reach)
        value = yield self._as_written(name, chosen, {})
        value = _rows(value, chosen.num_rows, self._types[name].result)
        places = pc.cast(pc.cumulative_sum(pc.cast(reach, pa.int64())), pa.int64())
        places = pc.if_else(
            reach, pc.subtract(places, arrow_scalar(1)), arrow_scalar(None, pa.int64())
        )
        return value.take(places)

    def _chain(
        self, conjunction: bool, children: tuple[str, ...], table: pa.Table, memo: Any
    ) -> Generator[Any, Value, Value]:
        identity = arrow_scalar(conjunction)
        join = pc.and_kleene if conjunction else pc.or_kleene
        so_far = pa.repeat(identity, table.num_rows)
        for child in children:
            # decided rows (false in an And, true in an Or) do not reach the next operand
            reach = pc.coalesce(pc.equal(so_far, identity), arrow_scalar(True))
            value = yield from self._reached(child, reach, table, memo)
            value = coerce(value, pa.bool_())
            so_far = join(so_far, pc.if_else(reach, value, identity))
        return so_far

    def _case(
        self, name: str, count: int, children: tuple[str, ...], table: pa.Table, memo: Any
    ) -> Generator[Any, Value, Value]:
        type_ = self._types[name]
        left = pa.repeat(arrow_scalar(True), table.num_rows)
        chosen = arrow_scalar(None, type_.result)
        for place in range(count + 1):
            taken = left
            if place < count:
                condition = yield from self._reached(children[place], left, table, memo)
                condition = coerce(condition, pa.bool_())
                taken = pc.and_(left, pc.coalesce(condition, arrow_scalar(False)))
            at = count + place
            value = yield from self._reached(children[at], taken, table, memo)
            value = self._chosen(name, at, value)
            chosen = pc.if_else(taken, value, chosen)
            left = pc.and_not(left, taken)
        return chosen

    def _coalesce(
        self, name: str, children: tuple[str, ...], table: pa.Table, memo: Any
    ) -> Generator[Any, Value, Value]:
        type_ = self._types[name]
        chosen: Value = pa.repeat(arrow_scalar(None, type_.result), table.num_rows)
        for place, child in enumerate(children):
            value = yield from self._reached(child, pc.is_null(chosen), table, memo)
            value = self._chosen(name, place, value)
            chosen = pc.coalesce(chosen, nan_to_null(value))
        return chosen


def _driven(start: Generator[Any, Value, Value]) -> Value:
    """Run nested computations on a stack of our own, however deep the expression is."""
    stack = [start]
    answer: Value = None
    while stack:
        try:
            request = stack[-1].send(answer)
        except StopIteration as finished:
            stack.pop()
            answer = finished.value
        else:
            stack.append(request)
            answer = None
    return answer


def _types_for(context: ExpressionContext, schema: pa.Schema) -> Mapping[str, NodeType]:
    places = [schema.get_field_index(name) for name in context.columns.values()]
    if (
        min(places, default=0) >= 0
    ):  # of a wide table, checking all names takes longer than a column
        schema = pa.schema([schema.field(place) for place in places])
    return node_types(context, TableSchema(schema))


def _column(table: pa.Table, name: str) -> pa.Array:
    return one_array(table.column(name))


def _operand(value: Value, literal: Literal | None, target: pa.DataType) -> Value:
    return coerce(value, target) if literal is None else literal_value(literal, target)


def _apply(node: Expression, type_: NodeType, operands: list[Value]) -> Value:
    assert type_.signature is not None
    values = [
        _operand(value, operand.literal, target)
        for value, operand, target in zip(
            operands, type_.operands, type_.signature.inputs, strict=True
        )
    ]
    result = node.compute(values, type_.result)
    return result if result.type == type_.result else pc.cast(result, type_.result)


def _on_dictionary(node: Expression, type_: NodeType, operands: list[Value]) -> Value | None:
    """Compute on the distinct values of a dictionary operand, where the others are scalars.

    None where that does not apply, or where a value that no row may have fails.
    """
    arrays = [place for place, value in enumerate(operands) if not isinstance(value, pa.Scalar)]
    if len(arrays) != 1:
        return None
    encoded = operands[arrays[0]]
    if not isinstance(encoded, pa.DictionaryArray) or len(encoded.dictionary) >= len(encoded):
        return None
    # the extra last entry is what rows without a value get
    entries = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
    try:
        computed = _apply(
            node, type_, [entries if place == arrays[0] else v for place, v in enumerate(operands)]
        )
    except (pa.ArrowInvalid, TesselError):
        return None
    codes = pc.cast(encoded.indices, pa.int64())
    return computed.take(fill_null(codes, len(encoded.dictionary)))


def _rows(value: Value, count: int, type_: pa.DataType) -> pa.Array:
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, count)
    return value if value.type == type_ else pc.cast(value, type_)


def _failure(node: Expression, type_: NodeType, error: Exception) -> TesselError:
    from tessel.expression.operators.casting import Cast

    text = limited_text(node, TEXT_CHARACTERS)
    if isinstance(node, Cast):
        return ExpressionError(
            f"a value of {type_.operands[0]} cannot be cast to {node.target}: {error}",
            hint="take a type that holds all values, or keep the rows out with when(...)",
            expression=text,
        )
    is_counted = pa.types.is_temporal(type_.result)
    way = "of the finer unit to the coarser one" if is_counted else "to float64 or a decimal"
    return IntegerOverflowError(
        f"{text} passes the range of {type_.result}",
        hint=f"cast an operand {way} first, or keep the rows out with when(...)",
        expression=text,
    )

"""Types of nodes, found in one pass over a context; and expressions rewritten, operands first.

Some expressions cannot fail, whatever the values, and may be asked of more rows than written. A
rewrite may take an error away, never add one. So an expression may meet rows that, as written,
it would not have met, only if it is made of the operators listed here: no arithmetic, whose result
may pass its type, and no cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tessel.errors import ColumnNotFoundError
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression, layout, post_order
from tessel.expression.schema import TableSchema
from tessel.expression.types import Operand, Signature, plain_type
from tessel.lazy import dataclass


@dataclass(frozen=True, slots=True)
class NodeType:
    """What is known of a node for a schema.

    Attributes
    ----------
    result
        The exact type of its values; a column keeps its dictionary.
    signature
        The operator's type rule for its operands; None for a column.
    operands
        The operands as the rule saw them, literals fitted.
    """

    result: pa.DataType
    signature: Signature | None
    operands: tuple[Operand, ...]


def check_types(expression: Expression, schema: TableSchema) -> pa.DataType:
    """Return the result type of an expression for a schema; misuse raises."""
    context = ExpressionContext.of(expression)
    return node_types(context, schema)[context.root].result


_MOST_MEMOS = 8
"""Types of columns for which a context keeps those of its nodes: inputs of a query may differ."""


def node_types(context: ExpressionContext, schema: TableSchema) -> Mapping[str, NodeType]:
    """Return the type of every node of a context by its name.

    They are kept beside the context: a query asks again in each pass of the planner and for every
    unit.

    Raises ColumnNotFoundError for the first column, in written order, that the schema does not
    have; ExpressionTypeError for the first operator whose operands do not go together.
    """
    places = [schema.arrow.get_field_index(name) for name in context.columns.values()]
    if min(places, default=0) < 0:
        return _node_types(context, schema)
    key = tuple(schema.arrow.field(place).type for place in places)
    found: Mapping[str, NodeType] | None = context.type_memo.get(key)
    if found is None:
        if len(context.type_memo) >= _MOST_MEMOS:
            context.type_memo.clear()
        found = context.type_memo[key] = _node_types(context, schema)
    return found


def _node_types(context: ExpressionContext, schema: TableSchema) -> Mapping[str, NodeType]:
    found: dict[str, NodeType] = {}
    for name in context.order:
        node = context.expression(name)
        if isinstance(node, Column):
            found[name] = NodeType(_column_type(node, schema), None, ())
            continue
        operands = node.fitted(
            tuple(_operand(context, child, found) for child in context.children(name))
        )
        signature = node.signature(operands)
        found[name] = NodeType(signature.result, signature, operands)
    return found


def _column_type(node: Column, schema: TableSchema) -> pa.DataType:
    if node.source is None or node.column in schema:
        return schema.type_of(node.column)
    text, place = node.source
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].split("\n", 1)[0]
    raise ColumnNotFoundError.for_name(node.column, schema.names, source=line, column=place - start)


def _operand(context: ExpressionContext, name: str, found: Mapping[str, NodeType]) -> Operand:
    node = context.expression(name)
    literal = node if isinstance(node, Literal) else None
    return Operand(plain_type(found[name].result), node, literal)


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with every node replaced by what ``change`` makes of it.

    Parameters
    ----------
    expression
        What is rewritten; it stays as it is.
    change
        Called once a distinct node, operands before their operator, with the node over its new
        operands; returns the node itself where nothing is to change.

    Returns
    -------
    Expression
        ``expression`` itself where nothing changed. However deep it is, nothing recurses.
    """
    made: dict[int, Expression] = {}
    for node in post_order(expression):
        made[id(node)] = change(_over(node, made))
    return made[id(expression)]


def with_columns(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """Return the expression with others in the place of some columns, all at once."""

    def change(node: Expression) -> Expression:
        return columns.get(node.column, node) if isinstance(node, Column) else node

    return rewrite(expression, change) if columns else expression


def _over(node: Expression, made: dict[int, Expression]) -> Expression:
    """Return a node over the new forms of its operands."""
    values: list[Any] = []
    changed = False
    for field in layout(type(node)):
        value = getattr(node, field.name)
        if field.kind == "operand":
            new: Any = made[id(value)]
            changed = changed or new is not value
        elif field.kind == "operands":
            new = tuple(made[id(operand)] for operand in value)
            changed = changed or any(a is not b for a, b in zip(new, value, strict=True))
        else:
            new = value
        values.append(new)
    return type(node)(*values) if changed else node


_NEVER_RAISE = frozenset(
    (
        *("column", "literal", "and", "or", "xor", "not", "is_in", "is_missing", "lookup"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("contains", "ends_with", "like", "matches", "starts_with"),
    )
)
_OF_FLOATS = frozenset(
    ("add", "subtract", "multiply", "divide", "abs", "negative", "sqrt", "log", "exp")
)
_OF_TEXT = frozenset(("lower", "upper", "strip", "length"))


def cannot_raise(expression: Expression, schema: TableSchema | None = None) -> bool:
    """Return whether an expression that fits its schema has a result for every row.

    With the schema, what it computes of doubles and of text is among them, and casts of
    integers into types that hold all of them.
    """
    others = [node for node in post_order(expression) if node.name not in _NEVER_RAISE]
    if not others or schema is None:
        return not others
    context = ExpressionContext.of(expression)
    types = node_types(context, schema)
    return all(
        _is_safe(context.expression(name), types[name])
        for name in context.order
        if context.expression(name).name not in _NEVER_RAISE
    )


def _is_safe(node: Expression, kind: NodeType) -> bool:
    if node.name == "cast":
        return holds_all(kind.operands[0].type, kind.result)
    if node.name in _OF_TEXT:
        return True
    return node.name in _OF_FLOATS and pa.types.is_float64(kind.result)


def holds_all(kind: pa.DataType, wider: pa.DataType) -> bool:
    """Return whether an integer type holds every value of another."""
    types = pa.types
    if not types.is_integer(kind) or not types.is_integer(wider):
        return False
    if types.is_signed_integer(kind) and not types.is_signed_integer(wider):
        return False
    more = types.is_unsigned_integer(kind) and types.is_signed_integer(wider)
    return bool(kind.bit_width + more <= wider.bit_width)

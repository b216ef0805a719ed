"""Which expressions cannot fail, whatever the values: what may be asked of more rows than written.

A rewrite may take an error away, never add one. So an expression may meet rows that, as written,
it would not have met, only if it is made of the operators listed here: no arithmetic, whose result
may pass its type, and no cast.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.node import Expression, post_order
from tessel.expression.schema import TableSchema

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

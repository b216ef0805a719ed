"""Which expressions cannot fail, whatever the values: what may be asked of more rows than written.

A rewrite may take an error away, never add one. So an expression may meet rows that, as written,
it would not have met, only if it is made of the operators listed here: no arithmetic, whose result
may pass its type, and no cast.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.arithmetic import (
    Abs,
    Add,
    Divide,
    Multiply,
    Negative,
    Subtract,
)
from tessel.expression.operators.boolean import And, Not, Or, Xor
from tessel.expression.operators.casting import Cast
from tessel.expression.operators.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
)
from tessel.expression.operators.membership import IsIn, IsMissing
from tessel.expression.operators.number import Exp, Log, Sqrt
from tessel.expression.operators.text import (
    Contains,
    EndsWith,
    Length,
    Like,
    Lower,
    Matches,
    StartsWith,
    Strip,
    Upper,
)
from tessel.expression.schema import TableSchema

__all__ = ["cannot_raise"]

_NEVER_RAISE: frozenset[type[Expression]] = frozenset(
    (
        *(Column, Literal, And, Or, Xor, Not, IsIn, IsMissing),
        *(Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual),
        *(Contains, EndsWith, Like, Matches, StartsWith),
    )
)


_OF_FLOATS: frozenset[type[Expression]] = frozenset(
    (Add, Subtract, Multiply, Divide, Abs, Negative, Sqrt, Log, Exp)
)
_OF_TEXT: frozenset[type[Expression]] = frozenset((Lower, Upper, Strip, Length))


def cannot_raise(expression: Expression, schema: TableSchema | None = None) -> bool:
    """Return whether an expression that fits its schema has a result for every row.

    With the schema, what it computes of doubles and of text is among them, and casts of
    integers into types that hold all of them.
    """
    others = [node for node in post_order(expression) if type(node) not in _NEVER_RAISE]
    if not others or schema is None:
        return not others
    context = ExpressionContext.of(expression)
    types = node_types(context, schema)
    return all(
        _is_safe(context.expression(name), types[name])
        for name in context.order
        if type(context.expression(name)) not in _NEVER_RAISE
    )


def _is_safe(node: Expression, kind: NodeType) -> bool:
    if isinstance(node, Cast):
        return holds_all(kind.operands[0].type, kind.result)
    if type(node) in _OF_TEXT:
        return True
    return type(node) in _OF_FLOATS and pa.types.is_float64(kind.result)


def holds_all(kind: pa.DataType, wider: pa.DataType) -> bool:
    """Return whether an integer type holds every value of another."""
    types = pa.types
    if not types.is_integer(kind) or not types.is_integer(wider):
        return False
    if types.is_signed_integer(kind) and not types.is_signed_integer(wider):
        return False
    more = types.is_unsigned_integer(kind) and types.is_signed_integer(wider)
    return bool(kind.bit_width + more <= wider.bit_width)

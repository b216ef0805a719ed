"""Which expressions cannot fail, whatever the values: what may be asked of more rows than written.

A rewrite may take an error away, never add one. So an expression may meet rows that, as written,
it would not have met, only if it is made of the operators listed here: no arithmetic, whose result
may pass its type, and no cast.
"""

from __future__ import annotations

from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.boolean import And, Not, Or, Xor
from tessel.expression.operators.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
)
from tessel.expression.operators.membership import IsIn, IsMissing
from tessel.expression.operators.text import Contains, EndsWith, Like, Matches, StartsWith

__all__ = ["cannot_raise"]

_NEVER_RAISE: frozenset[type[Expression]] = frozenset(
    (
        *(Column, Literal, And, Or, Xor, Not, IsIn, IsMissing),
        *(Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual),
        *(Contains, EndsWith, Like, Matches, StartsWith),
    )
)


def cannot_raise(expression: Expression) -> bool:
    """Return whether an expression that fits its schema has a result for every row."""
    return all(type(node) in _NEVER_RAISE for node in post_order(expression))

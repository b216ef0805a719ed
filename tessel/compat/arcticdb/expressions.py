"""Expressions with ArcticDB's methods: each holds one of Tessel's.

A comparison with a missing value is not true, as in pandas, and ``!=`` is. A filter drops missing
conditions, so that only what turns a condition over, or stores it, has to say so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import tessel as ts
from tessel.errors import InvalidInputError, TruthValueError

_Operator = Callable[["ExpressionNode", object], "ExpressionNode"]


def plain(value: Any) -> Any:
    """Return Tessel's expression: that of a node, any other value as a literal."""
    return value.expression if isinstance(value, ExpressionNode) else ts.lit(value)


def _decided(value: object) -> Any:
    """Return a condition that is false, and not missing, where a value of it is missing."""
    found = plain(value)
    return found.fill_missing(False) if isinstance(value, ExpressionNode) else found


def _operators(
    apply: Callable[[Any, Any], Any],
    of: Callable[[object], Any] = plain,
    *,
    is_condition: bool = False,
) -> tuple[_Operator, _Operator]:
    """Return an operator with the node on its left, and the one with the node on its right."""

    def forward(self: ExpressionNode, other: object) -> ExpressionNode:
        return ExpressionNode(apply(of(self), of(other)), is_condition=is_condition)

    def backward(self: ExpressionNode, other: object) -> ExpressionNode:
        return ExpressionNode(apply(of(other), of(self)), is_condition=is_condition)

    return forward, backward


class ExpressionNode:
    """A column, or what is computed from columns; made by ``q["price"]``, ``q.price`` or ``col``.

    Parameters
    ----------
    expression
        What it is in Tessel.
    is_condition
        Whether it is true or false.
    """

    __array_priority__ = 100  # numpy leaves its operators to us

    def __init__(self, expression: ts.Expression, *, is_condition: bool = False) -> None:
        self.expression = expression
        self.is_condition = is_condition

    def __repr__(self) -> str:
        return str(self.expression)

    def __bool__(self) -> NoReturn:
        raise TruthValueError(
            f"the expression {self} has a value for every row, so it is neither true nor false",
            hint="use & | ~ instead of and, or, not; where(c, a, b) instead of a if c else b",
        )

    __add__, __radd__ = _operators(operator.add)
    __sub__, __rsub__ = _operators(operator.sub)
    __mul__, __rmul__ = _operators(operator.mul)
    __truediv__, __rtruediv__ = _operators(operator.truediv)
    __pow__, __rpow__ = _operators(operator.pow)
    __and__, __rand__ = _operators(operator.and_, is_condition=True)
    __or__, __ror__ = _operators(operator.or_, is_condition=True)
    __xor__, __rxor__ = _operators(operator.xor, of=_decided, is_condition=True)
    __lt__ = _operators(operator.lt, is_condition=True)[0]
    __le__ = _operators(operator.le, is_condition=True)[0]
    __gt__ = _operators(operator.gt, is_condition=True)[0]
    __ge__ = _operators(operator.ge, is_condition=True)[0]

    def __neg__(self) -> ExpressionNode:
        return ExpressionNode(-self.expression)

    def __abs__(self) -> ExpressionNode:
        return ExpressionNode(abs(self.expression))

    def __invert__(self) -> ExpressionNode:
        return _condition(~_decided(self))

    def __eq__(self, other: object) -> ExpressionNode:  # type: ignore[override]
        if _is_collection(other):
            return self.isin(other)
        return _condition(self.expression == plain(other))

    def __ne__(self, other: object) -> ExpressionNode:  # type: ignore[override]
        if _is_collection(other):
            return self.isnotin(other)
        return _condition((self.expression != plain(other)).fill_missing(True))

    __hash__ = None  # type: ignore[assignment]  # nothing with such an __eq__ is a key

    def isin(self, *values: Any) -> ExpressionNode:
        """Whether the value is one of these, given one by one or as one collection."""
        given = values[0] if len(values) == 1 and _is_collection(values[0]) else values
        # numpy's own conversion would give instants as numbers.
        return _condition(self.expression.is_in(list(given)))

    def isnotin(self, *values: Any) -> ExpressionNode:
        """Whether the value is none of these; true of a missing one."""
        return ~self.isin(*values)

    def isna(self) -> ExpressionNode:
        """Whether the value is missing: null or NaN."""
        return _condition(self.expression.is_missing())

    isnull = isna

    def notna(self) -> ExpressionNode:
        """Whether there is a value."""
        return _condition(self.expression.not_missing())

    notnull = notna

    def regex_match(self, pattern: str) -> ExpressionNode:
        """Whether a regular expression, in RE2's syntax, is found anywhere in the text."""
        if not isinstance(pattern, str):
            raise InvalidInputError(f"a pattern is text, not {pattern!r:.80}", hint='"^A.*"')
        return _condition(self.expression.matches(pattern))


def col(name: str) -> ExpressionNode:
    """Return a column by its name."""
    return ExpressionNode(ts.col(name))


def where(condition: Any, left: Any, right: Any) -> ExpressionNode:
    """Return ``left`` where a condition is true and ``right`` elsewhere, in each row."""
    branches = [each for each in (left, right) if isinstance(each, ExpressionNode)]
    is_condition = bool(branches) and all(each.is_condition for each in branches)
    chosen = ts.where(plain(condition), plain(left), plain(right))
    return ExpressionNode(chosen, is_condition=is_condition)


def _condition(expression: ts.Expression) -> ExpressionNode:
    return ExpressionNode(expression, is_condition=True)


def _is_collection(value: object) -> bool:
    return not isinstance(value, str | bytes | ExpressionNode) and isinstance(value, Iterable)

"""Arithmetic: ``+ - * / // % **``, unary minus, abs and round.

Result types follow from operand types. Integers widen to the next width, at most 64 bits, where
the kernels are checked: nothing ever wraps.

Numbers beyond arithmetic: smaller and larger of several, clip, log, exp, sqrt.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tessel.errors import ExpressionError, shown
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Binary, Unary, require
from tessel.expression.printing import Piece, Sub
from tessel.expression.promotion import (
    arithmetic_types,
    common_number,
    common_type,
    next_integer,
    temporal_sum,
)
from tessel.expression.types import Family, Operand, Signature, is_signed, refuse

_NUMBERS = (Family.INTEGER, Family.FLOAT, Family.DECIMAL)
_FLOATS = Signature((pa.float64(), pa.float64()), pa.float64())


class Add(Binary, name="add", sign="+", word="+", precedence=9):
    """``left + right``: numbers; timestamp and duration; two durations."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider integer, the wider float, or the temporal sum."""
        return temporal_sum("add", *operands) or arithmetic_types("add", *operands)


class Subtract(Binary, name="subtract", sign="-", word="-", precedence=9):
    """``left - right``: numbers; two timestamps or dates (a duration); a duration from either."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return as for addition; unsigned minus unsigned is signed."""
        return temporal_sum("subtract", *operands) or arithmetic_types("subtract", *operands)


class Multiply(Binary, name="multiply", sign="*", word="*", precedence=10):
    """``left * right``: numbers; a duration and an integer."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider integer, the wider float, or the duration's type."""
        left, right = operands
        if {left.family, right.family} == {Family.DURATION, Family.INTEGER}:
            duration = left.type if left.family is Family.DURATION else right.type
            inputs = (
                (duration, pa.int64()) if left.family is Family.DURATION else (pa.int64(), duration)
            )
            return Signature(inputs, duration)
        return arithmetic_types("multiply", *operands)


class Divide(Binary, name="divide", sign="/", word="/", precedence=10):
    """``left / right``, always float64; a duration by a duration too."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return float64."""
        left, right = operands
        if left.family is right.family is Family.DURATION:
            shared = temporal_sum("divide", left, right)
            assert shared is not None
            return Signature(shared.inputs, pa.float64())
        arithmetic_types("divide", left, right)
        return _FLOATS


class FloorDivide(Binary, name="floor_divide", sign="//", word="//", precedence=10):
    """``left // right``, rounded down; by zero it is missing."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operands' common type; a duration by an integer stays a duration."""
        left, right = operands
        if left.family is Family.DURATION and right.family is Family.INTEGER:
            return Signature((left.type, pa.int64()), left.type)
        return common_number("floor-divide", left, right)


class Modulo(Binary, name="modulo", sign="%", word="%", precedence=10):
    """``left % right``, with the sign of the divisor; by zero it is missing."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operands' common type."""
        return common_number("take the remainder of", *operands)


class Power(Binary, name="power", sign="**", word="**", precedence=12):
    """``left ** right``, always float64; binds to the right, as in Python."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return float64: the type must not depend on the sign of an exponent."""
        arithmetic_types("raise to a power", *operands)
        return _FLOATS

    def pieces(self) -> Iterable[Piece]:
        """Return the text; only the left operand takes parentheses at equal precedence."""
        yield Sub(self.left, 13)
        yield " ** "
        yield Sub(self.right, 11)


class Negative(Unary, name="negative"):
    """``-operand``; integers widen as in ``0 - operand``."""

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Unary minus, or a call where the operand is a number that the minus would join."""
        return 14 if self._joins_number else 11

    @property
    def _joins_number(self) -> bool:
        operand = self.operand
        return operand.name == "literal" and getattr(operand, "kind", "") in ("int", "float")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider signed integer; floats, decimals and durations stay."""
        (operand,) = operands
        require("the negative", operand, *_NUMBERS, Family.DURATION)
        result = operand.type
        if operand.family is Family.INTEGER:
            result = next_integer(operand.type, signed=True)
        return Signature((result,), result)

    def pieces(self) -> Iterable[Piece]:
        """Return ``-operand``, or ``negative(5)`` which is not the number -5."""
        if self._joins_number:
            return Expression.pieces(self)
        return ("-", Sub(self.operand, 11))


class Abs(Unary, name="abs"):
    """The distance from zero; signed integers widen."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider integer for signed ones; other types stay."""
        (operand,) = operands
        require("abs", operand, *_NUMBERS, Family.DURATION)
        result = operand.type
        if operand.family is Family.INTEGER and is_signed(operand.type):
            result = next_integer(operand.type, signed=True)
        return Signature((result,), result)


class Round(Expression, name="round"):
    """The nearest number with so many digits after the point; halves go to the even one."""

    operand: Expression
    digits: int = 0

    def check(self) -> None:
        """Raise where digits is not a whole number from 0 to 15."""
        if type(self.digits) is not int or not 0 <= self.digits <= 15:
            raise ExpressionError(
                f"round takes a whole number of digits from 0 to 15, not {shown(self.digits)}",
                hint="for tens or hundreds write (x // 10) * 10",
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operand's type."""
        (operand,) = operands
        require("round", operand, *_NUMBERS)
        return Signature((operand.type,), operand.type)


class _WholeNumber(Unary):
    """A number beside the operand that has no fraction."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operand's type."""
        (operand,) = operands
        require(self.name, operand, *_NUMBERS)
        return Signature((operand.type,), operand.type)


class Ceil(_WholeNumber, name="ceil"):
    """The least whole number that is not below the operand."""


class FloorNumber(_WholeNumber, name="floor_number"):
    """The greatest whole number that is not above the operand."""


class Extreme(Expression):
    """The smallest or largest of several operands."""

    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where there is no operand."""
        if not self.operands:
            raise ExpressionError(
                f"{self.name} takes at least one operand", hint=f"{self.name}(a, b)"
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of the operands."""
        return _of_one_order(f"take {self.name} of", operands)


def _of_one_order(what: str, operands: tuple[Operand, ...]) -> Signature:
    """Return the common type of operands that have an order."""
    for operand in operands:
        if operand.family in (Family.LIST, Family.STRUCT, Family.OTHER):
            refuse(what, (operand,), "its values have no order")
    result = common_type(what, operands)
    return Signature((result,) * len(operands), result)


class MinOf(Extreme, name="min_of"):
    """The smallest of the operands in each row; missing ones are skipped."""


class MaxOf(Extreme, name="max_of"):
    """The largest of the operands in each row; missing ones are skipped."""


class Clip(Expression):
    """A value held on one side of a bound; missing where either is."""

    operand: Expression
    bound: Expression

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of operand and bound."""
        return _of_one_order("clip", operands)


class ClipLow(Clip, name="clip_low"):
    """The operand, or the bound where the operand is below it."""


class ClipHigh(Clip, name="clip_high"):
    """The operand, or the bound where the operand is above it."""


class FloatFunction(Unary):
    """A function of one number, computed in float64."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return float64."""
        require(self.name, operands[0], *_NUMBERS)
        return Signature((pa.float64(),), pa.float64())


class Log(FloatFunction, name="log"):
    """The natural logarithm."""


class Exp(FloatFunction, name="exp"):
    """The exponential function."""


class Sqrt(FloatFunction, name="sqrt"):
    """The square root."""

"""Arithmetic: ``+ - * / // % **``, unary minus, abs and round.

Result types follow from operand types. Integers widen to the next width, at most 64 bits, where
results are checked: nothing ever wraps.

Numbers beyond arithmetic: smaller and larger of several, clip, log, exp, sqrt.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import ExpressionError, shown
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Binary, Unary, of_one, require
from tessel.expression.printing import Piece, Sub
from tessel.expression.promotion import (
    arithmetic_types,
    common_number,
    common_type,
    next_integer,
    temporal_sum,
)
from tessel.expression.types import NUMBERS, Family, Operand, Signature, is_signed, refuse
from tessel.expression.values import Compute, Value, as_numpy, elementwise, from_numpy, nan_to_null

_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)
_WHOLE = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def checked(function: Callable[..., Value]) -> Compute:
    """Compute by a checked Arrow function, which also takes int64 beside uint64."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        if result == pa.int64() and any(value.type == pa.uint64() for value in values):
            return _whole_numbers(_WHOLE[node.name], values)
        if pa.types.is_decimal(result):
            return pc.cast(function(*values), result)
        return function(*values)

    return compute


def _whole_numbers(function: Callable[[Any, Any], Any], values: Sequence[Value]) -> Value:
    """Compute on Python integers where uint64 exceeds int64, so that only results must fit."""
    (left, left_valid), (right, right_valid) = map(as_numpy, values)
    exact = function(left.astype(object), right.astype(object))
    return _of_exact(exact, left_valid & right_valid, pa.int64(), values)


def _of_exact(exact: Any, valid: Any, result: pa.DataType, values: Sequence[Value]) -> Value:
    fits = np.array([_INT64_MIN <= item <= _INT64_MAX for item in exact], dtype=bool)
    if not (fits | ~valid).all():
        raise pa.ArrowInvalid("overflow")
    return from_numpy(np.where(valid, exact, 0).astype(np.int64), valid, result, values)


def floored(function: Any) -> Compute:
    """Divide rounding down, or take the rest; by zero is missing, past 64 bits raises."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        (left, left_valid), (right, right_valid) = map(as_numpy, values)
        valid = left_valid & right_valid & (right != 0)
        divisor = np.where(right != 0, right, np.ones(1, right.dtype))
        if left.dtype != right.dtype and pa.types.is_integer(result):
            exact = function(left.astype(object), divisor.astype(object))
            return _of_exact(exact, valid, result, values)
        if function is np.floor_divide and left.dtype.kind == "i":
            lowest = np.iinfo(left.dtype).min
            if ((left == lowest) & (divisor == -1) & valid).any():
                raise pa.ArrowInvalid("overflow")
        with np.errstate(all="ignore"):
            return from_numpy(function(left, divisor), valid, result, values)

    return compute


def whole_number(function: Callable[..., Value]) -> Compute:
    """Compute by a function to whole numbers, which integers are already."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        (value,) = values
        return value if pa.types.is_integer(result) or pa.types.is_null(result) else function(value)

    return compute


def extreme(function: Callable[..., Value], *, skip_nulls: bool) -> Compute:
    """Compute an extreme of each row, which skips missing values or is missing too."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(*(nan_to_null(value) for value in values), skip_nulls=skip_nulls)

    return compute


_FLOATS = Signature((pa.float64(), pa.float64()), pa.float64())


def _sums(node: Expression, operands: tuple[Operand, ...]) -> Signature:
    """Return the next wider integer, the wider float, or the temporal sum.

    Unsigned minus unsigned is signed.
    """
    return temporal_sum(node.name, *operands) or arithmetic_types(node.name, *operands)


class Add(
    Binary, name="add", sign="+", precedence=9, signature=_sums, compute=checked(pc.add_checked)
):
    """``left + right``: numbers; timestamp and duration; two durations."""


class Subtract(
    Binary,
    name="subtract",
    sign="-",
    precedence=9,
    signature=_sums,
    compute=checked(pc.subtract_checked),
):
    """``left - right``: numbers; two timestamps or dates (a duration); a duration from either."""


class Multiply(
    Binary, name="multiply", sign="*", precedence=10, compute=checked(pc.multiply_checked)
):
    """``left * right``: numbers; a duration and an integer."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider integer, the wider float, or the duration's type."""
        left, right = operands
        if {left.family, right.family} == {Family.DURATION, Family.INTEGER}:
            inputs = tuple(pa.int64() if o.family is Family.INTEGER else o.type for o in operands)
            (duration,) = filter(pa.types.is_duration, inputs)
            return Signature(inputs, duration)
        return arithmetic_types("multiply", *operands)


class Divide(Binary, name="divide", sign="/", precedence=10):
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

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Divide in float64; durations in their common unit."""
        left, right = values
        if pa.types.is_duration(left.type):
            left, right = (
                pc.cast(pc.cast(v, pa.int64()), pa.float64(), safe=False) for v in values
            )
        return pc.divide(left, right)


class FloorDivide(
    Binary, name="floor_divide", sign="//", precedence=10, compute=floored(np.floor_divide)
):
    """``left // right``, rounded down; by zero it is missing."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operands' common type; a duration by an integer stays a duration."""
        left, right = operands
        if left.family is Family.DURATION and right.family is Family.INTEGER:
            return Signature((left.type, pa.int64()), left.type)
        return common_number("floor-divide", left, right)


class Modulo(Binary, name="modulo", sign="%", precedence=10, compute=floored(np.remainder)):
    """``left % right``, with the sign of the divisor; by zero it is missing."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operands' common type."""
        return common_number("take the remainder of", *operands)


class Power(Binary, name="power", sign="**", precedence=12):
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

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Raise to a power in float64."""
        (left, left_valid), (right, right_valid) = map(as_numpy, values)
        with np.errstate(all="ignore"):
            return from_numpy(np.power(left, right), left_valid & right_valid, result, values)


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
        require("the negative", operand, *NUMBERS, Family.DURATION)
        result = operand.type
        if operand.family is Family.INTEGER:
            result = next_integer(operand.type, signed=True)
        return Signature((result,), result)

    def pieces(self) -> Iterable[Piece]:
        """Return ``-operand``, or ``negative(5)`` which is not the number -5."""
        if self._joins_number:
            return Expression.pieces(self)
        return ("-", Sub(self.operand, 11))

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Change the sign, checked."""
        (value,) = values
        if pa.types.is_duration(result):
            return pc.cast(pc.negate_checked(pc.cast(value, pa.int64())), result)
        return pc.negate_checked(value)


class Abs(Unary, name="abs", compute=elementwise(pc.abs_checked)):
    """The distance from zero; signed integers widen."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the next wider integer for signed ones; other types stay."""
        (operand,) = operands
        require("abs", operand, *NUMBERS, Family.DURATION)
        result = operand.type
        if operand.family is Family.INTEGER and is_signed(operand.type):
            result = next_integer(operand.type, signed=True)
        return Signature((result,), result)


class Round(Expression, name="round", signature=of_one(*NUMBERS)):
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

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Round halves to the even digit; integers have no digits after the point."""
        (value,) = values
        if pa.types.is_integer(result) or pa.types.is_null(result):
            return value
        if pa.types.is_decimal(result) and self.digits >= result.scale:
            return value
        return pc.round(value, ndigits=self.digits, round_mode="half_to_even")


class Ceil(Unary, name="ceil", signature=of_one(*NUMBERS), compute=whole_number(pc.ceil)):
    """The least whole number that is not below the operand."""


class FloorNumber(
    Unary, name="floor_number", signature=of_one(*NUMBERS), compute=whole_number(pc.floor)
):
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


class MinOf(Extreme, name="min_of", compute=extreme(pc.min_element_wise, skip_nulls=True)):
    """The smallest of the operands in each row; missing ones are skipped."""


class MaxOf(Extreme, name="max_of", compute=extreme(pc.max_element_wise, skip_nulls=True)):
    """The largest of the operands in each row; missing ones are skipped."""


class Clip(Expression):
    """A value held on one side of a bound; missing where either is."""

    operand: Expression
    bound: Expression

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of operand and bound."""
        return _of_one_order("clip", operands)


class ClipLow(Clip, name="clip_low", compute=extreme(pc.max_element_wise, skip_nulls=False)):
    """The operand, or the bound where the operand is below it."""


class ClipHigh(Clip, name="clip_high", compute=extreme(pc.min_element_wise, skip_nulls=False)):
    """The operand, or the bound where the operand is above it."""


class FloatFunction(Unary):
    """A function of one number, computed in float64."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return float64."""
        require(self.name, operands[0], *NUMBERS)
        return Signature((pa.float64(),), pa.float64())


class Log(FloatFunction, name="log", compute=elementwise(pc.ln)):
    """The natural logarithm."""


class Exp(FloatFunction, name="exp", compute=elementwise(pc.exp)):
    """The exponential function."""


class Sqrt(FloatFunction, name="sqrt", compute=elementwise(pc.sqrt)):
    """The square root."""

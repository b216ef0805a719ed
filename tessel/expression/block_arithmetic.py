"""Numbers that a program computes of stored columns: sums, differences, products, first known ones.

The encoded domain (:mod:`tessel.expression.encoded`) enters here with compiled operands. What might
overflow, or be rounded otherwise than in the values domain, is refused with None.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from tessel.expression.block_columns import BlockColumns, Number, Scaled, Stored
from tessel.expression.block_steps import EXACT, GREATEST, LEAST
from tessel.expression.checking import NodeType
from tessel.expression.leaves import Literal
from tessel.expression.node import Expression
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.expression.values import literal_value
from tessel.kernels.decimal_sums import DecimalBounds
from tessel.kernels.program import Op

NO_OVERFLOW = 1 << 62
"""Integers of at most this size may be added once more."""
_SLACK = 1 + 2.0**-50
_LARGEST_FLOAT, _ENDLESS = 2.0**1000, float("inf")

ARITHMETIC: dict[str, tuple[int, int]] = {
    "add": (Op.ADD, Op.INTEGER_ADD),
    "subtract": (Op.SUBTRACT, Op.INTEGER_SUBTRACT),
    "multiply": (Op.MULTIPLY, Op.INTEGER_MULTIPLY),
    "divide": (Op.DIVIDE, -1),
}
"""The steps of an operator, of floats and of integers, if it has one."""


class BlockArithmetic(BlockColumns):
    """Computes numbers of columns and of other numbers."""

    def _arithmetic(self, node: Expression, kind: NodeType, operands: list[Any]) -> Number | None:
        assert kind.signature is not None
        float_op, integer_op = ARITHMETIC[node.name]
        numbers: list[Number] = []
        for value, operand, target in zip(
            operands, kind.operands, kind.signature.inputs, strict=True
        ):
            number = self._operand(value, operand.literal, target)
            if number is None:
                return None
            numbers.append(number)
        one, two = numbers
        known = self.both(one.known, two.known)
        low, high = interval(float_op, one, two)
        if pa.types.is_float64(kind.result):
            if changes_unit(kind):
                return None
            registers = [self._float(number) for number in numbers]
            register = self._steps.step(float_op, *registers)  # type: ignore[arg-type]
            low, high = float(low), float(high)
            low, high = min(low * _SLACK, low / _SLACK), max(high * _SLACK, high / _SLACK)
            if not max(abs(low), abs(high)) < _LARGEST_FLOAT:  # may be NaN, too
                number_there = self._steps.step(Op.EQUAL, register, register)
                return Number(True, register, -_ENDLESS, _ENDLESS, self.both(known, number_there))
            scaled = self._scaled_result(float_op, integer_op, operands)
            return Number(True, register, low, high, known, scaled)
        if one.is_float or two.is_float or not pa.types.is_integer(kind.result):
            return None
        if not -NO_OVERFLOW <= low <= high <= NO_OVERFLOW:
            return None
        if low < 0 and pa.types.is_unsigned_integer(kind.result):
            return None  # a row below zero has no result: its values say so
        register = self._steps.step(integer_op, one.register, two.register)
        return Number(False, register, low, high, known)

    def _absolute(self, kind: NodeType, value: Any) -> Number | Stored | None:
        """Compile abs: nothing is done to what is above zero already."""
        number = self._value(value)
        if number is None or number.is_float != pa.types.is_float64(kind.result):
            return None
        if number.low > 0:
            same = number.is_float and isinstance(value, Stored)
            return value if same else number
        most = max(-number.low, number.high)
        if not number.is_float:
            if not pa.types.is_integer(kind.result) or most > NO_OVERFLOW:
                return None
            zero = self._steps.step(Op.INTEGER, c=0)
            below = self._steps.step(Op.INTEGER_SUBTRACT, zero, number.register)
            above = self._steps.range(number.register, (1, most))
            register = self._steps.step(Op.CHOOSE_OTHER, number.register, above, below)
            return Number(False, register, 0, most, number.known)
        zero = self._steps.constant(0.0)
        below = self._steps.step(Op.SUBTRACT, zero, number.register)
        above = self._steps.step(Op.LESS, zero, number.register)
        register = self._steps.step(Op.CHOOSE_OTHER_FLOAT, number.register, above, below)
        return Number(True, register, 0.0, most, number.known)

    def _as_type(self, kind: NodeType, value: Any) -> Number | Stored | None:
        """Compile a cast of integers into a type that holds all of them.

        A stored column stays the one that it is, with the type that it is stored by: its integers
        are those of the result.
        """
        (operand,) = kind.operands
        if operand.literal is not None or not pa.types.is_integer(operand.type):
            return None
        if pa.types.is_integer(kind.result):
            known = self._bounded(value) if isinstance(value, Stored) else value
            if not isinstance(known, Number) or known.is_float:
                return None
            signed = pa.types.is_signed_integer(kind.result)
            high = (1 << (kind.result.bit_width - signed)) - 1
            low = -high - 1 if signed else 0
            if not low <= known.low <= known.high <= high:
                return None
            is_coded = isinstance(value, Stored) and value.column.entries is not None
            return self._value(value) if is_coded else value  # codes are of other entries
        number = self._value(value)
        if number is None or number.is_float or not pa.types.is_float64(kind.result):
            return None
        register = self._float(number, limit=EXACT)
        if register is None:
            return None
        whole = DecimalBounds.of_integers(number.low, number.high)
        scaled = Scaled(whole, register=number.register)
        return Number(True, register, float(number.low), float(number.high), number.known, scaled)

    def _scaled_result(self, float_op: int, op: int, operands: list[Any]) -> Scaled | None:
        """Return the integers that the result stands for, where its operands are decimals."""
        one, two = (self._scaled_operand(operand) for operand in operands)
        if one is None or two is None or max(one.bounds.largest, two.bounds.largest) > EXACT:
            return None
        bounds: DecimalBounds | None
        if float_op == Op.MULTIPLY:
            bounds = one.bounds.times(two.bounds)
        elif float_op == Op.ADD:
            bounds = one.bounds.plus(two.bounds)
        else:
            bounds = one.bounds.minus(two.bounds)
        if bounds is None or bounds.largest > EXACT:
            return None
        return Scaled(bounds, op=op, operands=(one, two))

    def _scaled_operand(self, operand: Any) -> Scaled | None:
        if isinstance(operand, Stored):
            return self._scaled(operand)
        if isinstance(operand, Number):
            if operand.is_float:
                return operand.scaled
            bounds = DecimalBounds.of_integers(operand.low, operand.high)
            return Scaled(bounds, register=operand.register)
        if not isinstance(operand, Literal) or not isinstance(operand.value, int | float):
            return None
        value = operand.value
        if isinstance(value, bool) or not abs(value) <= EXACT or value != int(value):
            return None
        return Scaled(DecimalBounds.of_integers(int(value), int(value)), constant=int(value))

    def _first_known(self, kind: NodeType, operands: list[Any]) -> Number | None:
        """Compile coalesce: the first of some numbers that has a value."""
        assert kind.signature is not None
        is_float = pa.types.is_float64(kind.result)
        if not (is_float or pa.types.is_integer(kind.result) or _is_counted(kind.result)):
            return None
        if changes_unit(kind):
            return None
        found: Number | None = None
        for value, operand, target in zip(
            operands, kind.operands, kind.signature.inputs, strict=True
        ):
            if found is not None and found.known is None:
                break
            number = self._operand(value, operand.literal, target)
            if number is None:
                return None
            if is_float:
                register = self._float(number, limit=EXACT)
                if register is None:
                    return None
                low, high = float(number.low), float(number.high)
                number = Number(True, register, low, high, number.known)
            elif number.is_float:
                return None
            found = number if found is None else self._either(found, number)
        return found

    def _either(self, one: Number, other: Number) -> Number:
        """Return a number where it has a value, else another of the same form."""
        assert one.known is not None
        op = Op.CHOOSE_OTHER_FLOAT if one.is_float else Op.CHOOSE_OTHER
        known = None
        if other.known is not None:
            known = self._steps.step(Op.OR, one.known, other.known)
        register = self._steps.step(op, one.register, one.known, other.register)
        low, high = min(one.low, other.low), max(one.high, other.high)
        return Number(one.is_float, register, low, high, known)

    def _operand(self, value: Any, literal: Literal | None, target: pa.DataType) -> Number | None:
        if literal is not None:
            bound = plain_bound(literal, target)
            if bound is None or not math.isfinite(bound):
                return None
            if isinstance(bound, float):
                return Number(True, self._steps.constant(bound), bound, bound)
            if not LEAST <= bound <= GREATEST:
                return None
            return Number(False, self._steps.step(Op.INTEGER, c=bound), bound, bound)
        return self._value(value)

    def _value(self, value: Any) -> Number | None:
        """Return numbers that are the values; None for others, decimals among them."""
        if isinstance(value, Stored):
            return None if pa.types.is_decimal(value.column.type) else self._loaded(value)
        return value if isinstance(value, Number) else None


def changes_unit(kind: NodeType) -> bool:
    """Return whether times of one unit meet those of another, or are changed into it.

    What is stored counts in the unit of the column.
    """
    assert kind.signature is not None
    own = [operand.type for operand in kind.operands if operand.literal is None]
    met = {*own, *kind.signature.inputs}
    return len(met) > 1 and any(map(_is_counted, met))


def finer_unit(kind: NodeType) -> int | None:
    """Return how many units of a literal's type are one of the column that is compared with it.

    None where that is no whole number, and where no column is compared with a literal.
    """
    assert kind.signature is not None
    pairs = list(zip(kind.operands, kind.signature.inputs, strict=True))
    own = [operand.type for operand, _ in pairs if operand.literal is None]
    others = [met for operand, met in pairs if operand.literal is not None]
    types = pa.types
    if len(own) != 1 or len(others) != 1:
        return None
    (column,), (met,) = own, others
    alike = types.is_timestamp(column) and types.is_timestamp(met)
    if not alike and not (types.is_duration(column) and types.is_duration(met)):
        return None
    ratio, left = divmod(UNIT_NANOSECONDS[column.unit], UNIT_NANOSECONDS[met.unit])
    return ratio if ratio and not left else None


def _is_counted(kind: pa.DataType) -> bool:
    """Return whether values of a type are integers of a unit."""
    types = pa.types
    is_counted = types.is_timestamp(kind) or types.is_duration(kind) or types.is_date32(kind)
    return bool(is_counted or types.is_time(kind))


def plain_bound(literal: Literal, target: pa.DataType) -> Any:
    """Return the number that a literal is compared as; None for what has none, or is missing."""
    from fractions import Fraction

    if literal.is_missing_value:
        return None
    if pa.types.is_integer(target) or pa.types.is_float64(target) or pa.types.is_float32(target):
        return literal_value(literal, target).as_py()
    if pa.types.is_decimal(target):
        return Fraction(literal_value(literal, target).as_py())
    if _is_counted(target):
        scalar = literal_value(literal, target)
        return scalar.value if scalar.type == target else None
    return None


def interval(op: int, one: Number, two: Number) -> tuple[Any, Any]:
    """Return bounds of a sum, a difference, a product or a quotient."""
    if op == Op.DIVIDE:
        return -_ENDLESS, _ENDLESS
    if op == Op.ADD:
        return one.low + two.low, one.high + two.high
    if op == Op.SUBTRACT:
        return one.low - two.high, one.high - two.low
    products = [a * b for a in (one.low, one.high) for b in (two.low, two.high)]
    return min(products), max(products)

"""Comparison: ``== != < <= > >=``. A comparison with a missing value is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.expression.comparable import comparison_inputs, literal_beside
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Binary
from tessel.expression.printing import Piece, Sub
from tessel.expression.types import UNIT_NANOSECONDS, Operand, Signature
from tessel.expression.values import Compute, Value, as_numpy, from_numpy, nan_to_null

_EXACT_LIMIT = 1 << 53


def comparing(function: Callable[[Value, Value], Value]) -> Compute:
    """Compare by an Arrow function, exactly for every pair of types."""

    def compute(node: Expression | None, values: Sequence[Value], result: pa.DataType) -> Value:
        left, right = (nan_to_null(value) for value in values)
        if pa.types.is_null(left.type):
            return pc.cast(left if not isinstance(left, pa.Scalar) else right, pa.bool_())
        if left.type == right.type:
            if pa.types.is_boolean(left.type):
                left, right = pc.cast(left, pa.uint8()), pc.cast(right, pa.uint8())
            return function(left, right)
        return function(three_way(left, right), arrow_scalar(0, pa.int8()))

    return compute


def three_way(left: Value, right: Value) -> Value:
    """Return the sign of ``left - right`` as int8, compared exactly.

    Takes int64 with uint64, 64-bit integers with float64 (without NaN), and instants or durations
    of different units.
    """
    if pa.types.is_floating(left.type) or (
        pa.types.is_unsigned_integer(left.type) and pa.types.is_signed_integer(right.type)
    ):
        return pc.negate(three_way(right, left))
    if pa.types.is_temporal(left.type):
        if UNIT_NANOSECONDS[left.type.unit] < UNIT_NANOSECONDS[right.type.unit]:
            return pc.negate(three_way(right, left))
        return _signs(left, right, _coarse_with_fine(left.type.unit, right.type.unit))
    return _signs(left, right, _integer_with_float if pa.types.is_floating(right.type) else _mixed)


def _signs(left: Value, right: Value, compare: Callable[[Any, Any], Any]) -> Value:
    (one, one_valid), (two, two_valid) = as_numpy(left), as_numpy(right)
    signs = compare(one, two)
    return from_numpy(signs, one_valid & two_valid, pa.int8(), (left, right))


def _order(left: Any, right: Any) -> Any:
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


def _mixed(signed: Any, unsigned: Any) -> Any:
    return np.where(signed < 0, np.int8(-1), _order(signed.astype(np.uint64), unsigned))


def _integer_with_float(whole: Any, real: Any) -> Any:
    if len(whole) and int(whole.min()) >= -_EXACT_LIMIT and int(whole.max()) <= _EXACT_LIMIT:
        return _order(whole.astype(np.float64), real)
    limits = np.iinfo(whole.dtype)
    # both limits are powers of two as floats, hence exact
    above = real >= float(limits.max)
    below = real < float(limits.min)
    inside = np.where(above | below, 0.0, real)
    floor = np.floor(inside)
    against_floor = _order(whole, floor.astype(whole.dtype))
    signs = np.where((against_floor == 0) & (inside > floor), np.int8(-1), against_floor)
    return np.where(above, np.int8(-1), np.where(below, np.int8(1), signs))


def _coarse_with_fine(coarse: str, fine: str) -> Callable[[Any, Any], Any]:
    ratio = UNIT_NANOSECONDS[coarse] // UNIT_NANOSECONDS[fine]

    def compare(left: Any, right: Any) -> Any:
        whole, rest = np.divmod(right, ratio)
        against = _order(left, whole)
        return np.where((against == 0) & (rest > 0), np.int8(-1), against)

    return compare


class Comparison(Binary):
    """Two operands whose order, or equality, is asked for."""

    precedence: ClassVar[int] = 4

    def fitted(self, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return text beside an instant, date, time or duration read as one."""
        left, right = operands
        return literal_beside(left, right), literal_beside(right, left)

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value, where the two kinds can be compared."""
        return Signature(comparison_inputs(*operands), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``left sign right``; comparisons do not chain."""
        return (Sub(self.left, 5), f" {self.sign} ", Sub(self.right, 5))


class Equal(Comparison, name="equal", sign="==", word="EQ", compute=comparing(pc.equal)):
    """``left == right``."""


class NotEqual(Comparison, name="not_equal", sign="!=", word="NE", compute=comparing(pc.not_equal)):
    """``left != right``."""


class Less(Comparison, name="less", sign="<", word="LT", compute=comparing(pc.less)):
    """``left < right``."""


class LessEqual(
    Comparison, name="less_equal", sign="<=", word="LE", compute=comparing(pc.less_equal)
):
    """``left <= right``."""


class Greater(Comparison, name="greater", sign=">", word="GT", compute=comparing(pc.greater)):
    """``left > right``."""


class GreaterEqual(
    Comparison, name="greater_equal", sign=">=", word="GE", compute=comparing(pc.greater_equal)
):
    """``left >= right``."""


FLIPPED: dict[type[Comparison], type[Comparison]] = {
    Less: Greater,
    LessEqual: GreaterEqual,
    Greater: Less,
    GreaterEqual: LessEqual,
    Equal: Equal,
    NotEqual: NotEqual,
}
"""The comparison that says the same with its sides exchanged."""

"""Comparison, exact for every pair of types.

Where no type holds both operands exactly, the pair is compared as a sign: −1, 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.expression.kernels.values import Kernel, Value, as_numpy, from_numpy, nan_to_null
from tessel.expression.node import Expression
from tessel.expression.types import UNIT_NANOSECONDS

_EXACT_LIMIT = 1 << 53


def comparing(function: Callable[[Value, Value], Value]) -> Kernel:
    """Return the kernel of a comparison."""

    def kernel(node: Expression | None, values: Sequence[Value], result: pa.DataType) -> Value:
        left, right = (nan_to_null(value) for value in values)
        if pa.types.is_null(left.type):
            return pc.cast(left if not isinstance(left, pa.Scalar) else right, pa.bool_())
        if left.type == right.type:
            if pa.types.is_boolean(left.type):
                left, right = pc.cast(left, pa.uint8()), pc.cast(right, pa.uint8())
            return function(left, right)
        return function(three_way(left, right), arrow_scalar(0, pa.int8()))

    return kernel


def three_way(left: Value, right: Value) -> Value:
    """Return the sign of ``left - right`` as int8, compared exactly.

    Takes int64 with uint64, 64-bit integers with float64 (without NaN), and instants or durations
    of different units.
    """
    if pa.types.is_floating(left.type) or (
        pa.types.is_unsigned_integer(left.type) and pa.types.is_signed_integer(right.type)
    ):
        return _flipped(three_way(right, left))
    if pa.types.is_temporal(left.type):
        if UNIT_NANOSECONDS[left.type.unit] < UNIT_NANOSECONDS[right.type.unit]:
            return _flipped(three_way(right, left))
        return _signs(left, right, _coarse_with_fine(left.type.unit, right.type.unit))
    return _signs(left, right, _integer_with_float if pa.types.is_floating(right.type) else _mixed)


def _flipped(sign: Value) -> Value:
    return pc.negate(sign)


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


KERNELS: dict[str, Kernel] = {
    "equal": comparing(pc.equal),
    "not_equal": comparing(pc.not_equal),
    "less": comparing(pc.less),
    "less_equal": comparing(pc.less_equal),
    "greater": comparing(pc.greater),
    "greater_equal": comparing(pc.greater_equal),
}

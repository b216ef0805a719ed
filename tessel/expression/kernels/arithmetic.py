"""Kernels of arithmetic. Integers are checked; uint64 beside signed ones is computed exactly.

Kernels of numbers: smallest, largest, clip, logarithm, root.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.kernels.values import (
    Kernel,
    Value,
    as_numpy,
    elementwise,
    from_numpy,
    nan_to_null,
)
from tessel.expression.node import Expression
from tessel.expression.operators.arithmetic import Round

_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)
_WHOLE = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def checked(function: Callable[..., Value], verb: str) -> Kernel:
    """Return the kernel of a checked Arrow function that also takes int64 beside uint64."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        if result == pa.int64() and any(value.type == pa.uint64() for value in values):
            return _whole_numbers(_WHOLE[verb], values)
        if pa.types.is_decimal(result):
            return pc.cast(function(*values), result)
        return function(*values)

    return kernel


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


def divide(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Divide in float64; durations in their common unit."""
    left, right = values
    if pa.types.is_duration(left.type):
        left, right = (pc.cast(pc.cast(v, pa.int64()), pa.float64(), safe=False) for v in values)
    return pc.divide(left, right)


def floor_divide(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Divide rounding down; by zero is missing; the one quotient past 64 bits raises."""
    return _floored(np.floor_divide, values, result)


def modulo(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the remainder with the divisor's sign; by zero is missing."""
    return _floored(np.remainder, values, result)


def _floored(function: Any, values: Sequence[Value], result: pa.DataType) -> Value:
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


def power(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Raise to a power in float64."""
    (left, left_valid), (right, right_valid) = map(as_numpy, values)
    with np.errstate(all="ignore"):
        return from_numpy(np.power(left, right), left_valid & right_valid, result, values)


def negative(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Change the sign, checked."""
    (value,) = values
    if pa.types.is_duration(result):
        return pc.cast(pc.negate_checked(pc.cast(value, pa.int64())), result)
    return pc.negate_checked(value)


def round_half_even(node: Round, values: Sequence[Value], result: pa.DataType) -> Value:
    """Round halves to the even digit; integers have no digits after the point."""
    (value,) = values
    if pa.types.is_integer(result) or pa.types.is_null(result):
        return value
    if pa.types.is_decimal(result) and node.digits >= result.scale:
        return value
    return pc.round(value, ndigits=node.digits, round_mode="half_to_even")


def whole_number(function: Callable[..., Value]) -> Kernel:
    """Return the kernel of a function to whole numbers, which integers are already."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        (value,) = values
        return value if pa.types.is_integer(result) or pa.types.is_null(result) else function(value)

    return kernel


def extreme(function: Callable[..., Value], *, skip_nulls: bool) -> Kernel:
    """Return the kernel of an elementwise extreme, which skips missing values or is missing too."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(*(nan_to_null(value) for value in values), skip_nulls=skip_nulls)

    return kernel


KERNELS: dict[str, Kernel] = {
    "add": checked(pc.add_checked, "add"),
    "subtract": checked(pc.subtract_checked, "subtract"),
    "multiply": checked(pc.multiply_checked, "multiply"),
    "divide": divide,
    "floor_divide": floor_divide,
    "modulo": modulo,
    "power": power,
    "negative": negative,
    "abs": elementwise(pc.abs_checked),
    "round": round_half_even,
    "ceil": whole_number(pc.ceil),
    "floor_number": whole_number(pc.floor),
    "min_of": extreme(pc.min_element_wise, skip_nulls=True),
    "max_of": extreme(pc.max_element_wise, skip_nulls=True),
    "clip_low": extreme(pc.max_element_wise, skip_nulls=False),
    "clip_high": extreme(pc.min_element_wise, skip_nulls=False),
    "log": elementwise(pc.ln),
    "exp": elementwise(pc.exp),
    "sqrt": elementwise(pc.sqrt),
}

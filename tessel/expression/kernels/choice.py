"""Kernels that choose among operands: and/or chains, case, coalesce, smallest, largest, clip."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.kernels.values import Kernel, Value, nan_to_null
from tessel.expression.node import Expression
from tessel.expression.operators.conditional import Case

__all__ = ["case", "chain", "clip", "coalesce", "extreme"]


def chain(function: Callable[[Value, Value], Value]) -> Kernel:
    """Return the kernel of a flat chain, joined pair by pair."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return functools.reduce(function, values)

    return kernel


def case(node: Case, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the value of the first true condition; the last value is the otherwise."""
    count = len(node.conditions)
    chosen = values[-1]
    for condition, value in zip(
        reversed(values[:count]), reversed(values[count : 2 * count]), strict=True
    ):
        chosen = pc.if_else(pc.coalesce(condition, pa.scalar(False)), value, chosen)
    return chosen


def coalesce(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the first value that is not missing; a NaN that nothing replaces becomes null."""
    return pc.coalesce(*(nan_to_null(value) for value in values))


def extreme(function: Callable[..., Value]) -> Kernel:
    """Return the kernel of an elementwise extreme that skips missing values."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(*(nan_to_null(value) for value in values), skip_nulls=True)

    return kernel


def clip(function: Callable[..., Value]) -> Kernel:
    """Return the kernel of a bound; missing where either side is."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(*(nan_to_null(value) for value in values), skip_nulls=False)

    return kernel

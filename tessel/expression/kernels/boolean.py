"""Kernels of truths, in Kleene's logic.

Kernels that choose among operands: case and coalesce.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.expression.kernels.values import Kernel, Value, elementwise, nan_to_null
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import Case


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
        chosen = pc.if_else(pc.coalesce(condition, arrow_scalar(False)), value, chosen)
    return chosen


def coalesce(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the first value that is not missing; a NaN that nothing replaces becomes null."""
    return pc.coalesce(*(nan_to_null(value) for value in values))


KERNELS: dict[str, Kernel] = {
    "and": chain(pc.and_kleene),
    "or": chain(pc.or_kleene),
    "xor": elementwise(pc.xor),
    "not": elementwise(pc.invert),
    "case": case,
    "coalesce": coalesce,
}

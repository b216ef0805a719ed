"""Kernels of truths, in Kleene's logic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.kernels.values import Kernel, Value, elementwise
from tessel.expression.node import Expression

__all__ = ["KERNELS"]


def chain(function: Callable[[Value, Value], Value]) -> Kernel:
    """Return the kernel of a flat chain, joined pair by pair."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return functools.reduce(function, values)

    return kernel


KERNELS: dict[str, Kernel] = {
    "and": chain(pc.and_kleene),
    "or": chain(pc.or_kleene),
    "xor": elementwise(pc.xor),
    "not": elementwise(pc.invert),
}

"""Kernels of numbers: smallest, largest, clip, logarithm, root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.kernels.values import Kernel, Value, elementwise, nan_to_null
from tessel.expression.node import Expression

__all__ = ["KERNELS"]


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


KERNELS: dict[str, Kernel] = {
    "min_of": extreme(pc.min_element_wise),
    "max_of": extreme(pc.max_element_wise),
    "clip_low": clip(pc.max_element_wise),
    "clip_high": clip(pc.min_element_wise),
    "log": elementwise(pc.ln),
    "exp": elementwise(pc.exp),
    "sqrt": elementwise(pc.sqrt),
}

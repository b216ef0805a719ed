"""Kernels that choose among operands: case and coalesce."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.expression.kernels.values import Kernel, Value, nan_to_null
from tessel.expression.node import Expression
from tessel.expression.operators.conditional import Case

__all__ = ["KERNELS"]


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
    "case": case,
    "coalesce": coalesce,
}

"""The kernels: functions on Arrow values, one for each operator.

A kernel takes ``(node, values, result_type)``. Values are Arrow arrays of one length, or scalars
that stand in every row, already cast to the inputs of the node's type rule; the result is an array
or, where all values are scalars, a scalar. The kernels of a module of operators are in the module
of the same name here, by the name of the operator; adding an operator adds one line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessel.expression.kernels.values import Kernel
    from tessel.expression.node import Expression

__all__ = ["kernel_of"]


def kernel_of(operator: type[Expression]) -> Kernel:
    """Return the kernel of an operator."""
    family = importlib.import_module(f"{__name__}.{operator.__module__.rpartition('.')[2]}")
    kernel: Kernel = family.KERNELS[operator.name]
    return kernel

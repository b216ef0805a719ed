"""``a * b + c`` rounded once, which numba has no name for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

__all__ = ["fused_multiply_add"]

try:
    from numba import types
    from numba.extending import intrinsic
except ImportError:

    def fused_multiply_add(a: float, b: float, c: float) -> float:
        """Return ``a * b + c`` of finite floats, rounded once."""
        return float(Fraction(a) * Fraction(b) + Fraction(c))

else:

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c`` of finite floats, rounded once: one instruction of the machine."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return types.float64(types.float64, types.float64, types.float64), generate

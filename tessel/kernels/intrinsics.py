"""What kernels say that numba has no name for; each with its form in Python.

The build compiles the forms of the machine; at run time there is no numba, and the forms in Python
are what tests run.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def fused_multiply_add(a: float, b: float, c: float) -> float:
    """Return ``a * b + c`` of finite floats, rounded once; where :func:`has_fma` alone."""
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


def has_fma() -> bool:
    """Return whether the level of the machine has :func:`fused_multiply_add`: a constant."""
    return False


def reinterpret(array: Any, dtype: Any) -> Any:
    """Return the bytes of a contiguous array of one dimension as numbers of another type.

    As ``array.view(dtype)``, at any address, without a look at whether sizes fit: what is over at
    the end is left out.
    """
    size = np.dtype(dtype).itemsize
    octets = np.ascontiguousarray(array).view(np.uint8)
    return octets[: len(octets) // size * size].view(dtype)


def words_of(octets: Any) -> Any:
    """Return the eight bytes from each byte on as uint64; the last seven bytes begin none."""
    return np.ndarray(max(len(octets) - 7, 0), np.uint64, octets, strides=(1,))

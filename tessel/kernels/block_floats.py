"""Floats of a block: made of integers, computed, and what rounding takes from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_gaps import single_of
from tessel.kernels.declare import inner
from tessel.kernels.error_free import two_product
from tessel.kernels.intrinsics import fused_multiply_add, has_fma, reinterpret

# Compiled code knows constants of its own module only; the first ones are those of ``Op``.
_FLOAT, _ADD, _SUBTRACT, _MULTIPLY = 2, 5, 6, 7
_RESIDUAL_SHIFT, _RESIDUAL_MASK = 8, (1 << 8) - 1
_SINGLE_BITS, _SINGLE_SCALED = -2, 32

_POWERS = np.array([float(10**exponent) for exponent in range(23)])
_MOST_RECIPROCAL = 15
# Halves of an integer in the low bits of floats of these sizes, and what both are too large by.
_LOW_BITS, _HIGH_BITS = 0x433 << 52, 0x453 << 52
_HALF, _HALF_MASK, _SIGN_OF_HALF = 32, (1 << 32) - 1, 1 << 31
_TOO_LARGE = 2.0**84 + 2.0**63 + 2.0**52
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))


@inner
def float_step(op: int, floats: Any, left: Any, right: Any, out: Any, rows: Any) -> None:
    """Write sums, differences, products or quotients of floats."""
    if op == _ADD:
        for row in range(rows):
            floats[out + row] = floats[left + row] + floats[right + row]
    elif op == _SUBTRACT:
        for row in range(rows):
            floats[out + row] = floats[left + row] - floats[right + row]
    elif op == _MULTIPLY:
        for row in range(rows):
            floats[out + row] = floats[left + row] * floats[right + row]
    else:
        for row in range(rows):
            floats[out + row] = floats[left + row] / floats[right + row]


@inner
def _float_of(integer: Any) -> Any:
    """Return the float of an integer, correctly rounded, as processors have it for single ones.

    Both halves are floats without rounding, and so is the high one less what is too much: only the
    last addition rounds.
    """
    word = np.uint64(integer)
    low = (word & np.uint64(_HALF_MASK)) | np.uint64(_LOW_BITS)
    high = ((word >> np.uint64(_HALF)) ^ np.uint64(_SIGN_OF_HALF)) | np.uint64(_HIGH_BITS)
    return (np.uint64(high).view(np.float64) - _TOO_LARGE) + np.uint64(low).view(np.float64)


@inner
def _quotient(whole: float, power: float, reciprocal: float) -> float:
    """Return ``whole / power``, correctly rounded, without the division, which is slow.

    The first guess is at most two units off, and its remainder ``r`` exact (Markstein, Computation
    of elementary functions on the IBM RISC System/6000, 1990), so that ``guess + r * reciprocal``
    is off by less than ``2**-51`` units before it is rounded. A quotient of whole numbers below
    ``2**53`` that is no float is further than ``1 / (2 * power)`` units from where rounding turns:
    powers below ``2**50`` are safe.
    """
    if not has_fma():
        return whole / power
    guess = whole * reciprocal
    return fused_multiply_add(fused_multiply_add(-guess, power, whole), reciprocal, guess)


@inner
def _product_less(left: float, right: float, whole: float) -> Any:
    """Return ``left * right - whole``, where that is a float: nothing is rounded."""
    if has_fma():
        return fused_multiply_add(left, right, -whole)
    product, error = two_product(left, right)
    return (product - whole) + error


@inner
def residuals(integers: Any, source: Any, exponent: int, bits: int, out: Any, rows: Any) -> None:
    """Write what the division of decimals rounds off, times the power of ten and ``2**bits``."""
    power = _POWERS[exponent]
    reciprocal = 1.0 / power
    scale = np.float64(np.int64(1) << bits)
    for row in range(rows):
        whole = _float_of(integers[source + row])
        quotient = _quotient(whole, power, reciprocal)
        left = _product_less(quotient, power, whole) * scale
        # Adding this leaves a small whole number in the low bits of the float.
        integers[out + row] = np.float64(left + _ROUNDER).view(np.int64) - _ROUNDER_BITS


@inner
def float_residuals(
    floats: Any, quotients: Any, integers: Any, whole: Any, packed: int, out: Any, rows: Any
) -> None:
    """Write what computed floats are off from the decimals that they stand for."""
    power = _POWERS[packed >> _RESIDUAL_SHIFT]
    scale = np.float64(np.int64(1) << (packed & _RESIDUAL_MASK))
    for row in range(rows):
        wanted = _float_of(integers[whole + row])
        left = _product_less(floats[quotients + row], power, wanted) * scale
        integers[out + row] = np.float64(left + _ROUNDER).view(np.int64) - _ROUNDER_BITS


@inner
def product_errors(floats: Any, left: Any, right: Any, products: Any, out: Any, rows: Any) -> None:
    """Write what rounding took from products."""
    for row in range(rows):
        product = floats[products + row]
        floats[out + row] = _product_less(floats[left + row], floats[right + row], product)


@inner
def unary_float(
    op: int, integers: Any, source: Any, exponent: int, floats: Any, out: Any, rows: Any
) -> None:
    """Make floats of integers: decimals, bits, or the integers themselves."""
    if op == _FLOAT:
        for row in range(rows):
            floats[out + row] = _float_of(integers[source + row])
    elif exponent >= _SINGLE_SCALED:
        power = _POWERS[exponent - _SINGLE_SCALED]
        for row in range(rows):
            single = np.float32(_float_of(integers[source + row]) / power)
            floats[out + row] = np.float64(single)
    elif exponent == _SINGLE_BITS:
        for row in range(rows):
            floats[out + row] = single_of(np.uint32(integers[source + row]))
    elif exponent > _MOST_RECIPROCAL:
        power = _POWERS[exponent]
        for row in range(rows):
            floats[out + row] = _float_of(integers[source + row]) / power
    elif exponent >= 0:
        power = _POWERS[exponent]
        reciprocal = 1.0 / power
        for row in range(rows):
            floats[out + row] = _quotient(_float_of(integers[source + row]), power, reciprocal)
    else:
        bits = reinterpret(integers, np.float64)
        for row in range(rows):
            floats[out + row] = bits[source + row]

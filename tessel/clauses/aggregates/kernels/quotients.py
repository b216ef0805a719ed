"""Quotients of Python integers, rounded once: results that have too many digits for kernels."""

from __future__ import annotations

import math


def rounded_quotient(numerator: int, denominator: int, exponent: int = 0) -> float:
    """Return ``numerator / denominator * 2**exponent``, rounded once; ±inf past the range.

    A numerator of zero gives 0.0, whatever the sign of the denominator.
    """
    if not numerator:
        return 0.0
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    try:
        # True division of Python integers is correctly rounded.
        return numerator / denominator
    except OverflowError:
        return math.inf if (numerator < 0) == (denominator < 0) else -math.inf


def rounded_integer(numerator: int, denominator: int, exponent: int = 0) -> int:
    """Return ``numerator / denominator * 2**exponent`` to the nearest integer, half to even."""
    if exponent >= 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    return quotient + (2 * remainder + (quotient & 1) > denominator)


def rounded_integer_root(numerator: int, denominator: int) -> int:
    """Return the root of ``numerator / denominator`` to the nearest integer."""
    twice = math.isqrt(4 * numerator // denominator)
    whole, odd = divmod(twice, 2)
    if odd and twice * twice * denominator == 4 * numerator:  # exactly half
        return whole + (whole & 1)
    return whole + odd

"""Compiled part of :mod:`tessel.kernels.window_spreads`: windows slide, sums are integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.error_free import two_product, two_sum
from tessel.kernels.jit import inner, kernel

__all__ = ["window_spreads"]

_LIMB, _TWO_LIMBS = 2.0**23, 2.0**46
# Of the pairs below, and of what is left where two that are nearly the same are subtracted.
_ERROR, _ERROR_OF_PARTS = 2.0**-96, 2.0**-97


@inner
def _digits(size: float) -> Any:
    """Return three digits of 23 bits of a number that is not negative, the highest first."""
    high = np.floor(size * (1 / _TWO_LIMBS))
    rest = size - high * _TWO_LIMBS
    middle = np.floor(rest * (1 / _LIMB))
    return np.int64(high), np.int64(middle), np.int64(np.floor(rest - middle * _LIMB))


@inner
def _with_integer(high: float, low: float, number: int, weight: float) -> Any:
    """Add an integer times a power of two to a pair."""
    upper = np.float64(number)
    lower = np.float64(number - np.int64(upper))
    high, error = two_sum(high, upper * weight)
    return high, low + (error + lower * weight)


@inner
def _over(high: float, low: float, divisor: float) -> Any:
    quotient = high / divisor
    product, error = two_product(quotient, divisor)
    return two_sum(quotient, ((high - product) - error + low) / divisor)


@inner
def _spread_of(
    sums: Any, squares: Any, count: float, divisor: float, root: bool, inexact: bool
) -> Any:
    """Return variance or root, and what is certain to be more than its error; 0, 1 if unknown."""
    high, low = _with_integer(0.0, 0.0, squares[4], _TWO_LIMBS * _TWO_LIMBS)
    high, low = _with_integer(high, low, squares[3], _TWO_LIMBS * _LIMB)
    high, low = _with_integer(high, low, squares[2], _TWO_LIMBS)
    high, low = _with_integer(high, low, squares[1], _LIMB)
    high, low = _with_integer(high, low, squares[0], 1.0)
    high, low = two_sum(high, low)
    square_sum = high
    total, error = two_product(high, count)
    high, low = two_sum(total, error + low * count)
    one, other = _with_integer(0.0, 0.0, sums[2], _TWO_LIMBS)
    one, other = _with_integer(one, other, sums[1], _LIMB)
    one, other = _with_integer(one, other, sums[0], 1.0)
    one, other = two_sum(one, other)
    square, error = two_product(one, one)
    error += 2.0 * one * other + other * other
    left, lost = two_sum(high, -square)
    left, lost = two_sum(left, lost + (low - error))
    if not left > 0.0:
        return 0.0, 0.0, 1.0
    off = high * _ERROR_OF_PARTS
    if inexact:
        off += 4.0 * count * np.sqrt(count * square_sum) * (1 + 2.0**-40) + 2.0 * count * count
    part = _ERROR + off / left * (1 + 2.0**-40)
    left, lost = _over(left, lost, divisor)
    if root:
        found = np.sqrt(left)
        square, error = two_product(found, found)
        left, lost = two_sum(found, ((left - square) - error + lost) / (2.0 * found))
    return left, lost, left * part


@kernel
def window_spreads(
    values: Any,
    starts: Any,
    stops: Any,
    scale: float,
    unit: float,
    ddof: int,
    more: bool,
    root: bool,
    inexact: bool,
    found: Any,
    certain: Any,
) -> None:
    """Write the spread of each window, and whether it is certain to be rounded rightly."""
    first, last, since = np.int64(0), np.int64(0), np.int64(0)
    # Of sums and of sums of squares, by digit.
    one = two = three = np.int64(0)
    first_square = second_square = third_square = fourth_square = fifth_square = np.int64(0)
    for window in range(len(starts)):
        start, stop = starts[window], stops[window]
        found[window], certain[window] = 0.0, True
        if stop - start <= ddof:
            continue
        if start < first or stop < last or start >= last:
            first, last, since = start, start, start
            one = two = three = np.int64(0)
            first_square = second_square = third_square = np.int64(0)
            fourth_square = fifth_square = np.int64(0)
        while last < stop or first < start:
            sign = np.int64(1)
            if last < stop:
                value = values[last]
                # The first of the rows that have been equal to this one.
                if last > first and value != values[last - 1]:
                    since = last
                last += 1
            else:
                value, sign = values[first], np.int64(-1)
                first += 1
            high, middle, low = _digits(abs(value) * scale)
            fifth_square += sign * high * high
            fourth_square += sign * 2 * high * middle
            third_square += sign * (2 * high * low + middle * middle)
            second_square += sign * 2 * middle * low
            first_square += sign * low * low
            if value < 0:
                sign = -sign
            three += sign * high
            two += sign * middle
            one += sign * low
        if since <= start:
            continue  # all are equal
        count = np.float64(stop - start)
        divisor = count * (count - np.float64(ddof))
        left, lost, off = _spread_of(
            (one, two, three),
            (first_square, second_square, third_square, fourth_square, fifth_square),
            count,
            divisor * count if more else divisor,
            root,
            inexact,
        )
        down, up = left + (lost - off), left + (lost + off)
        certain[window] = down == up
        found[window] = down * unit

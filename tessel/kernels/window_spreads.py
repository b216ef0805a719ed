"""Variances of windows of rows and their roots, rounded once wherever that is certain.

The sums of the values of a window, and of their squares, are integers: every value is three digits
of 23 bits, counted from one power of two, which enter and leave as the window slides. What follows
is computed in pairs of doubles, with a bound of what they may be off; where that does not decide
how the result is rounded, somebody else must tell (as Ziv, Fast evaluation of elementary
mathematical functions with correctly rounded last bit, ACM TOMS 17, 1991). Values of more digits
than three are cut, and the bound says so.

The aggregates ``var``, ``std`` and ``sem`` give the same bits from the limbs of
:mod:`tessel.clauses.aggregates.kernels.windows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.error_free import two_product, two_sum
from tessel.kernels.running_rows import exponent_range
from tessel.memory import recycled

Doubles = NDArray[np.float64]
Places = NDArray[np.int64]

_MANTISSA_BITS, _BITS = 53, 69
# Sums of so many products of two digits are below 2**62.
_MOST_ROWS = 1 << 14
# Squares are far from the ends of the range of doubles.
_MOST_EXPONENT = 200

_LIMB, _TWO_LIMBS = 2.0**23, 2.0**46
# Of the pairs below, and of what is left where two that are nearly the same are subtracted.
_ERROR, _ERROR_OF_PARTS = 2.0**-96, 2.0**-97


def window_spreads(
    values: Doubles, starts: Places, stops: Places, *, ddof: int, root: bool, of_mean: bool
) -> tuple[Doubles, NDArray[np.bool_]] | None:
    """Return the variance of the values of each window, or its root.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``.
    starts, stops
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``.
    ddof
        What is taken from the number of values before squared deviations are divided by it.
    root
        Whether the square root is asked for.
    of_mean
        Whether the variance is divided by the number of values once more before.

    Returns
    -------
    values : numpy.ndarray
        float64, shape ``(windows,)``; 0 for windows of no more than ``ddof`` values.
    certain : numpy.ndarray
        Bool, shape ``(windows,)``: where that is the correctly rounded result.
    None
        Where values are infinite, NaN, very large or very small, or windows very long.
    """
    longest = int((stops - starts).max(initial=0))
    if longest > _MOST_ROWS or ddof > _MOST_ROWS:
        return None
    exponents = exponent_range(values, None)
    if exponents is None or max(-exponents[0], exponents[1]) > _MOST_EXPONENT:
        return None
    low = exponents[1] - _BITS
    inexact = exponents[0] - _MANTISSA_BITS < low
    found = recycled(len(starts), np.float64)
    certain = recycled(len(starts), np.bool_)
    slide_spreads(
        np.ascontiguousarray(values),
        np.ascontiguousarray(starts),
        np.ascontiguousarray(stops),
        2.0**-low,
        2.0 ** (low if root else 2 * low),
        ddof,
        of_mean,
        root,
        inexact,
        found,
        certain,
    )
    return found, certain


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


@kernel(
    "values: f64[rows], starts: i64[windows], stops: i64[windows], scale: f64, unit: f64, "
    "ddof: i64, more: bool, root: bool, inexact: bool, found: mut f64[windows], "
    "certain: mut bool[windows]"
)
def slide_spreads(
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

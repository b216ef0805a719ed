"""Variances of windows of rows and their roots, rounded once wherever that is certain.

The sums of the values of a window, and of their squares, are integers: every value is three digits
of 23 bits, counted from one power of two, which enter and leave as the window slides. What follows
is computed in pairs of doubles, with a bound of what they may be off; where that does not decide
how the result is rounded, somebody else must tell (as Ziv, Fast evaluation of elementary
mathematical functions with correctly rounded last bit, ACM TOMS 17, 1991). Values of more digits
than three are cut, and the bound says so.

There is no twin in numpy here: the aggregates ``var``, ``std`` and ``sem`` give the same bits from
the limbs of :mod:`tessel.clauses.aggregates.kernels.windows`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.running_rows import exponent_range

__all__ = ["window_spreads"]

Doubles = NDArray[np.float64]
Places = NDArray[np.int64]

_MANTISSA_BITS, _BITS = 53, 69
# Sums of so many products of two digits are below 2**62.
_MOST_ROWS = 1 << 14
# Squares are far from the ends of the range of doubles.
_MOST_EXPONENT = 200


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
        Without compiled kernels, and where values are infinite, NaN, very large or very small, or
        windows very long.
    """
    kernels = compiled_kernels(len(starts), "window_spreads", "running_rows")
    longest = int((stops - starts).max(initial=0))
    if kernels is None or longest > _MOST_ROWS or ddof > _MOST_ROWS:
        return None
    exponents = exponent_range(values, None)
    if exponents is None or max(-exponents[0], exponents[1]) > _MOST_EXPONENT:
        return None
    low = exponents[1] - _BITS
    inexact = exponents[0] - _MANTISSA_BITS < low
    found = np.empty(len(starts), np.float64)
    certain = np.empty(len(starts), np.bool_)
    kernels.window_spreads(
        frozen(values),
        frozen(starts),
        frozen(stops),
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

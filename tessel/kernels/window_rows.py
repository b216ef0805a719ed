"""Sums, means and extremes of windows of rows.

Compiled, windows slide: rows enter and leave, and where a window goes back it begins anew. The
numpy twins take differences of running sums, and the best of two runs of a sparse table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["rows_until", "window_best", "window_sums"]

Doubles = NDArray[np.float64]
Places = NDArray[np.int64]

_SPLITTER = 2.0**27 + 1


def window_sums(
    values: Doubles, starts: Places, stops: Places, low: int, split: int, *, mean: bool
) -> Doubles:
    """Return the sum, or the mean, of the values of each window, correctly rounded once.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``, multiples of ``2**low``.
    starts, stops
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``.
    low, split
        A value is ``high * 2**(low + split) + rest * 2**low`` with ``rest`` below ``2**split``; of
        no window may the sum of either have more than 53 bits. For means no sum may have more than
        98 bits above ``low``.
    mean
        Whether sums are divided by the number of values (0 counts as 1).

    Returns
    -------
    numpy.ndarray
        float64, shape ``(windows,)``, zero as +0.0.
    """
    kernels = compiled_kernels(len(starts), "window_rows")
    if kernels is not None:
        found = np.empty(len(starts), np.float64)
        kernels.window_sums(
            frozen(values),
            frozen(starts),
            frozen(stops),
            2.0 ** -(low + split),
            2.0**split,
            2.0**low,
            mean,
            found,
        )
        return found
    # Scaling by powers of two, the floor, and what it leaves are all exact.
    scaled = np.ldexp(values, -(low + split))
    high = np.floor(scaled)
    rest = np.ldexp(scaled - high, split)
    # Running sums of both wrap around in 64 bits, which their differences undo.
    high_sums, rest_sums = (
        _differences(part.astype(np.int64), starts, stops) for part in (high, rest)
    )
    upper = np.ldexp(high_sums, split)
    sums = upper + rest_sums
    if mean:
        counts = np.maximum(stops - starts, 1).astype(np.float64)
        sums = _quotients(sums, upper, rest_sums, counts)
    total: Doubles = np.ldexp(sums, low)
    return total


def window_best(
    numbers: NDArray[Any], starts: Places, stops: Places, *, greatest: bool
) -> NDArray[Any]:
    """Return the least or the greatest number of each window.

    Parameters
    ----------
    numbers
        int64 or float64, shape ``(rows,)``; no NaN.
    starts, stops
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``; what stands for a window without
        rows is any number.
    greatest
        Whether the greatest is the best.

    Returns
    -------
    numpy.ndarray
        Shape ``(windows,)``, of the type of ``numbers``.
    """
    kernels = compiled_kernels(len(starts), "window_rows")
    if kernels is not None:
        found = np.empty(len(starts), numbers.dtype)
        line = np.empty(len(numbers), np.int64)
        kernels.window_best(frozen(numbers), frozen(starts), frozen(stops), greatest, line, found)
        return found
    return _from_sparse_table(numbers, starts, stops, np.maximum if greatest else np.minimum)


def rows_until(times: Places, bounds: Places, *, included: bool) -> Places:
    """Return for each bound how many times lie below it, or at it, too.

    Parameters
    ----------
    times, bounds
        int64, ascending both, so that one pass finds them all.
    included
        Whether those that are the bound count.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(bounds,)``.
    """
    kernels = compiled_kernels(len(bounds), "window_rows")
    if kernels is None:
        return np.searchsorted(times, bounds, side="right" if included else "left")
    found = np.empty(len(bounds), np.int64)
    kernels.rows_until(frozen(times), frozen(bounds), included, found)
    return found


def _from_sparse_table(
    numbers: NDArray[Any], starts: Places, stops: Places, better: np.ufunc
) -> NDArray[Any]:
    """Return the best number of each window.

    A sparse table, one level at a time: level ``k`` holds the best of ``2**k`` rows from each row
    on, and a window is covered by two of them (Bender and Farach-Colton, The LCA Problem Revisited,
    LATIN 2000).
    """
    found = np.zeros(len(starts), numbers.dtype)
    lengths = stops - starts
    wanted = np.where(lengths > 0, np.frexp(lengths.astype(np.float64))[1] - 1, -1)
    level, best = 0, numbers
    for size in np.unique(wanted[wanted >= 0]).tolist():
        while level < size:
            step = 1 << level
            best = better(best[:-step], best[step:])
            level += 1
        here = np.flatnonzero(wanted == size)
        found[here] = better(best[starts[here]], best[stops[here] - (1 << size)])
    return found


def _differences(numbers: Places, starts: Places, stops: Places) -> Doubles:
    running = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=running[1:])
    return (running[stops] - running[starts]).astype(np.float64)


def _quotients(sums: Doubles, upper: Doubles, rest: Doubles, counts: Doubles) -> Doubles:
    """Divide ``upper + rest``, of which ``sums`` is the rounded sum, rounding once."""
    # What rounding took from the sum (Knuth's two-sum).
    share = sums - upper
    lost = (upper - (sums - share)) + (rest - share)
    quotients = sums / counts
    product = quotients * counts
    quotient_high, quotient_low = _halves(quotients)
    count_high, count_low = _halves(counts)
    error = quotient_high * count_high - product
    error += quotient_high * count_low
    error += quotient_low * count_high
    error += quotient_low * count_low
    left = ((sums - product) - error) + lost
    return quotients + left / counts


def _halves(values: Doubles) -> tuple[Doubles, Doubles]:
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high

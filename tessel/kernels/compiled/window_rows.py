"""Compiled twins of :mod:`tessel.kernels.window_rows`: windows slide, rows enter and leave them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.error_free import two_product, two_sum
from tessel.kernels.jit import inner, kernel

__all__ = ["rows_until", "window_best", "window_sums"]


@inner
def _parts(value: float, scale: float, width: float) -> Any:
    scaled = value * scale
    whole = np.floor(scaled)
    return np.int64(whole), np.int64((scaled - whole) * width)


@inner
def _quotient(total: float, upper: float, lower: float, count: float) -> Any:
    """Divide ``upper + lower``, of which ``total`` is the rounded sum, rounding once."""
    _, lost = two_sum(upper, lower)
    found = total / count
    product, error = two_product(found, count)
    return found + (((total - product) - error) + lost) / count


@kernel
def window_sums(
    values: Any, starts: Any, stops: Any, scale: float, width: float, unit: float, mean: bool,
    found: Any,
) -> None:  # fmt: skip
    """Write the sum or the mean of each window; see :func:`~.window_rows.window_sums`."""
    first, last = np.int64(0), np.int64(0)
    high, rest = np.int64(0), np.int64(0)
    for window in range(len(starts)):
        start, stop = starts[window], stops[window]
        if start == stop:
            found[window] = 0.0
            continue
        if start < first or stop < last or start >= last:
            first, last, high, rest = start, start, np.int64(0), np.int64(0)
        while last < stop:
            more, below = _parts(values[last], scale, width)
            high, rest, last = high + more, rest + below, last + 1
        while first < start:
            less, below = _parts(values[first], scale, width)
            high, rest, first = high - less, rest - below, first + 1
        upper, lower = np.float64(high) * width, np.float64(rest)
        total = upper + lower
        if mean:
            total = _quotient(total, upper, lower, np.float64(stop - start))
        found[window] = total * unit


@kernel
def window_best(
    numbers: Any, starts: Any, stops: Any, greatest: bool, line: Any, found: Any
) -> None:
    """Write the least or the greatest number of each window.

    ``line`` holds the rows that may become the best one, the best of them first; it has as many
    places as there are numbers.
    """
    first, last = np.int64(0), np.int64(0)
    head, tail = np.int64(0), np.int64(0)
    for window in range(len(starts)):
        start, stop = starts[window], stops[window]
        if start == stop:
            found[window] = 0
            continue
        if start < first or stop < last or start >= last:
            last, head, tail = start, np.int64(0), np.int64(0)
        first = start
        while last < stop:
            number = numbers[last]
            if greatest:
                while tail > head and numbers[line[tail - 1]] <= number:
                    tail -= 1
            else:
                while tail > head and numbers[line[tail - 1]] >= number:
                    tail -= 1
            line[tail] = last
            tail, last = tail + 1, last + 1
        while line[head] < start:
            head += 1
        found[window] = numbers[line[head]]


@kernel
def rows_until(times: Any, bounds: Any, included: bool, found: Any) -> None:
    """Write for each bound how many times lie below it, or at it; both ascend."""
    row = np.int64(0)
    for number in range(len(bounds)):
        bound = bounds[number]
        while row < len(times) and (times[row] < bound or (included and times[row] == bound)):
            row += 1
        found[number] = row

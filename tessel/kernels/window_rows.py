"""Sums, means and extremes of windows of rows.

Windows slide: rows enter and leave, and where a window goes back it begins anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.error_free import two_product, two_sum
from tessel.kernels.running_rows import exponent_range
from tessel.lazy import dataclass
from tessel.memory import recycled

Doubles = NDArray[np.float64]
Places = NDArray[np.int64]

_MANTISSA_BITS = 53
# Far from where what results are corrected by would leave the range of normal doubles.
_MOST_EXPONENT = 800
# Of more bits, the error of a correction could reach the place where a mean is rounded.
_MOST_BITS = 98

_BLOCK = 512
"""Windows whose sums are rounded together, by SIMD; they stay in the nearest cache."""


def short_window_sums(
    values: Doubles, starts: Places, stops: Places, *, mean: bool = False
) -> Doubles | None:
    """Return the sum, or the mean, of the values of each window, correctly rounded once.

    Where all values are multiples of ``2**low``, and a window of them adds up to fewer than about a
    hundred bits above that, a value is split into two doubles; see :func:`window_sums`. The sums of
    either over a window are doubles too, so that adding a row and taking it away round nothing. One
    addition then rounds the sum once. A mean takes one more step: the rounded quotient is corrected
    by what is left of the exact one (Dekker, A floating-point technique for extending the available
    precision, 1971).

    Parameters
    ----------
    values
        float64, shape ``(rows,)``; no NaN.
    starts, stops
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``.
    mean
        Whether sums are divided by the number of values (0 counts as 1).

    Returns
    -------
    numpy.ndarray or None
        float64, shape ``(windows,)``, zero as +0.0; None where the values do not fit.
    """
    _, longest = window_lengths(starts, stops)
    room = max(2, longest.bit_length())  # at least so much must the splitter be above all values
    exponents = exponent_range(values, None)
    if exponents is None or max(-exponents[0], exponents[1]) >= _MOST_EXPONENT:
        return None
    least, most = exponents
    low = least - _MANTISSA_BITS
    bits, split = most - low, _MANTISSA_BITS - room
    if bits - split + room > _MANTISSA_BITS or bits + room > _MOST_BITS:
        return None
    return window_sums(values, starts, stops, low + split, mean=mean)


def window_sums(
    values: Doubles, starts: Places, stops: Places, split: int, *, mean: bool
) -> Doubles:
    """Return the sum, or the mean, of the values of each window, correctly rounded once.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``, below ``2**(split + 51)`` in size.
    starts, stops
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``.
    split
        A value is a multiple of ``2**split``, the nearest one, and a rest. The sum of either has no
        more than 53 bits in any window; for means, a sum no more than 98.
    mean
        Whether sums are divided by the number of values (0 counts as 1).

    Returns
    -------
    numpy.ndarray
        float64, shape ``(windows,)``, zero as +0.0.
    """
    found = recycled(len(starts), np.float64)
    splitter, sums = 1.5 * 2.0 ** (split + _MANTISSA_BITS - 1), np.empty((2, _BLOCK))
    slide_sums(values, starts, stops, splitter, mean, sums, found)
    return found


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
    found = recycled(len(starts), numbers.dtype)
    slide_best(numbers, starts, stops, greatest, recycled(len(numbers), np.int64), found)
    return found


@dataclass(frozen=True)
class KeyRuns:
    """Rows side by side by key, and the run of them in each key that is asked about.

    Attributes
    ----------
    bounds
        int64, shape ``(keys + 1,)``: where each key begins, and the end of the last.
    firsts, lasts
        int64, shape ``(keys,)``: a run of rows of each key.
    """

    bounds: Places
    firsts: Places
    lasts: Places

    @classmethod
    def of_one(cls, rows: int, first: int, last: int) -> KeyRuns:
        """Return rows of one key, of which ``[first, last)`` are asked about."""
        return cls(np.array([0, rows]), np.array([first]), np.array([last]))

    def __len__(self) -> int:
        return int((self.lasts - self.firsts).sum())


def row_windows(runs: KeyRuns, first: int, last: int) -> tuple[Places, Places]:
    """Return where the windows of rows start and stop, cut at the ends of their keys.

    Parameters
    ----------
    runs
        The rows; a window for each that is asked about, key by key.
    first, last
        A window is the rows ``[first, last)``, counted from its own row.

    Returns
    -------
    starts, stops : numpy.ndarray
        int64, shape ``(windows,)``, ``starts[i] <= stops[i]``.
    """
    found = np.empty((2, len(runs)), np.int64)
    write_windows(runs.bounds, runs.firsts, runs.lasts, first, last, found[0], found[1])
    return found[0], found[1]


def window_lengths(starts: Places, stops: Places) -> tuple[int, int]:
    """Return the rows of the shortest window and of the longest one; 1 where there is none."""
    if not len(starts):
        return 1, 1
    found = np.empty(2, np.int64)
    measure_windows(starts, stops, found)
    shortest, longest = found.tolist()
    return shortest, longest


def without_short(starts: Places, stops: Places, least: int) -> Places:
    """Return the starts of windows, those of fewer rows than ``least`` at their stops."""
    found = recycled(len(starts), np.int64)
    empty_short(starts, stops, least, found)
    return found


def rows_until(
    times: Places, bounds: Places, *, included: bool, runs: KeyRuns | None = None
) -> Places:
    """Return for each bound how many times lie below it, or at it, too.

    Parameters
    ----------
    times, bounds
        int64, ascending both within a key, so that one pass finds them all.
    included
        Whether those that are the bound count.
    runs
        Times by key, with as many that are asked about as there are bounds; by default one key.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(bounds,)``: where the key of the bound begins, and the times of it that lie
        below the bound.
    """
    found = recycled(len(bounds), np.int64)
    runs = runs or KeyRuns.of_one(len(times), 0, len(bounds))
    count_until(times, runs.bounds, runs.firsts, runs.lasts, bounds, included, found)
    return found


@inner
def _halves(value: float, splitter: float) -> Any:
    """Split a double at the last bit of a much larger one (Rump, Ogita, Oishi, 2008)."""
    high = (value + splitter) - splitter
    return high, value - high


@inner
def _quotient(upper: float, lower: float, count: float) -> Any:
    """Divide ``upper + lower``, rounding once."""
    total, lost = two_sum(upper, lower)
    found = total / count
    product, error = two_product(found, count)
    return found + (((total - product) - error) + lost) / count


@kernel(
    "values: f64[rows], starts: i64[windows], stops: i64[windows], splitter: f64, mean: bool, "
    "sums: mut f64[2, block], found: mut f64[windows]"
)
def slide_sums(
    values: Any, starts: Any, stops: Any, splitter: float, mean: bool, sums: Any, found: Any
) -> None:
    """Write the sum or the mean of each window: rows leave it and enter.

    ``sums`` holds those of a block of windows, each as two doubles, until they are rounded.
    """
    first, last = np.int64(0), np.int64(0)
    upper = lower = 0.0
    block, size = np.uint64(0), np.uint64(sums.shape[1])
    while block < np.uint64(len(starts)):
        windows = min(size, np.uint64(len(starts)) - block)
        for at in range(windows):
            start, stop = starts[block + at], stops[block + at]
            if start == stop:
                sums[0, at] = sums[1, at] = 0.0
                continue
            if start < first or stop < last or start >= last:
                first, last, upper, lower = start, start, 0.0, 0.0
            # Rows leave before others enter: there are never more than in a window.
            while first < start:
                high, low = _halves(values[first], splitter)
                upper, lower, first = upper - high, lower - low, first + 1
            while last < stop:
                high, low = _halves(values[last], splitter)
                upper, lower, last = upper + high, lower + low, last + 1
            sums[0, at], sums[1, at] = upper, lower
        for at in range(windows):
            rows = stops[block + at] - starts[block + at] if mean else 1
            found[block + at] = _quotient(sums[0, at], sums[1, at], np.float64(max(rows, 1)))
        block += windows


@kernel(
    "numbers: V[rows], starts: i64[windows], stops: i64[windows], greatest: bool, "
    "line: mut i64[rows], found: mut V[windows]",
    V="i64 f64",
)
def slide_best(numbers: Any, starts: Any, stops: Any, greatest: Any, line: Any, found: Any) -> None:
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


@kernel(
    "bounds: i64[ends], firsts: i64[keys], lasts: i64[keys], first: i64, last: i64, "
    "starts: mut i64[windows], stops: mut i64[windows]"
)
def write_windows(
    bounds: Any, firsts: Any, lasts: Any, first: Any, last: Any, starts: Any, stops: Any
) -> None:
    """Write the windows of the rows of a run of each key."""
    window = np.int64(0)
    for key in range(len(firsts)):
        begin, end = bounds[key], bounds[key + 1]
        for place in range(firsts[key], lasts[key]):
            start = min(max(place + first, begin), end)
            starts[window] = start
            stops[window] = min(max(place + last, start), end)
            window += 1


@kernel(
    "times: i64[rows], ends: i64[ends], firsts: i64[keys], lasts: i64[keys], "
    "bounds: i64[bounds], included: bool, found: mut i64[bounds]"
)
def count_until(
    times: Any, ends: Any, firsts: Any, lasts: Any, bounds: Any, included: Any, found: Any
) -> None:
    """Write for each bound where the times of its key reach it, or pass it; both ascend."""
    number = np.int64(0)
    for key in range(len(firsts)):
        row, end = ends[key], ends[key + 1]
        for _ in range(firsts[key], lasts[key]):
            bound = bounds[number]
            while row < end and (times[row] < bound or (included and times[row] == bound)):
                row += 1
            found[number] = row
            number += 1


@kernel("starts: i64[windows], stops: i64[windows], found: mut i64[2]")
def measure_windows(starts: Any, stops: Any, found: Any) -> None:
    """Write the fewest and the most rows of a window."""
    shortest = longest = stops[0] - starts[0]
    for window in range(len(starts)):
        rows = stops[window] - starts[window]
        shortest, longest = min(shortest, rows), max(longest, rows)
    found[0], found[1] = shortest, longest


@kernel("starts: i64[windows], stops: i64[windows], least: i64, found: mut i64[windows]")
def empty_short(starts: Any, stops: Any, least: Any, found: Any) -> None:
    """Write where each window starts, or stops where it has fewer rows than ``least``."""
    for window in range(len(starts)):
        start, stop = starts[window], stops[window]
        found[window] = start if stop - start >= least else stop

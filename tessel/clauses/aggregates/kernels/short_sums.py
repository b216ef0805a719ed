"""Exact window sums of doubles whose exponents lie near one another: two integers a row.

Where all values of a column are multiples of ``2**low``, and a window of them adds up to fewer than
about a hundred bits above that, a value is ``high * 2**(low + split) + rest * 2**low`` with whole
``high`` and ``rest``. Running sums of both wrap around in 64 bits, which their differences undo; of
a window, either is below ``2**53`` and so a double. One addition then rounds the sum once. A mean
takes one more step: the rounded quotient is corrected by what is left of the exact one (Dekker, A
floating-point technique for extending the available precision, 1971).

Nearly every column of measurements or prices is such a one; for the others there are limbs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["short_window_sums"]

_MANTISSA_BITS = 53
# Far from where results would leave the range of normal doubles.
_MOST_EXPONENT = 900
# Of more bits, the error of a correction could reach the place where a mean is rounded.
_MOST_BITS = 98
_SPLITTER = 2.0**27 + 1

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def short_window_sums(
    values: Floats, starts: Places, stops: Places, *, mean: bool = False
) -> Floats | None:
    """Return the sum, or the mean, of the values of each window, correctly rounded once.

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
    lengths = stops - starts
    longest = int(lengths.max(initial=1))
    room = longest.bit_length()
    exponents = _exponents(values)
    if exponents is None:
        return None
    least, most = exponents
    low = least - _MANTISSA_BITS
    bits, split = most - low, _MANTISSA_BITS - room
    if bits - split + room > _MANTISSA_BITS or bits + room > _MOST_BITS:
        return None
    # Scaling by powers of two, the floor, and what it leaves are all exact.
    scaled = np.ldexp(values, -(low + split))
    high = np.floor(scaled)
    rest = np.ldexp(scaled - high, split)
    high_sums, rest_sums = (
        _differences(part.astype(np.int64), starts, stops) for part in (high, rest)
    )
    upper = np.ldexp(high_sums, split)
    sums = upper + rest_sums
    if mean:
        sums = _quotients(sums, upper, rest_sums, np.maximum(lengths, 1).astype(np.float64))
    found: Floats = np.ldexp(sums, low)
    return found


def _exponents(values: Floats) -> tuple[int, int] | None:
    """Return exponents that all values lie between, as ``frexp`` has them; None for wide ones."""
    sizes = np.abs(values)
    most = float(sizes.max(initial=0.0))
    least = float(sizes.min(where=sizes > 0, initial=np.inf))
    if not most:
        return 0, 0
    if not np.isfinite(most):
        return None
    first, last = int(np.frexp(least)[1]), int(np.frexp(most)[1])
    return (first, last) if max(-first, last) < _MOST_EXPONENT else None


def _differences(numbers: NDArray[np.int64], starts: Places, stops: Places) -> Floats:
    running = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=running[1:])
    return (running[stops] - running[starts]).astype(np.float64)


def _quotients(sums: Floats, upper: Floats, rest: Floats, counts: Floats) -> Floats:
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


def _halves(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high

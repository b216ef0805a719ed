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

from tessel.kernels.running_rows import exponent_range
from tessel.kernels.window_rows import window_sums

__all__ = ["short_window_sums"]

_MANTISSA_BITS = 53
# Far from where results would leave the range of normal doubles.
_MOST_EXPONENT = 900
# Of more bits, the error of a correction could reach the place where a mean is rounded.
_MOST_BITS = 98

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
    longest = int((stops - starts).max(initial=1))
    room = longest.bit_length()
    exponents = exponent_range(values, None)
    if exponents is None or max(-exponents[0], exponents[1]) >= _MOST_EXPONENT:
        return None
    least, most = exponents
    low = least - _MANTISSA_BITS
    bits, split = most - low, _MANTISSA_BITS - room
    if bits - split + room > _MANTISSA_BITS or bits + room > _MOST_BITS:
        return None
    return window_sums(values, starts, stops, low, split, mean=mean)

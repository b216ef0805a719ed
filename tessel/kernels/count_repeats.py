"""Equal numbers side by side, each once, and how often it stands there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

__all__ = ["count_repeats"]

Integers = NDArray[np.int64]


def count_repeats(ordered: Integers) -> tuple[Integers, Integers]:
    """Return the different numbers, and how often each occurs.

    Parameters
    ----------
    ordered
        int64, equal ones side by side.

    Returns
    -------
    numbers, times : numpy.ndarray
        int64, as many as there are different numbers, in their order.
    """
    numbers, times = np.empty((2, len(ordered)), np.int64)
    count = write_repeats(np.ascontiguousarray(ordered), numbers, times)
    return numbers[:count], times[:count]


@kernel("ordered: i64[rows], numbers: mut i64[rows], times: mut i64[rows] -> i64")
def write_repeats(ordered: Any, numbers: Any, times: Any) -> int:
    """Write different numbers and how often each occurs; return how many there are."""
    rows = len(ordered)
    count, since = 0, 0
    for row in range(rows):
        # Written in any case, without a branch: the last of equal numbers stays.
        numbers[count] = ordered[row]
        times[count] = row + 1 - since
        ends = row + 1 == rows or ordered[row + 1] != ordered[row]
        count += ends
        since = row + 1 if ends else since
    return count

"""Runs of numbers, each sorted by itself.

Short runs are sorted by insertion; numpy's own sort, which uses wide registers, takes those that
are so long that calling it costs little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

__all__ = ["sort_runs"]

Integers = NDArray[np.int64]

_LONGEST = 16


def sort_runs(numbers: Integers, starts: Integers) -> None:
    """Sort runs of numbers in place.

    Parameters
    ----------
    numbers
        int64.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    sort_short_runs(numbers, np.ascontiguousarray(starts), _LONGEST)
    for run in np.flatnonzero(np.diff(starts) > _LONGEST).tolist():
        numbers[starts[run] : starts[run + 1]].sort()


@kernel("numbers: mut i64[rows], starts: i64[ends], longest: i64")
def sort_short_runs(numbers: Any, starts: Any, longest: Any) -> None:
    """Sort the runs that are not longer than ``longest``, in place, by insertion."""
    for run in range(len(starts) - 1):
        start, stop = starts[run], starts[run + 1]
        if stop - start > longest:
            continue
        for place in range(start + 1, stop):
            number = numbers[place]
            spot = place
            while spot > start and numbers[spot - 1] > number:
                numbers[spot] = numbers[spot - 1]
                spot -= 1
            numbers[spot] = number

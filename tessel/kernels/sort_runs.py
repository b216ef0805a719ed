"""Runs of numbers, each sorted by itself.

Short runs are sorted by insertion; numpy's own sort, which uses wide registers, takes those that
are so long that calling it costs little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["sort_runs"]

Integers = NDArray[np.int64]

_LONGEST = 16


def sort_runs(numbers: Integers, starts: Integers) -> bool:
    """Sort runs of numbers in place.

    Parameters
    ----------
    numbers
        int64.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.

    Returns
    -------
    bool
        False where nothing was sorted, because there is no compiled kernel.
    """
    kernels = compiled_kernels(len(numbers), "sort_runs")
    if kernels is None:
        return False
    kernels.sort_short_runs(numbers, frozen(starts), _LONGEST)
    for run in np.flatnonzero(np.diff(starts) > _LONGEST).tolist():
        numbers[starts[run] : starts[run + 1]].sort()
    return True

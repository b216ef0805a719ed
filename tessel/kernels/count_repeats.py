"""Equal numbers side by side, each once, and how often it stands there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["count_repeats", "count_repeats_numpy"]

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
    kernels = compiled_kernels(len(ordered), "count_repeats")
    if kernels is None:
        return count_repeats_numpy(ordered)
    numbers, times = np.empty((2, len(ordered)), np.int64)
    count = kernels.count_repeats(frozen(ordered), numbers, times)
    return numbers[:count], times[:count]


def count_repeats_numpy(ordered: Integers) -> tuple[Integers, Integers]:
    """Return what :func:`count_repeats` does; the numpy twin."""
    if not len(ordered):
        return ordered, ordered
    firsts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    firsts = np.concatenate([[0], firsts])
    return ordered[firsts], np.diff(firsts, append=len(ordered))

"""Equal numbers side by side in runs, each once, and how often it stands there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

__all__ = ["count_different", "count_repeats"]

Integers = NDArray[np.int64]


def count_different(ordered: Integers, starts: Integers) -> Integers:
    """Return how many different numbers each run has, int64.

    Parameters
    ----------
    ordered
        int64, of each run equal ones side by side.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    counts = np.empty(len(starts) - 1, np.int64)
    count_changes(np.ascontiguousarray(ordered), np.ascontiguousarray(starts), counts)
    return counts


def count_repeats(
    ordered: Integers, starts: Integers, counts: Integers
) -> tuple[Integers, Integers]:
    """Return the different numbers of each run, and how often each occurs.

    Parameters
    ----------
    ordered, starts, counts
        What :func:`count_different` takes, and what it gives.

    Returns
    -------
    numbers, times : numpy.ndarray
        int64, as many as there are different numbers, in their order.
    """
    numbers, times = np.empty((2, int(counts.sum())), np.int64)
    write_repeats(np.ascontiguousarray(ordered), np.ascontiguousarray(starts), numbers, times)
    return numbers, times


@kernel("ordered: i64[rows], starts: i64[ends], counts: mut i64[runs]")
def count_changes(ordered: Any, starts: Any, counts: Any) -> None:
    """Count the numbers of each run that differ from the one before."""
    one = np.uint64(1)
    for run in range(len(counts)):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        count = np.int64(stop > start)
        for row in range(start + one, stop):
            count += ordered[row] != ordered[row - one]
        counts[run] = count


@kernel(
    "ordered: i64[rows], starts: i64[ends], numbers: mut i64[different], times: mut i64[different]"
)
def write_repeats(ordered: Any, starts: Any, numbers: Any, times: Any) -> None:
    """Write the different numbers of each run, and how often each occurs."""
    one = np.uint64(1)
    at = np.uint64(0)
    for run in range(len(starts) - 1):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        since = start
        for row in range(start, stop):
            # Written in any case, without a branch: the last of equal numbers stays.
            numbers[at] = ordered[row]
            times[at] = row + one - since
            ends = row + one == stop or ordered[row + one] != ordered[row]
            at += np.uint64(ends)
            since = row + one if ends else since

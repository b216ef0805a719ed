"""Compiled twin of :mod:`tessel.kernels.sort_runs`."""

from __future__ import annotations

from typing import Any

from tessel.kernels.jit import kernel

__all__ = ["sort_short_runs"]


@kernel
def sort_short_runs(numbers: Any, starts: Any, longest: int) -> None:
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

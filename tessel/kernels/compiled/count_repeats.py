"""Compiled twin of :mod:`tessel.kernels.count_repeats`."""

from __future__ import annotations

from typing import Any

from tessel.kernels.jit import kernel

__all__ = ["count_repeats"]


@kernel
def count_repeats(ordered: Any, numbers: Any, times: Any) -> int:
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

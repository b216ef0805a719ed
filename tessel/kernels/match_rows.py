"""The pairs of rows that have one key, counted first, then made from any place to any other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["match_ends", "match_rows"]

Integers = NDArray[np.int64]


def match_ends(codes: Integers, starts: Integers, *, keep_unmatched: bool) -> Integers:
    """Return for each left row where its rows of output end.

    Parameters
    ----------
    codes
        The key of each left row, −1 for none. int64, shape ``(rows,)``.
    starts
        Where the right rows of each key start, and the end. int64, shape ``(keys + 1,)``; without
        any, each right row is the only one of its key, whose number it has.
    keep_unmatched
        Whether a left row without a right one has a row of output.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    kernels = compiled_kernels(len(codes), "match_rows")
    if kernels is not None:
        ends = np.empty(len(codes), np.int64)
        kernels.match_ends(frozen(codes), frozen(starts), keep_unmatched, ends)
        return ends
    counts = _counts(codes, starts)
    return np.cumsum(np.maximum(counts, 1) if keep_unmatched else counts)


def match_rows(
    codes: Integers, starts: Integers, rows: Integers, ends: Integers, start: int, stop: int
) -> tuple[Integers, Integers]:
    """Return the rows ``[start, stop)`` of the output as left rows and right rows.

    Parameters
    ----------
    codes, starts, ends
        As for :func:`match_ends`, and what it returned.
    rows
        The right rows, those of key 0 first; none where there are no starts.

    Returns
    -------
    left, right : numpy.ndarray
        int64, shape ``(stop - start,)``. Left rows ascend, and the right rows of each come in the
        order of ``rows``; a right row is −1 where there is none.
    """
    first = int(np.searchsorted(ends, start, side="right"))
    kernels = compiled_kernels(stop - start, "match_rows")
    if kernels is not None:
        left, right = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        kernels.match_rows(
            frozen(codes), frozen(starts), frozen(rows), frozen(ends), first, start, left, right
        )
        return left, right
    last = int(np.searchsorted(ends, stop - 1, side="right"))
    some = np.arange(first, last + 1) if stop > start else np.zeros(0, np.int64)
    begins = np.append(0, ends)[some]
    sizes = np.minimum(ends[some], stop) - np.maximum(begins, start)
    left = np.repeat(some, sizes)
    if not len(starts):
        return left, codes[left]
    place = starts[codes[left]] + np.arange(start, stop) - np.repeat(begins, sizes)
    unmatched = _counts(codes[left], starts) == 0
    # A place that is none may be anywhere; without right rows it finds the one that is added.
    place[unmatched] = 0
    return left, np.where(unmatched, np.int64(-1), np.append(rows, -1)[place])


def _counts(codes: Integers, starts: Integers) -> Integers:
    """Return how many right rows go with each left row."""
    if not len(starts):
        return (codes >= 0).astype(np.int64)
    sizes = np.append(np.diff(starts), 0)  # code −1 finds the last: no right row
    counts: Integers = sizes[codes]
    return counts

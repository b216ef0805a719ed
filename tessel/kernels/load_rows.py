"""Single rows of stored columns: any order, repeats allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import LEAST_ROWS, compiled_kernels

__all__ = ["load_rows", "load_rows_numpy"]

_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = range(6)


def load_rows(
    words: NDArray[np.uint64], facts: NDArray[np.int64], shift: int, rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the integers of single rows of columns, and their decimal exponents.

    Parameters
    ----------
    words
        The eight bytes from each place of the segment on.
    facts, shift
        As of :class:`~tessel.kernels.StoredBlocks`.
    rows
        Counted from the first row of the segment, int64.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        Modulo 2**64, and int64; both of shape ``(columns, len(rows))``.
    """
    # Values, not rows, are what there is to do; but numba is imported for rows alone.
    values = len(rows) * facts.shape[1]
    kernels = compiled_kernels(max(len(rows), min(values, LEAST_ROWS - 1)), "load_rows")
    if kernels is None:
        return load_rows_numpy(words, facts, shift, rows)
    found: Any = np.empty((facts.shape[1], len(rows)), np.int64)
    exponents = np.empty((facts.shape[1], len(rows)), np.int64)
    kernels.load_rows(words, facts, shift, rows, found, exponents)
    return found.view(np.uint64), exponents


def load_rows_numpy(
    words: NDArray[np.uint64], facts: NDArray[np.int64], shift: int, rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return what :func:`load_rows` does; the numpy twin."""
    numbers, inside = rows >> shift, rows & ((1 << shift) - 1)
    own = facts.take(numbers, axis=2)
    bits = own[_WIDTH]
    bits *= inside
    starts = own[_START]
    starts += bits >> 3
    found: NDArray[np.uint64] = words[starts]
    bits &= 7
    if np.count_nonzero(bits):
        found >>= bits.view(np.uint64)
    found &= own[_MASK].view(np.uint64)
    found += own[_BASE].view(np.uint64)
    steps = own[_STEP]
    if np.count_nonzero(steps):
        steps *= inside
        found += steps.view(np.uint64)
    return found, own[_EXPONENT]

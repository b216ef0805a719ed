"""Where each group's first and last row is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_rows", "last_rows"]

_BLOCK_ROWS = 1 << 16


def first_rows(codes: NDArray[np.integer], groups: int) -> NDArray[np.int64]:
    """Return the first row of every group.

    Parameters
    ----------
    codes
        Integers, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(groups,)``; -1 for a group without rows.
    """
    found = np.full(groups, len(codes), np.int64)
    # Blocks stop the search as soon as every group has been seen, mostly in the first one.
    block_rows = max(_BLOCK_ROWS, groups)
    for start in range(0, len(codes), block_rows):
        block = codes[start : start + block_rows]
        new = np.flatnonzero(found[block] == len(codes))[::-1]
        if len(new):
            # Of an index that occurs twice numpy keeps the last value: here the first row.
            found[block[new]] = new + start
            if found.max() < len(codes):
                break
    found[found == len(codes)] = -1
    return found


def last_rows(codes: NDArray[np.integer], groups: int) -> NDArray[np.int64]:
    """Return the last row of every group; see :func:`first_rows`."""
    found = first_rows(codes[::-1], groups)
    return np.where(found < 0, -1, len(codes) - 1 - found)

"""Where bounds lie in a stored column that never goes back: by binary search, nothing decoded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.load_rows import load_rows_numpy

__all__ = ["search_rows"]

Integers = NDArray[np.int64]


def search_rows(blocks: StoredBlocks, column: int, bounds: Integers, *, after: bool) -> Integers:
    """Return the first row whose integer is not below each bound, or is above it.

    Parameters
    ----------
    blocks
        The rows; their integers in the column never go back.
    column
        Its number.
    bounds
        int64, ascending.
    after
        Whether rows that hold a bound lie before the row returned.

    Returns
    -------
    numpy.ndarray
        int64, counted in the segment; ``blocks.stop`` where there is none.
    """
    kernels = compiled_kernels(len(blocks), "search_rows")
    if kernels is None:
        return _search_rows_numpy(blocks, column, bounds, after)
    found = np.empty(len(bounds), np.int64)
    kernels.search_rows(*blocks.arguments, column, bounds, after, found)
    return found


def _search_rows_numpy(
    blocks: StoredBlocks, column: int, bounds: Integers, after: bool
) -> Integers:
    low = np.full(len(bounds), blocks.start, np.int64)
    high = np.full(len(bounds), blocks.stop, np.int64)
    facts, words = blocks.facts[:, column : column + 1], blocks.words
    while True:
        wanted = np.flatnonzero(low < high)
        if not len(wanted):
            return low
        middle = (low[wanted] + high[wanted]) >> 1
        held = load_rows_numpy(words, facts, blocks.shift, middle)[0][0].view(np.int64)
        before = held <= bounds[wanted] if after else held < bounds[wanted]
        low[wanted[before]] = middle[before] + 1
        high[wanted[~before]] = middle[~before]

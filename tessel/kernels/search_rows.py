"""Where bounds lie in a stored column that never goes back: by binary search, nothing decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import words_of

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
    found = np.empty(len(bounds), np.int64)
    find_bounds(*blocks.arguments, column, np.ascontiguousarray(bounds), after, found)
    return found


_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4


@inner
def _at(words: Any, facts: Any, shift: int, column: int, row: int) -> Any:
    page, inside = row >> shift, row & ((1 << shift) - 1)
    bits = facts[_WIDTH, column, page] * inside
    word = words[np.uint64(facts[_START, column, page] + (bits >> 3))] >> np.uint64(bits & 7)
    held = np.int64(word & np.uint64(facts[_MASK, column, page]))
    return facts[_BASE, column, page] + facts[_STEP, column, page] * inside + held


@kernel(f"{BLOCKS}, column: i64, bounds: i64[bounds], after: bool, out: mut i64[bounds]")
def find_bounds(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    column: Any,
    bounds: Any,
    after: Any,
    out: Any,
) -> None:  # fmt: skip
    """Write the place of each bound; the bounds ascend, so that none lies before the last."""
    words, low = words_of(data), start
    for place in range(len(bounds)):
        high = stop
        while low < high:
            middle = (low + high) >> 1
            held = _at(words, facts, shift, column, middle)
            if held < bounds[place] or (after and held == bounds[place]):
                low = middle + 1
            else:
                high = middle
        out[place] = low

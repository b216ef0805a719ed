"""Single rows of stored columns: any order, repeats allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of

_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4


def load_rows(
    data: NDArray[np.uint8], facts: NDArray[np.int64], shift: int, rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the integers of single rows of columns, and the pages that they lie in.

    Parameters
    ----------
    data
        The bytes of the segment, at least eight.
    facts, shift
        As of :class:`~tessel.kernels.StoredBlocks`.
    rows
        Counted from the first row of the segment, int64.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        Modulo 2**64, of shape ``(columns, len(rows))``; and the numbers of pages, ascending, int64.
    """
    found = np.empty((facts.shape[1], len(rows)), np.int64)
    met = np.zeros(facts.shape[2], np.uint8)
    load_integers(data, np.ascontiguousarray(facts), shift, np.ascontiguousarray(rows), found, met)
    return found.view(np.uint64), np.flatnonzero(met)


@kernel(
    "data: u8[bytes], facts: i64[6, columns, pages], shift: i64, rows: i64[rows], "
    "out: mut i64[columns, rows], met: mut u8[pages]"
)
def load_integers(data: Any, facts: Any, shift: int, rows: Any, out: Any, met: Any) -> None:
    """Write the integers of rows, a line a column, and a 1 for each page that they lie in.

    Rows next to each other mostly lie in one page, whose numbers are looked up once.
    """
    words = words_of(data)
    end = np.uint64(len(words) - 1)
    within = (1 << shift) - 1
    for column in range(facts.shape[1]):
        found = out[column]
        page = np.int64(-1)
        start, width, mask, base, step = page, page, np.uint64(0), page, page
        for at in range(len(rows)):
            row = rows[at]
            if row >> shift != page:
                page = row >> shift
                met[page] = 1
                start, width = facts[_START, column, page], facts[_WIDTH, column, page]
                mask = np.uint64(facts[_MASK, column, page])
                base, step = facts[_BASE, column, page], facts[_STEP, column, page]
            inside = row & within
            bits = width * inside
            # What a file says is never trusted as a place.
            place = min(np.uint64(start + (bits >> 3)), end)
            word = words[place] >> np.uint64(bits & 7)
            found[at] = base + step * inside + np.int64(word & mask)

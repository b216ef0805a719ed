"""Where bounds lie in a stored column that never goes back: by binary search, nothing decoded.

Which texts hold a part: a search through all bytes of a column at once.

A first loop compares the first and the last byte of the part at every place of a block, which runs
on many bytes at a time (after Mula, SIMD-friendly algorithms for substring searching, 2016). Few
places are left; they are compared whole, and only then is looked up which text they lie in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import inner, kernel
from tessel.kernels.group_rows import Texts
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.memory import recycled

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
    found = recycled(len(bounds), np.int64)
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


_BLOCK = 4096
"""Bytes whose marks stay in the innermost cache; a multiple of eight."""

_ONE, _EIGHT = np.uint8(1), 8


def search_texts(texts: Texts, part: bytes) -> NDArray[np.bool_]:
    """Return which texts hold a part.

    Parameters
    ----------
    texts
        The rows.
    part
        At least one byte. In UTF-8 it is found at no other place than its characters are.

    Returns
    -------
    numpy.ndarray
        Bool, shape ``(rows,)``.
    """
    found = recycled(len(texts), np.uint8, fill=0)
    mark_texts(
        np.ascontiguousarray(texts.data),
        np.ascontiguousarray(texts.offsets),
        np.frombuffer(part, np.uint8),
        np.zeros(_BLOCK, np.uint8),
        found,
    )
    return found.view(np.bool_)


@kernel(
    "data: u8[octets], offsets: O[ends], part: u8[length], marks: mut u8[block], "
    "found: mut u8[rows]",
    O="i32 i64",
)
def mark_texts(data: Any, offsets: Any, part: Any, marks: Any, found: Any) -> None:
    """Mark the texts that hold a part."""
    length, rows, block = len(part), len(found), len(marks)
    if rows == 0 or length == 0:
        return
    words = reinterpret(marks, np.uint64)
    first, last = part[0], part[length - 1]
    start: Any = max(0, np.int64(offsets[0]))
    end: Any = min(len(data), np.int64(offsets[rows]))
    stop = end - length + 1
    row = 0
    while start < stop:
        count = min(block, stop - start)
        front, back = np.uint64(start), np.uint64(start + length - 1)
        for at in range(count):
            marks[at] = np.uint8(data[front + np.uint64(at)] == first) & np.uint8(
                data[back + np.uint64(at)] == last
            )
        for at in range(count, min(block, count + _EIGHT)):
            marks[at] = 0
        for word in range((count + _EIGHT - 1) // _EIGHT):
            if words[word] == 0:
                continue
            for at in range(word * _EIGHT, word * _EIGHT + _EIGHT):
                if marks[at] == 0:
                    continue
                place = start + at
                while row < rows and offsets[row + 1] <= place:
                    row += 1
                if row == rows:
                    return
                if found[row] or offsets[row] > place or place + length > offsets[row + 1]:
                    continue
                same = 1
                while same < length and data[np.uint64(place + same)] == part[np.uint64(same)]:
                    same += 1
                if same == length:
                    found[row] = _ONE
        start += count

"""Which texts hold a part: a search through all bytes of a column at once.

A first loop compares the first and the last byte of the part at every place of a block, which runs
on many bytes at a time (after Mula, SIMD-friendly algorithms for substring searching, 2016). Few
places are left; they are compared whole, and only then is looked up which text they lie in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.kernels.group_texts import Texts
from tessel.kernels.intrinsics import reinterpret

__all__ = ["search_texts"]

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
    found = np.zeros(len(texts), np.uint8)
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

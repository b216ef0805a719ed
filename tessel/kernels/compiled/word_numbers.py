"""Compiled twin of :mod:`tessel.kernels.word_numbers`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["find_in_range", "find_in_slots", "move_slots", "number_in_range", "number_in_slots"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inner
def _slot(word: int, shift: Any) -> Any:
    bits = np.uint64(word)
    return np.int64(((bits ^ (bits >> _HALF)) * _FACTOR) >> shift)


@kernel
def find_in_range(words: Any, absent: Any, low: int, table: Any, codes: Any) -> None:
    """Write the number of each word that lies in the range of a table; −1 for others."""
    size = np.uint64(len(table))
    for row in range(len(words)):
        place = np.uint64(words[row]) - np.uint64(low)
        inside = place < size and not (len(absent) and absent[row])
        codes[row] = table[np.int64(place)] if inside else -1


@kernel
def number_in_range(words: Any, absent: Any, low: int, table: Any, codes: Any) -> Any:
    """Give each word of a range a number in its table of −1s; return how many there are.

    The number of each row's word is written.
    """
    count = 0
    for row in range(len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        place = words[row] - low
        if table[place] < 0:
            table[place] = count
            count += 1
        codes[row] = table[place]
    return count


@kernel
def number_in_slots(
    words: Any, absent: Any, shift: Any, table: Any, codes: Any, start: int, count: int
) -> Any:
    """Put each word from a row on into the table with a number, ``count`` being the next.

    Return the row before which the table is half full, and the next number.
    """
    mask = len(table) - 1
    for row in range(start, len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        slot = _slot(words[row], shift)
        while table[slot, 1] >= 0 and table[slot, 0] != words[row]:
            slot = (slot + 1) & mask
        if table[slot, 1] < 0:
            if 2 * count > mask:
                return row, count
            table[slot, 0] = words[row]
            table[slot, 1] = count
            count += 1
        codes[row] = table[slot, 1]
    return len(words), count


@kernel
def move_slots(table: Any, shift: Any, larger: Any) -> None:
    """Put all that is in a table into a larger one."""
    mask = len(larger) - 1
    for old in range(len(table)):
        if table[old, 1] >= 0:
            slot = _slot(table[old, 0], shift)
            while larger[slot, 1] >= 0:
                slot = (slot + 1) & mask
            larger[slot, 0] = table[old, 0]
            larger[slot, 1] = table[old, 1]


@kernel
def find_in_slots(words: Any, absent: Any, shift: Any, table: Any, codes: Any) -> None:
    """Write the number of each word that is in the table; −1 for others."""
    mask = len(table) - 1
    for row in range(len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        slot = _slot(words[row], shift)
        while table[slot, 1] >= 0 and table[slot, 0] != words[row]:
            slot = (slot + 1) & mask
        codes[row] = table[slot, 1]

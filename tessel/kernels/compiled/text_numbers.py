"""Compiled kernels of :mod:`tessel.kernels.text_numbers`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["find_texts", "number_texts"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_HASH, _NUMBER = 0, 1
_START, _LENGTH = 0, 1
_BLOCK = 256


@inner
def _hash(words: Any, place: Any, left: Any) -> Any:
    mixed = left
    while left > _EIGHT:
        mixed = (mixed ^ words[place]) * _FACTOR
        mixed ^= mixed >> _HALF
        place += _EIGHT
        left -= _EIGHT
    last = _ZERO
    if left > _ZERO:
        last = words[place] & (_ALL >> ((_EIGHT - left) * _EIGHT))
    mixed = (mixed ^ last) * _FACTOR
    return mixed ^ (mixed >> _HALF)


@inner
def _same(words: Any, place: Any, held: Any, spot: Any, left: Any) -> Any:
    while left > _EIGHT:
        if words[place] != held[spot]:
            return False
        place += _EIGHT
        spot += _EIGHT
        left -= _EIGHT
    if left == _ZERO:
        return True
    differing = words[place] ^ held[spot]
    return differing & (_ALL >> ((_EIGHT - left) * _EIGHT)) == _ZERO


@inner
def _slot_of(table: Any, slot: Any, key: Any, mask: Any) -> Any:
    """Return the first slot from one on that has a hash, or is free."""
    while table[slot, _NUMBER] != 0 and table[slot, _HASH] != key:
        slot = (slot + _ONE) & mask
    return slot


@kernel
def number_texts(
    words: Any, offsets: Any, base: int, absent: Any, table: Any, extents: Any, codes: Any
) -> Any:
    """Give each text a number, its place in ``extents``; return how many there are.

    The table is less than full whatever the texts are, and all zeros.
    """
    mask = np.uint64(len(table) - 1)
    hashes = np.empty(_BLOCK, np.uint64)
    count = 0
    for first in range(0, len(codes), _BLOCK):
        stop = min(first + _BLOCK, len(codes))
        for row in range(first, stop):
            start = np.uint64(offsets[row] - base)
            hashes[row - first] = _hash(words, start, np.uint64(offsets[row + 1] - base) - start)
        for row in range(first, stop):
            codes[row] = table[hashes[row - first] & mask, _NUMBER]
        for row in range(first, stop):
            codes[row] = -1
            if len(absent) and absent[row]:
                continue
            start = np.uint64(offsets[row] - base)
            length = np.uint64(offsets[row + 1] - base) - start
            key = np.int64(hashes[row - first])
            slot = _slot_of(table, hashes[row - first] & mask, key, mask)
            known = table[slot, _NUMBER] - 1
            while known >= 0:
                if extents[known, _LENGTH] == np.int64(length) and _same(
                    words, start, words, np.uint64(extents[known, _START]), length
                ):
                    codes[row] = known
                    break
                slot = _slot_of(table, (slot + _ONE) & mask, key, mask)
                known = table[slot, _NUMBER] - 1
            if known < 0:
                table[slot, _HASH] = key
                table[slot, _NUMBER] = count + 1
                extents[count, _START] = np.int64(start)
                extents[count, _LENGTH] = np.int64(length)
                codes[row] = count
                count += 1
    return count


@kernel
def find_texts(
    words: Any, offsets: Any, base: int, absent: Any, held: Any, table: Any, extents: Any,
    codes: Any,
) -> None:  # fmt: skip
    """Write the number of each text that is in the table; −1 for others.

    What lies far apart in memory is looked at for a block of rows in a loop of its own, in which
    nothing waits for anything else.
    """
    mask = np.uint64(len(table) - 1)
    hashes, slots = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    numbers, seen = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.uint64)
    for first in range(0, len(codes), _BLOCK):
        count = min(_BLOCK, len(codes) - first)
        for at in range(count):
            start = np.uint64(offsets[first + at] - base)
            hashes[at] = _hash(words, start, np.uint64(offsets[first + at + 1] - base) - start)
        for at in range(count):
            seen[at] = np.uint64(table[hashes[at] & mask, _NUMBER])
        for at in range(count):
            slots[at] = _slot_of(table, hashes[at] & mask, np.int64(hashes[at]), mask)
            numbers[at] = table[slots[at], _NUMBER] - 1
        for at in range(count):
            seen[at] = np.uint64(extents[max(numbers[at], 0), _START])
        for at in range(count):
            seen[at] = held[seen[at]]
        for at in range(count):
            row = first + at
            codes[row] = -1
            if len(absent) and absent[row]:
                continue
            start = np.uint64(offsets[row] - base)
            length = np.uint64(offsets[row + 1] - base) - start
            slot, known = slots[at], numbers[at]
            while known >= 0:
                if extents[known, _LENGTH] == np.int64(length) and _same(
                    words, start, held, np.uint64(extents[known, _START]), length
                ):
                    codes[row] = known
                    break
                slot = _slot_of(table, (slot + _ONE) & mask, np.int64(hashes[at]), mask)
                known = table[slot, _NUMBER] - 1

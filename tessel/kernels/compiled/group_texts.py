"""Compiled twin of what numbers rows by text; see :mod:`tessel.kernels.group_texts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["group_texts", "grown_texts"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_HASH, _GROUP = 0, 1
_START, _LENGTH = 0, 1


@kernel
def grown_texts(table: Any) -> Any:
    """Return a table of four times as many slots."""
    grown = np.zeros((4 * len(table), 2), np.int64)
    mask = np.uint64(len(grown) - 1)
    for place in range(len(table)):
        if table[place, _GROUP] == 0:
            continue
        slot = np.uint64(table[place, _HASH]) & mask
        while grown[slot, _GROUP] != 0:
            slot = (slot + _ONE) & mask
        grown[slot, _HASH] = table[place, _HASH]
        grown[slot, _GROUP] = table[place, _GROUP]
    return grown


@kernel
def group_texts(
    words: Any, offsets: Any, codes: Any, table: Any, held: Any, extents: Any, groups: int, row: int
) -> Any:
    """Write the group of rows from ``row`` on; return the row that found no room, and the groups.

    ``words`` are the eight bytes from each place of the buffer on. The texts of groups stand in
    ``held``, eight bytes a number, filled up with zeros; ``extents`` has the start and the length
    of each.
    """
    mask = np.uint64(len(table) - 1)
    most = min(len(table) // 2, len(extents) - 1)
    for at in range(row, len(codes)):
        start = np.uint64(offsets[at])
        length = np.uint64(offsets[at + 1]) - start
        mixed, place, left = length, start, length
        while left > _EIGHT:
            mixed = (mixed ^ words[place]) * _FACTOR
            mixed ^= mixed >> _HALF
            place += _EIGHT
            left -= _EIGHT
        last = _ZERO
        if left > _ZERO:
            last = words[place] & (_ALL >> ((_EIGHT - left) * _EIGHT))
        mixed = (mixed ^ last) * _FACTOR
        mixed ^= mixed >> _HALF
        key = np.int64(mixed & (_ALL >> _ONE))
        slot = mixed & mask
        group = np.int64(-1)
        while table[slot, _GROUP] != 0:
            known = np.uint64(table[slot, _GROUP] - 1)
            if table[slot, _HASH] == key and extents[known, _LENGTH] == np.int64(length):
                spot, place, left = np.uint64(extents[known, _START]), start, length
                while left > _EIGHT and words[place] == held[spot]:
                    place += _EIGHT
                    left -= _EIGHT
                    spot += _ONE
                if left <= _EIGHT and last == held[spot]:
                    group = np.int64(known)
                    break
            slot = (slot + _ONE) & mask
        if group < 0:
            spot = np.uint64(extents[groups, _START])
            if groups == most or spot + length // _EIGHT + _ONE > np.uint64(len(held)):
                return at, groups
            group = np.int64(groups)
            table[slot, _HASH] = key
            table[slot, _GROUP] = groups + 1
            extents[groups, _LENGTH] = np.int64(length)
            place, left = start, length
            while left > _EIGHT:
                held[spot] = words[place]
                place += _EIGHT
                left -= _EIGHT
                spot += _ONE
            held[spot] = last
            groups += 1
            extents[groups, _START] = np.int64(spot + _ONE)
        codes[at] = group
    return len(codes), groups

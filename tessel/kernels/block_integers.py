"""The integers of a page of a column: loaded into a register, or compared where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.declare import inner
from tessel.kernels.intrinsics import reinterpret

_WIDEST_NARROW, _WORD_BITS = 24, 64
_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4


@inner
def field_bits(width: int, mask: int, base: int) -> Any:
    """Return how integers are cut out of a word: the shift, the mask behind it, and the sign bit.

    Those of pages are at the bottom of their words and have no sign; of fields of rows, whose
    distance is more than a word, the mask says both where they are and how wide.
    """
    shift, bits, sign = np.uint64(0), np.uint64(mask), np.uint64(0)
    if width > _WORD_BITS:
        sign = np.uint64(-base)
        while shift < np.uint64(_WORD_BITS) and bits & np.uint64(1) == 0:
            bits >>= np.uint64(1)
            shift += np.uint64(1)
    return shift, bits, sign


@inner
def load_integers(
    data: Any,
    words: Any,
    facts: Any,
    column: int,
    page: int,
    first: int,
    integers: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write the integers of rows ``[first, first + rows)`` of a page from place ``out`` on."""
    start, width = facts[_START, column, page], facts[_WIDTH, column, page]
    base, step = facts[_BASE, column, page], facts[_STEP, column, page]
    count = np.int64(rows)
    if width == 0:
        for row in range(rows):
            integers[out + row] = base
    elif width == 8:
        octets = data[start + first : start + first + count]
        for row in range(rows):
            integers[out + row] = base + np.int64(octets[row])
    elif width == 16:
        begin = start + 2 * first
        halves = reinterpret(data[begin : begin + 2 * count], np.uint16)
        for row in range(rows):
            integers[out + row] = base + np.int64(halves[row])
    elif width == 32:
        begin = start + 4 * first
        wholes = reinterpret(data[begin : begin + 4 * count], np.uint32)
        for row in range(rows):
            integers[out + row] = base + np.int64(wholes[row])
    elif width == 64:
        begin = start + 8 * first
        longs = reinterpret(data[begin : begin + 8 * count], np.int64)
        for row in range(rows):
            integers[out + row] = base + longs[row]
    elif width == 24:  # as what follows, but the machine's arithmetic of addresses does it
        # A slice tells the compiler that no index is negative, which Python would count back.
        loaded = words[start + 3 * first :]
        for row in range(rows):
            integers[out + row] = base + np.int64(loaded[np.uint64(3) * row] & np.uint64(0xFFFFFF))
    elif width % 8 == 0:
        item = np.uint64(width >> 3)
        down, mask, sign = field_bits(width, facts[_MASK, column, page], base)
        loaded = words[start + first * (width >> 3) :]
        for row in range(rows):
            integers[out + row] = base + np.int64(((loaded[row * item] >> down) & mask) ^ sign)
    else:
        mask = np.uint64(facts[_MASK, column, page])
        loaded = words[start:]
        wide, before = np.uint64(width), np.uint64(first)
        for row in range(rows):
            bits = (before + row) * wide
            word = loaded[bits >> np.uint64(3)] >> (bits & np.uint64(7))
            integers[out + row] = base + np.int64(word & mask)
    if step != 0:
        for row in range(rows):
            integers[out + row] += step * (first + np.int64(row))


@inner
def gather_integers(
    data: Any,
    words: Any,
    facts: Any,
    column: int,
    page: int,
    first: int,
    chosen: Any,
    integers: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write the integers of some rows of a page, counted from ``first``, from place ``out`` on."""
    start, width = facts[_START, column, page], facts[_WIDTH, column, page]
    base, step = facts[_BASE, column, page], facts[_STEP, column, page]
    if width == 0:
        for row in range(rows):
            integers[out + row] = base
    elif width == 8:
        octets = data[start + first :]
        for row in range(rows):
            integers[out + row] = base + np.int64(octets[np.uint64(chosen[row])])
    elif width == 16:
        halves = reinterpret(data[start + 2 * first :], np.uint16)
        for row in range(rows):
            integers[out + row] = base + np.int64(halves[np.uint64(chosen[row])])
    elif width == 24:
        loaded = words[start + 3 * first :]
        for row in range(rows):
            word = loaded[np.uint64(3) * np.uint64(chosen[row])] & np.uint64(0xFFFFFF)
            integers[out + row] = base + np.int64(word)
    elif width == 32:
        wholes = reinterpret(data[start + 4 * first :], np.uint32)
        for row in range(rows):
            integers[out + row] = base + np.int64(wholes[np.uint64(chosen[row])])
    elif width == 64:
        longs = reinterpret(data[start + 8 * first :], np.int64)
        for row in range(rows):
            integers[out + row] = base + longs[np.uint64(chosen[row])]
    else:
        down, mask, sign = field_bits(width, facts[_MASK, column, page], base)
        end, wide, begin = np.uint64(len(words) - 1), np.uint64(width), np.uint64(start)
        for row in range(rows):
            bits = wide * np.uint64(first + chosen[row])
            # What a file says is never trusted as a place.
            word = words[min(begin + (bits >> np.uint64(3)), end)]
            word >>= (bits & np.uint64(7)) + down
            integers[out + row] = base + np.int64((word & mask) ^ sign)
    if step != 0:
        for row in range(rows):
            integers[out + row] += step * (first + chosen[row])


@inner
def _narrow_range(
    data: Any,
    words: Any,
    start: int,
    width: int,
    first: int,
    low: int,
    high: int,
    truths: Any,
    out: Any,
    rows: Any,
) -> None:
    """Compare integers of 8, 16 or 24 bits where they are: many at a time of the machine."""
    least, most = np.int32(low), np.int32(high)
    count = np.int64(rows)
    if width == 8:
        octets = data[start + first : start + first + count]
        for row in range(rows):
            value = np.int32(octets[row])
            truths[out + row] = (value >= least) & (value <= most)
    elif width == 16:
        begin = start + 2 * first
        halves = reinterpret(data[begin : begin + 2 * count], np.uint16)
        for row in range(rows):
            value = np.int32(halves[row])
            truths[out + row] = (value >= least) & (value <= most)
    else:
        loaded = words[start + 3 * first :]
        for row in range(rows):
            value = np.int32(loaded[np.uint64(3) * row] & np.uint64(0xFFFFFF))
            truths[out + row] = (value >= least) & (value <= most)


@inner
def column_range(
    data: Any,
    words: Any,
    facts: Any,
    column: int,
    page: int,
    first: int,
    low: int,
    high: int,
    integers: Any,
    scratch: Any,
    truths: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write in which rows the integers of a page lie in a closed range."""
    width, base = facts[_WIDTH, column, page], facts[_BASE, column, page]
    narrow = width % 8 == 0 and 0 < width <= _WIDEST_NARROW and facts[_STEP, column, page] == 0
    # Bases near the ends of 64 bits would wrap: there integers are made first.
    if narrow and -(1 << 61) < base < (1 << 61):
        most = np.int64(1) << width
        least = min(max(low, base - 1), base + most) - base
        greatest = max(min(high, base + most), base - 1) - base
        _narrow_range(
            data, words, facts[_START, column, page], width, first,
            least, greatest, truths, out, rows,
        )  # fmt: skip
        return
    load_integers(data, words, facts, column, page, first, integers, scratch, rows)
    for row in range(rows):
        value = integers[scratch + row]
        truths[out + row] = (value >= low) & (value <= high)

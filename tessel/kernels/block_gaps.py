"""Rows without a value, and values that no integer stands for; see :class:`~tessel.kernels.Gap`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_integers import load_integers
from tessel.kernels.declare import inner
from tessel.kernels.intrinsics import reinterpret

_EXPONENT = 5
# These are the lines of ``Gap``.
_VALIDITY, _EXCEPTIONS, _PLACES, _PLACE_WIDTH, _VALUES, _NANS = 0, 1, 2, 3, 4, 5
_ALL_MISSING = -2
_SINGLE_BITS, _SINGLE_SCALED = -2, 32
_SIGNLESS_SINGLE, _INFINITE_SINGLE = (1 << 31) - 1, 0xFF << 23
_SIGNLESS = (1 << 63) - 1
_INFINITY_BITS = 0x7FF << 52
_START, _WIDTH, _WORD_BITS = 0, 1, 64
# One byte eight times over, then of each copy one bit, then a byte that is 1 where that was set.
_COPIES, _BITS = 0x0101010101010101, 0x8040201008040201
_CARRY = 0x7F7F7F7F7F7F7F7F


@inner
def _bits(words: Any, start: int, first: int, truths: Any, out: Any, rows: Any) -> None:
    """Write bits ``[first, first + rows)`` of a bitmap as bytes, eight at a time.

    Registers begin at multiples of eight and have as many rows, so that there is room for the last.
    """
    eights = reinterpret(truths, np.uint64)
    at = np.uint64(start + (first >> 3))
    shift = np.uint64(first & 7)
    place = out >> np.uint64(3)
    for eight in range((rows + np.uint64(7)) >> np.uint64(3)):
        octet = (words[at + eight] >> shift) & np.uint64(0xFF)
        spread = (octet * np.uint64(_COPIES)) & np.uint64(_BITS)
        # Bit k is now in byte k: 0, or two to the power of k. Adding 0x7F carries it to the top.
        carried = ((spread & np.uint64(_CARRY)) + np.uint64(_CARRY)) | spread
        eights[place + eight] = (carried >> np.uint64(7)) & np.uint64(_COPIES)


@inner
def _first_exception(words: Any, gaps: Any, column: int, page: int, first: int) -> Any:
    """Return the number of the first exception that lies at row ``first`` of the page or after."""
    start, width = gaps[_PLACES, column, page], gaps[_PLACE_WIDTH, column, page]
    low, high = np.int64(0), gaps[_EXCEPTIONS, column, page]
    while low < high:
        middle = (low + high) >> 1
        if _place(words, start, width, middle) < first:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _place(words: Any, start: int, width: int, number: int) -> Any:
    word = words[np.uint64(start + number * (width >> 3))]
    return np.int64(word & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)))


@inner
def single_of(bits: Any) -> Any:
    """Return the double of the value that 32 bits are the single of."""
    return np.float64(np.uint32(bits).view(np.float32))


@inner
def _exception(words: Any, values: int, number: int, single: bool) -> Any:
    """Return an exception as a double."""
    if single:
        return single_of(words[np.uint64(values + 4 * number)] & np.uint64(0xFFFFFFFF))
    return np.uint64(words[np.uint64(values + 8 * number)]).view(np.float64)


@inner
def patch_exceptions(
    words: Any,
    gaps: Any,
    column: int,
    page: int,
    first: int,
    single: bool,
    chosen: Any,
    packed: bool,
    floats: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write the floats of rows ``[first, first + rows)`` that no integer stands for.

    Where rows are ``packed``, ``chosen`` says which ones they are, counted from ``first``.
    """
    start, width = gaps[_PLACES, column, page], gaps[_PLACE_WIDTH, column, page]
    values = gaps[_VALUES, column, page]
    at = np.uint64(0)
    for number in range(
        _first_exception(words, gaps, column, page, first), gaps[_EXCEPTIONS, column, page]
    ):
        row = _place(words, start, width, number) - first
        if packed:
            while at < rows and chosen[at] < row:
                at += np.uint64(1)
        else:
            at = np.uint64(row)
        if at >= rows:
            break
        if not packed or chosen[at] == row:
            floats[out + at] = _exception(words, values, number, single)


@inner
def present_rows(
    data: Any,
    words: Any,
    facts: Any,
    gaps: Any,
    column: int,
    page: int,
    first: int,
    nans: bool,
    integers: Any,
    scratch: Any,
    truths: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write in which of rows ``[first, first + rows)`` of a page a column has a value.

    Where ``nans`` is true, a NaN is one.
    """
    validity: Any = np.int64(-1)
    if gaps.shape[1] > 0:
        validity = gaps[_VALIDITY, column, page]
    width = facts[_WIDTH, column, page]
    if validity >= 0 and width > _WORD_BITS:
        item, mask = np.uint64(width >> 3), np.uint8(1 << (validity & 7))
        octets = data[(validity >> 3) + first * (width >> 3) :]
        for row in range(rows):
            truths[out + row] = (octets[row * item] & mask) == 0
    elif validity >= 0:
        _bits(words, validity, first, truths, out, rows)
    else:
        everywhere = np.uint8(validity != _ALL_MISSING)
        for row in range(rows):
            truths[out + row] = everywhere
    if nans or gaps.shape[1] == 0 or gaps[_NANS, column, page] == 0:
        return
    exponent = facts[_EXPONENT, column, page]
    if exponent < 0:
        load_integers(data, words, facts, column, page, first, integers, scratch, rows)
        signless, infinite = np.int64(_SIGNLESS), np.int64(_INFINITY_BITS)
        if exponent == _SINGLE_BITS:
            signless, infinite = np.int64(_SIGNLESS_SINGLE), np.int64(_INFINITE_SINGLE)
        for row in range(rows):
            truths[out + row] &= (integers[scratch + row] & signless) <= infinite
    start, width = gaps[_PLACES, column, page], gaps[_PLACE_WIDTH, column, page]
    values = gaps[_VALUES, column, page]
    for number in range(
        _first_exception(words, gaps, column, page, first), gaps[_EXCEPTIONS, column, page]
    ):
        row = _place(words, start, width, number) - first
        if row >= np.int64(rows):
            break
        held = _exception(words, values, number, exponent >= _SINGLE_SCALED)
        truths[out + np.uint64(row)] &= held == held


@inner
def equal_texts(
    data: Any,
    words: Any,
    facts: Any,
    gaps: Any,
    column: int,
    page: int,
    first: int,
    tables: Any,
    place: int,
    length: int,
    truths: Any,
    out: Any,
    rows: Any,
) -> None:
    """Write in which of rows ``[first, first + rows)`` of structs a text is that of the tables.

    One that says that it lies outside of its heap is none.
    """
    item = facts[_WIDTH, column, page] >> 3
    begin, end = gaps[_VALUES, column, page], gaps[_PLACES, column, page]
    pairs = words[facts[_START, column, page] + first * item :]
    for row in range(rows):
        pair = pairs[row * np.uint64(item)]
        start, size = (
            begin + np.int64(pair & np.uint64(0xFFFFFFFF)),
            np.int64(pair >> np.uint64(32)),
        )
        equal = size == length and (size == 0 or start + size <= end)
        if equal:
            for at in range(length):
                if data[np.uint64(start + at)] != tables[np.uint64(place + at)]:
                    equal = False
                    break
        truths[out + row] = equal

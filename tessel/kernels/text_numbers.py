"""Numbers for the distinct texts of a column, and the number of a text that is asked for.

What :class:`~tessel.kernels.word_numbers.WordNumbers` is for words of 64 bits, this is for text and
bytes of any length: a hash table with linear probing, at most half full. Hashes decide nothing but
where a text is looked for; those of a run of rows are computed before the first of them is, so that
a processor waits for the table once for many rows.

The hash goes over the words of eight bytes of a text, little-endian, the last one filled up with
zeros: from ``h`` its length in bytes, ``h = (h ^ word) * 0x9E3779B97F4A7C15`` and
``h = h ^ (h >> 32)``, modulo 2**64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.group_rows import Texts
from tessel.kernels.intrinsics import words_of
from tessel.memory import recycled

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

_WORD_BYTES = 8
_LEAST_SLOTS = 1 << 10
_NONE_ABSENT = np.zeros(0, np.bool_)

_BLOCK = 256
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO, _ONE, _EIGHT, _HALF = (np.uint64(bits) for bits in (0, 1, 8, 32))
_HASH, _NUMBER = 0, 1
_START, _LENGTH = 0, 1


class TextNumbers:
    """Distinct texts, numbered from 0 on by first appearance.

    Parameters
    ----------
    texts
        The rows.
    absent
        Bool, shape ``(rows,)``: rows that have no text; None where all have one.

    Attributes
    ----------
    codes
        int64, shape ``(rows,)``: the number of each row's text, −1 where it has none.
    """

    def __init__(self, texts: Texts, absent: Truths | None = None) -> None:
        self._held, offsets, base = _copied(texts)
        slots = max(_LEAST_SLOTS, 1 << (2 * len(texts)).bit_length())
        # Pages of memory that nothing is written to are not there.
        self._table = np.zeros((slots, 2), np.int64)
        extents = np.zeros((max(1, len(texts)), 2), np.int64)
        self.codes = recycled(len(texts), np.int64)
        self._count = int(
            number_texts(
                self._held, offsets, base, _missing(absent), self._table, extents,
                np.empty(_BLOCK, np.uint64), self.codes,
            )
        )  # fmt: skip
        self._extents = extents[: max(1, self._count)]

    def __len__(self) -> int:
        return self._count

    def find(self, texts: Texts, absent: Truths | None = None) -> Integers:
        """Return the number of each text, −1 where it is none of these, or absent."""
        codes = recycled(len(texts), np.int64)
        data, offsets, base = _copied(texts)
        find_texts(
            data, offsets, base, _missing(absent), self._held, self._table, self._extents,
            np.empty((3, _BLOCK), np.uint64), np.empty(_BLOCK, np.int64), codes,
        )  # fmt: skip
        return codes


def _missing(absent: Truths | None) -> Truths:
    return _NONE_ABSENT if absent is None else np.ascontiguousarray(absent)


def _copied(texts: Texts) -> tuple[NDArray[np.uint8], NDArray[Any], int]:
    """Return the bytes of texts, the offsets, and the first of them.

    The bytes are copied, so that eight of them can be read from any place of a text.
    """
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    held = np.zeros(last - first + _WORD_BYTES, np.uint8)
    held[: last - first] = texts.data[first:last]
    return held, np.ascontiguousarray(texts.offsets), first


@inner
def text_hash(words: Any, place: Any, left: Any) -> Any:
    """Return the hash of so many bytes from a place on."""
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


@kernel(
    "data: u8[bytes], offsets: O[edges], base: i64, absent: bool[absent], "
    "table: mut i64[slots, 2], extents: mut i64[texts, 2], hashes: mut u64[256], "
    "codes: mut i64[rows] -> i64",
    O="i32 i64",
)
def number_texts(
    data: Any,
    offsets: Any,
    base: int,
    absent: Any,
    table: Any,
    extents: Any,
    hashes: Any,
    codes: Any,
) -> int:
    """Give each text a number, its place in ``extents``; return how many there are.

    The table is less than full whatever the texts are, and all zeros.
    """
    words = words_of(data)
    mask = np.uint64(len(table) - 1)
    count = 0
    for first in range(0, len(codes), _BLOCK):
        stop = min(first + _BLOCK, len(codes))
        for row in range(first, stop):
            start = np.uint64(offsets[row] - base)
            length = np.uint64(offsets[row + 1] - base) - start
            hashes[row - first] = text_hash(words, start, length)
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


@kernel(
    "data: u8[bytes], offsets: O[edges], base: i64, absent: bool[absent], known: u8[held], "
    "table: i64[slots, 2], extents: i64[texts, 2], scratch: mut u64[3, 256], "
    "numbers: mut i64[256], codes: mut i64[rows]",
    O="i32 i64",
)
def find_texts(
    data: Any,
    offsets: Any,
    base: int,
    absent: Any,
    known: Any,
    table: Any,
    extents: Any,
    scratch: Any,
    numbers: Any,
    codes: Any,
) -> None:
    """Write the number of each text that is in the table; −1 for others.

    What lies far apart in memory is looked at for a block of rows in a loop of its own, in which
    nothing waits for anything else.
    """
    words, held = words_of(data), words_of(known)
    hashes, slots, seen = scratch[0], scratch[1], scratch[2]
    mask = np.uint64(len(table) - 1)
    for first in range(0, len(codes), _BLOCK):
        count = min(_BLOCK, len(codes) - first)
        for at in range(count):
            start = np.uint64(offsets[first + at] - base)
            length = np.uint64(offsets[first + at + 1] - base) - start
            hashes[at] = text_hash(words, start, length)
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
            slot, number = slots[at], numbers[at]
            while number >= 0:
                if extents[number, _LENGTH] == np.int64(length) and _same(
                    words, start, held, np.uint64(extents[number, _START]), length
                ):
                    codes[row] = number
                    break
                slot = _slot_of(table, (slot + _ONE) & mask, np.int64(hashes[at]), mask)
                number = table[slot, _NUMBER] - 1

"""Rows numbered by a key, in order of first appearance.

A key is one 64-bit number a row; who has several columns makes one number of them first. Where the
numbers lie in a range that is not much wider than rows are many, a number's group stands in a table
at the place of the number. Otherwise it is looked for in the hash table of
:class:`~tessel.kernels.word_numbers.WordNumbers`.

Rows numbered by texts, in order of first appearance.

Texts are looked for in a hash table of open addressing. Each text that is new is copied beside the
table, so that chunks of rows, each with a buffer of its own, share one table.

The hash is fixed and without a seed, and decides nothing but where a text is looked for: over the
words of eight bytes of a text, little-endian, the last one filled up with zeros, from ``h`` its
length in bytes, ``h = (h ^ word) * 0x9E3779B97F4A7C15`` and ``h = h ^ (h >> 32)``, modulo 2**64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.word_numbers import WordNumbers
from tessel.lazy import dataclass

Integers = NDArray[np.int64]

_MOST_IN_32_BITS = 1 << 31
"""Groups whose numbers fit a table of half the size, more of which the cache of a core holds."""


def group_range(numbers: Integers, size: int) -> tuple[Integers, Integers]:
    """Return groups of rows by small numbers.

    Parameters
    ----------
    numbers
        int64, shape ``(rows,)``, in ``[0, size)``.
    size
        Cells of the table.

    Returns
    -------
    codes, first_row : numpy.ndarray
        The group of each row, int64, and the first row of each group, int64, ascending.
    """
    codes = np.empty(len(numbers), np.int64)
    first_row = np.empty(min(size, len(numbers)), np.int64)
    table = np.full(size, -1, np.int32 if len(first_row) <= _MOST_IN_32_BITS else np.int64)
    groups = number_groups(np.ascontiguousarray(numbers), table, codes, first_row)
    return codes, first_row[:groups].copy()


def group_words(words: Integers) -> tuple[Integers, Integers]:
    """Return groups of rows by any 64-bit patterns; all else as for :func:`group_range`."""
    numbers = WordNumbers(words)
    return group_range(numbers.codes, len(numbers))


@kernel(
    "numbers: i64[rows], table: mut T[cells], codes: mut i64[rows], first_row: mut i64[most] "
    "-> i64",
    T="i32 i64",
)
def number_groups(numbers: Any, table: Any, codes: Any, first_row: Any) -> int:
    """Write the group of each row and the first row of each group; return how many there are.

    The table holds the group of each number, and nothing but −1 before.
    """
    groups = 0
    for row in range(len(numbers)):
        cell = np.uint64(numbers[row])
        group = np.int64(table[cell])
        if group < 0:
            group = np.int64(groups)
            table[cell] = groups
            first_row[groups] = row
            groups += 1
        codes[row] = group
    return groups


_WORD_BYTES = 8
_LEAST_SLOTS = 1 << 13

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_HASH, _GROUP = 0, 1
_START, _LENGTH = 0, 1


@dataclass(frozen=True, eq=False)
class Texts:
    """Rows of text, or of bytes, in one buffer.

    Attributes
    ----------
    data
        uint8.
    offsets
        int32 or int64, shape ``(rows + 1,)``: where each text begins, and the last one ends.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def group_texts(chunks: Sequence[Texts]) -> tuple[Integers, int]:
    """Return the group of each row of all chunks, int64, and how many groups there are."""
    rows = sum(map(len, chunks))
    codes = np.empty(rows, np.int64)
    table = np.zeros((_LEAST_SLOTS, 2), np.int64)
    held, extents = np.empty(_LEAST_SLOTS, np.uint64), np.zeros((1, 2), np.int64)
    groups = np.zeros(1, np.int64)
    first = 0
    for chunk in itertools.chain.from_iterable(map(_readable, chunks)):
        own = codes[first : first + len(chunk)]
        first += len(own)
        data, offsets = np.ascontiguousarray(chunk.data), np.ascontiguousarray(chunk.offsets)
        row = 0
        while row < len(own):
            if len(extents) <= len(table) // 2:
                extents = np.append(extents, np.zeros((len(table), 2), np.int64), axis=0)
            row = assign_groups(data, offsets, own, table, held, extents, groups, row)
            if 2 * int(groups[0]) >= len(table):
                table, smaller = np.zeros((4 * len(table), 2), np.int64), table
                move_texts(smaller, table)
            elif row < len(own):
                # Room for what is held so far once more, and for the text that found none.
                length = int(offsets[row + 1] - offsets[row])
                more = len(held) + length // _WORD_BYTES + 1
                held = np.append(held, np.empty(more, np.uint64))
    return codes, int(groups[0])


def _readable(chunk: Texts) -> Iterator[Texts]:
    """Cut a chunk so that eight bytes can be read from any place of a text, by copying its end."""
    starts, ends = chunk.offsets[:-1], chunk.offsets[1:]
    within = np.searchsorted(ends, len(chunk.data) - _WORD_BYTES, side="right")
    row = int(within) if len(chunk.data) >= _WORD_BYTES else 0
    if row:
        yield Texts(chunk.data, chunk.offsets[: row + 1])
    if row < len(chunk):
        place = int(starts[row])
        end = np.concatenate([chunk.data[place:], np.zeros(_WORD_BYTES, np.uint8)])
        yield Texts(end, chunk.offsets[row:] - place)


@inner
def text_hash(words: Any, place: Any, left: Any) -> Any:
    """Return the hash of so many bytes from a place on, and the last of their words."""
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
    return mixed ^ (mixed >> _HALF), last


@kernel("table: i64[slots, 2], grown: mut i64[more, 2]")
def move_texts(table: Any, grown: Any) -> None:
    """Put all that is in a table into a larger one, of zeros."""
    mask = np.uint64(len(grown) - 1)
    for place in range(len(table)):
        if table[place, _GROUP] == 0:
            continue
        slot = np.uint64(table[place, _HASH]) & mask
        while grown[slot, _GROUP] != 0:
            slot = (slot + _ONE) & mask
        grown[slot, _HASH] = table[place, _HASH]
        grown[slot, _GROUP] = table[place, _GROUP]


@kernel(
    "data: u8[bytes], offsets: O[edges], codes: mut i64[rows], table: mut i64[slots, 2], "
    "held: mut u64[words], extents: mut i64[most, 2], groups: mut i64[1], row: i64 -> i64",
    O="i32 i64",
)
def assign_groups(
    data: Any, offsets: Any, codes: Any, table: Any, held: Any, extents: Any, groups: Any, row: int
) -> int:
    """Write the group of rows from ``row`` on; return the row that found no room.

    From each place of a text eight bytes can be read. The texts of groups stand in ``held``, eight
    bytes a number, filled up with zeros; ``extents`` has the start and the length of each, and
    ``groups`` how many there are.
    """
    words = words_of(data)
    mask = np.uint64(len(table) - 1)
    most = min(len(table) // 2, len(extents) - 1)
    count = groups[0]
    for at in range(row, len(codes)):
        start = np.uint64(offsets[at])
        length = np.uint64(offsets[at + 1]) - start
        mixed, last = text_hash(words, start, length)
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
            spot = np.uint64(extents[count, _START])
            if count == most or spot + length // _EIGHT + _ONE > np.uint64(len(held)):
                groups[0] = count
                return at
            group = count
            table[slot, _HASH] = key
            table[slot, _GROUP] = count + 1
            extents[count, _LENGTH] = np.int64(length)
            place, left = start, length
            while left > _EIGHT:
                held[spot] = words[place]
                place += _EIGHT
                left -= _EIGHT
                spot += _ONE
            held[spot] = last
            count += 1
            extents[count, _START] = np.int64(spot + _ONE)
        codes[at] = group
    groups[0] = count
    return len(codes)

"""Rows numbered by a key, in order of first appearance.

A key is one 64-bit number a row; who has several columns makes one number of them first. Where the
numbers lie in a range that is not much wider than rows are many, a number's group stands in a table
at the place of the number. Otherwise it is looked for in the hash table of
:class:`~tessel.kernels.word_numbers.WordNumbers`.

Texts are looked for in a hash table of open addressing. Each text that is new is copied beside the
table, so that chunks of rows, each with a buffer of its own, share one table.

The hash is fixed and without a seed, and decides nothing but where a text is looked for: over the
words of eight bytes of a text, little-endian, the last one filled up with zeros, from ``h`` its
length in bytes, ``h = (h ^ word) * 0x9E3779B97F4A7C15`` and ``h = h ^ (h >> 32)``, modulo 2**64.

The rows of each group are brought side by side by a stable sort by small numbers, which counts
them; numbers are written to the places of their groups, one by one or as lists. Groups lie side by
side in what is written, and each has a place that moves on. Nothing is written twice, and no order
of rows is made on the way: memory that was never touched costs more than work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.word_numbers import WordNumbers, expected_distinct
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
    words = sum(int(each.offsets[-1] - each.offsets[0]) // _WORD_BYTES for each in chunks) + rows
    codes = np.empty(rows, np.int64)
    table = np.zeros((_LEAST_SLOTS, 2), np.int64)
    # Room for texts that all differ: the system gives what is written to, and no more.
    held, extents = np.empty(words, np.uint64), np.zeros((rows + 2, 2), np.int64)
    groups = np.zeros(1, np.int64)
    first = 0
    for chunk in itertools.chain.from_iterable(map(_readable, chunks)):
        own = codes[first : first + len(chunk)]
        data, offsets = np.ascontiguousarray(chunk.data), np.ascontiguousarray(chunk.offsets)
        row = 0
        while row < len(own):
            row = assign_groups(data, offsets, own, table, held, extents, groups, row)
            if row < len(own):
                # As many as there will be, if they go on to come as they did.
                expected = expected_distinct(first + row, int(groups[0]), rows)
                slots = max(4 * len(table), 1 << math.ceil(2 * expected).bit_length())
                table, smaller = np.zeros((slots, 2), np.int64), table
                move_texts(smaller, table)
        first += len(own)
    return codes, int(groups[0])


def _readable(chunk: Texts) -> Iterator[Texts]:
    """Cut a chunk so that eight bytes can be read from any place of a text, by copying its end."""
    starts, ends = chunk.offsets[:-1], chunk.offsets[1:]
    # A number of another type would have numpy copy all ends.
    last = min(len(chunk.data) - _WORD_BYTES, np.iinfo(ends.dtype).max)
    row = int(np.searchsorted(ends, ends.dtype.type(last), side="right")) if last >= 0 else 0
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


_MOST_COUNTED = 1 << 15


def rows_by_code(codes: Integers, count: int) -> tuple[Integers, Integers]:
    """Return the rows that have each of some numbers, those of 0 first.

    Parameters
    ----------
    codes
        int64, shape ``(rows,)``, in ``[-1, count)``; rows of −1 are left out.
    count
        How many numbers there are.

    Returns
    -------
    rows : numpy.ndarray
        int64; those of one number in their order.
    starts : numpy.ndarray
        int64, shape ``(count + 1,)``: where in ``rows`` those of each number start, and the end.
    """
    starts, codes = np.zeros(count + 1, np.int64), np.ascontiguousarray(codes)
    count_codes(codes, starts)
    rows = np.empty(starts[-1], np.int64)
    place_rows(codes, starts[:-1].copy(), rows)
    return rows, starts


def order_of_codes(codes: NDArray[Any], count: int) -> Integers:
    """Return the stable order of numbers in ``[0, count)``."""
    if count <= max(_MOST_COUNTED, 2 * len(codes)):
        return rows_by_code(codes.astype(np.int64, copy=False), count)[0]
    return np.argsort(codes, kind="stable")


def rows_of_runs(
    firsts: Integers, lasts: Integers, order: Integers | None = None, start: int = 0
) -> Integers:
    """Return the rows of runs, one run after another.

    Parameters
    ----------
    firsts, lasts
        int64, of one shape: a run is the numbers ``[first, last)``; the runs of one line follow
        one another.
    order
        int64: what stands for the numbers from ``start`` on, counted from there; of a run it
        stands for all numbers or none. By default numbers stand for themselves.

    Returns
    -------
    numpy.ndarray
        int64.
    """
    found = np.empty(int((lasts - firsts).sum()), np.int64)
    order = np.zeros(0, np.int64) if order is None else order
    write_runs(firsts.ravel(), lasts.ravel(), np.ascontiguousarray(order), start, found)
    return found


@kernel("codes: i64[rows], starts: mut i64[ends]")
def count_codes(codes: Any, starts: Any) -> None:
    """Turn zeros, one more than there are numbers, into where the rows of each number start."""
    for code in codes:
        if code >= 0:
            starts[code + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]


@kernel("codes: i64[rows], places: mut i64[numbers], found: mut i64[found]")
def place_rows(codes: Any, places: Any, found: Any) -> None:
    """Write each row to the place of its number, which moves on."""
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            found[places[code]] = row
            places[code] += 1


@kernel("firsts: i64[runs], lasts: i64[runs], order: i64[rows], start: i64, found: mut i64[found]")
def write_runs(firsts: Any, lasts: Any, order: Any, start: Any, found: Any) -> None:
    """Write the numbers of runs, those from ``start`` on looked up in ``order``."""
    at, stop = np.int64(0), start + len(order)
    for run in range(len(firsts)):
        first, last = firsts[run], lasts[run]
        if start <= first < stop:
            for place in range(first - start, last - start):
                found[at] = order[place] + start
                at += 1
        else:
            for row in range(first, last):
                found[at] = row
                at += 1


@kernel("numbers: i64[rows], codes: i64[rows], places: mut i64[groups], found: mut i64[found]")
def place_numbers(numbers: Any, codes: Any, places: Any, found: Any) -> None:
    """Write each number to the place of its group."""
    if not len(found) or not len(places):
        return
    # Groups may be what a file says: they are never trusted as places.
    last_group, last_place = len(places) - 1, len(found) - 1
    for row in range(len(numbers)):
        group = np.uint64(min(np.uint64(codes[row]), np.uint64(last_group)))
        place = min(np.uint64(places[group]), np.uint64(last_place))
        found[place] = numbers[row]
        places[group] += 1


@kernel(
    "numbers: i64[numbers], starts: i64[lists], lengths: i64[lists], owners: i64[lists], "
    "places: mut i64[groups], found: mut i64[found]"
)
def place_lists(
    numbers: Any, starts: Any, lengths: Any, owners: Any, places: Any, found: Any
) -> None:
    """Write the numbers of each list to the place of its group; groups and lists fit."""
    for row in range(len(starts)):
        group = np.uint64(owners[row])
        source, target = np.uint64(starts[row]), np.uint64(places[group])
        length = np.uint64(lengths[row])
        for place in range(length):
            found[target + place] = numbers[source + place]
        places[group] += lengths[row]

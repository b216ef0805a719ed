"""Rows numbered by a key, in order of first appearance.

A key is one 64-bit number a row; who has several columns makes one number of them first. Where the
range of numbers is not much wider than rows are many, a table has a place for each. Otherwise it is
looked for in the hash table of :class:`~tessel.kernels.word_numbers.WordNumbers`, where that fits a
cache. More words than that are partitioned by their hash, so that the table of each part does
(Manegold, Boncz, Kersten, Optimizing Main-Memory Join on Modern Hardware, TKDE 2002).

The number of a text is its hash, by which rows are grouped; then each row is compared with the
first of its group. The hash is fixed and without a seed: texts may be made so that two have one,
and are looked up in a dictionary of Python then.

The rows of each group are brought side by side by a stable sort by small numbers, which counts
them; numbers are written to the places of their groups, one by one or as lists. Groups lie side by
side in what is written, and each has a place that moves on. Nothing is written twice, and no order
of rows is made on the way: memory that was never touched costs more than work.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.word_numbers import (
    SAMPLED_WORDS,
    WordNumbers,
    expected_words,
    hash_texts,
    text_word,
    word_slot,
)
from tessel.lazy import dataclass
from tessel.memory import recycled

Integers = NDArray[np.int64]

_MOST_IN_32_BITS = 1 << 31
"""Groups whose numbers fit a table of half the size, more of which the cache of a core holds."""

_CACHED_WORDS = 1 << 16
"""A table of more words is larger than the cache of a core: then parts of them have their own."""
_WORDS_OF_PART, _MOST_PART_BITS = 1 << 13, 8

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_WORD, _ROW = 0, 1


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
    codes = recycled(len(numbers), np.int64)
    first_row = recycled(min(size, len(numbers)), np.int64)
    table = recycled(size, np.int32 if len(first_row) <= _MOST_IN_32_BITS else np.int64, fill=-1)
    groups = number_groups(np.ascontiguousarray(numbers), table, codes, first_row)
    return codes, first_row[:groups].copy()


def group_words(words: Integers) -> tuple[Integers, Integers]:
    """Return groups of rows by any 64-bit patterns; all else as for :func:`group_range`."""
    words, rows = np.ascontiguousarray(words), len(words)
    if rows > _CACHED_WORDS:
        expected = int(expected_words(words[:: rows // SAMPLED_WORDS], rows))
        if expected > _CACHED_WORDS:
            return _group_by_parts(words, expected)
    numbers = WordNumbers(words)
    first_row = recycled(len(numbers), np.int64)
    write_first_rows(numbers.codes, first_row)
    return numbers.codes, first_row


def _group_by_parts(words: Integers, expected: int) -> tuple[Integers, Integers]:
    """Group rows by words of which so many are expected to be distinct."""
    bits = min(_MOST_PART_BITS, (expected // _WORDS_OF_PART).bit_length())
    starts, pairs = recycled((1 << bits) + 1, np.int64, fill=0), recycled((len(words), 2), np.int64)
    part_words(words, 64 - bits, starts, starts[:-1].copy(), pairs)
    codes, first_row = recycled(len(words), np.int64), recycled(len(words), np.int64)
    slot_bits, part = (2 * expected >> bits).bit_length(), 0
    while part < 1 << bits:
        table, shift = recycled((1 << slot_bits, 2), np.int64), 64 - bits - slot_bits
        part = find_first_rows(pairs, starts, shift, table, codes, part)
        slot_bits += 2
    groups = number_first_rows(codes, first_row)
    return codes, first_row[:groups].copy()


@kernel(
    "words: i64[rows], shift: u64, starts: mut i64[ends], places: mut i64[parts], "
    "pairs: mut i64[rows, 2]"
)
def part_words(words: Any, shift: Any, starts: Any, places: Any, pairs: Any) -> None:
    """Write each word with its row to the part of its hash, and where parts start to zeros."""
    for row in range(len(words)):
        starts[word_slot(words[row], shift) + _ONE] += 1
    for part in range(len(places)):
        starts[part + 1] += starts[part]
        places[part] = starts[part]
    for row in range(len(words)):
        part = word_slot(words[row], shift)
        place = np.uint64(places[part])
        pairs[place, _WORD] = words[row]
        pairs[place, _ROW] = row
        places[part] += 1


@kernel(
    "pairs: i64[rows, 2], starts: i64[ends], shift: u64, table: mut i64[slots, 2], "
    "first: mut i64[rows], part: i64 -> i64"
)
def find_first_rows(pairs: Any, starts: Any, shift: Any, table: Any, first: Any, part: int) -> int:
    """Write the first row that has each row's word, from a part on.

    Return the first part that has more words than the table takes, or how many parts there are.
    """
    mask, most = np.uint64(len(table) - 1), 3 * len(table) // 4
    for own in range(part, len(starts) - 1):
        for slot in range(len(table)):
            table[slot, _ROW] = -1
        count = 0
        for at in range(np.uint64(starts[own]), np.uint64(starts[own + 1])):
            word = pairs[at, _WORD]
            slot = word_slot(word, shift) & mask
            while table[slot, _ROW] >= 0 and table[slot, _WORD] != word:
                slot = (slot + _ONE) & mask
            if table[slot, _ROW] < 0:
                if count == most:
                    return own
                count += 1
                table[slot, _WORD] = word
                table[slot, _ROW] = pairs[at, _ROW]
            first[np.uint64(pairs[at, _ROW])] = table[slot, _ROW]
    return len(starts) - 1


@kernel("codes: i64[rows], first_row: mut i64[groups]")
def write_first_rows(codes: Any, first_row: Any) -> None:
    """Write the first row of each group, where groups are numbered by first appearance."""
    group = row = 0
    while group < len(first_row) and row < len(codes):
        if codes[row] == group:
            first_row[group] = row
            group += 1
        row += 1


@kernel("codes: mut i64[rows], first_row: mut i64[most] -> i64")
def number_first_rows(codes: Any, first_row: Any) -> int:
    """Turn the first row of each row's group into the number of the group; return how many."""
    groups = 0
    for row in range(len(codes)):
        first = np.uint64(codes[row])
        if first == np.uint64(row):
            codes[row] = groups
            first_row[groups] = row
            groups += 1
        else:
            codes[row] = codes[first]
    return groups


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


def group_texts(chunks: Sequence[Texts]) -> tuple[Integers, Integers]:
    """Return groups of the rows of all chunks; all else as for :func:`group_range`."""
    data, offsets = _in_one_buffer(chunks)
    hash_texts(data, offsets, hashes := recycled(len(offsets) - 1, np.uint64))
    codes, first_row = group_words(hashes.view(np.int64))
    if are_first_texts(data, offsets, codes, first_row):
        return codes, first_row
    # Different texts have one hash, which nobody meets by chance.
    numbers: dict[bytes, int] = {}
    rows = (data[start:stop].tobytes() for start, stop in itertools.pairwise(offsets.tolist()))
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in rows])
    return group_range(codes, len(numbers))


def _in_one_buffer(chunks: Sequence[Texts]) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the bytes of all chunks, and the offsets of their texts in them."""
    if len(chunks) == 1:
        return np.ascontiguousarray(chunks[0].data), np.ascontiguousarray(chunks[0].offsets)
    edges = [(int(each.offsets[0]), int(each.offsets[-1])) for each in chunks]
    ends = np.cumsum([0, *(stop - start for start, stop in edges)])
    parts = [each.data[start:stop] for each, (start, stop) in zip(chunks, edges, strict=True)]
    offsets = [
        each.offsets[:-1] + (end - start)
        for each, end, (start, _) in zip(chunks, ends, edges, strict=False)
    ]
    return np.concatenate([*parts, np.zeros(0, np.uint8)]), np.concatenate([*offsets, ends[-1:]])


@kernel(
    "data: u8[bytes], offsets: O[edges], codes: i64[rows], first_row: i64[groups] -> i64",
    O="i32 i64",
)
def are_first_texts(data: Any, offsets: Any, codes: Any, first_row: Any) -> Any:
    """Return whether each row has the text of the first row of its group."""
    words = words_of(data)
    for row in range(len(codes)):
        first = np.uint64(first_row[codes[row]])
        place, other = np.uint64(offsets[row]), np.uint64(offsets[first])
        left = np.uint64(offsets[row + 1]) - place
        if first == np.uint64(row):
            continue
        differing = left ^ (np.uint64(offsets[first + _ONE]) - other)
        if differing != _ZERO:
            return 0
        while left >= _EIGHT:
            differing |= words[place] ^ words[other]
            place += _EIGHT
            other += _EIGHT
            left -= _EIGHT
        if left > _ZERO:
            last = text_word(data, words, place, left)
            differing |= last ^ text_word(data, words, other, left)
        if differing != _ZERO:
            return 0
    return 1


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
    starts, codes = recycled(count + 1, np.int64, fill=0), np.ascontiguousarray(codes)
    count_codes(codes, starts)
    rows = recycled(starts[-1], np.int64)
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
    found = recycled(int((lasts - firsts).sum()), np.int64)
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

"""Numbers for the distinct words of a column, and the number of a word that is asked for.

A *word* is any value of 64 bits that is equal to another exactly where their bits are: an integer
of any width, an instant, a float without NaN and −0.0. Words that lie close together are found in a
table of their range, all others in a hash table with linear probing (Knuth, The Art of Computer
Programming, volume 3, section 6.4, algorithm L), at most half full.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["WordNumbers"]

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

_CELLS_A_WORD = 4
_CELLS = 1 << 16
_LEAST_BITS = 12
_MORE_BITS = 2
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NONE_ABSENT = np.zeros(0, np.bool_)


class WordNumbers:
    """Distinct words, numbered from 0 on by first appearance.

    Parameters
    ----------
    words
        int64, shape ``(rows,)``.
    absent
        Bool, shape ``(rows,)``: rows that have no word; None where all have one.

    Attributes
    ----------
    codes
        int64, shape ``(rows,)``: the number of each row's word, −1 where it has none.
    """

    def __init__(self, words: Integers, absent: Truths | None = None) -> None:
        present = words if absent is None else words[~absent]
        low, high = (int(present.min()), int(present.max())) if len(present) else (0, -1)
        self._low = low
        self._count = 0
        self._in_range = high - low < max(_CELLS, _CELLS_A_WORD * len(present))
        missing = _NONE_ABSENT if absent is None else absent
        if self._in_range:
            # The number of each word of the range, −1 for those that do not occur.
            self._table = np.full(high - low + 1, -1, np.int64)
        self.codes = np.empty(len(words), np.int64)
        kernels = compiled_kernels(len(words), "word_numbers")
        if self._in_range:
            number = _number_in_range_numpy if kernels is None else kernels.number_in_range
            held = frozen(words), frozen(missing)
            self._count = int(number(*held, np.int64(low), self._table, self.codes))
            return
        if kernels is None:
            self._use_slots(len(present).bit_length() + 1)
            self._count = _number_in_slots_numpy(
                words, missing, self._shift, self._table, self.codes
            )
            return
        self._use_slots(_LEAST_BITS)
        row = 0
        while True:
            row, self._count = kernels.number_in_slots(
                frozen(words), frozen(missing), self._shift, self._table, self.codes,
                row, self._count,
            )  # fmt: skip
            if row == len(words):
                return
            table = self._table
            self._use_slots(len(table).bit_length() - 1 + _MORE_BITS)
            kernels.move_slots(table, self._shift, self._table)

    def _use_slots(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        # A word and its number in each slot; −1 in the place of a number says that it is free.
        self._table = np.full((1 << bits, 2), -1, np.int64)

    def __len__(self) -> int:
        return self._count

    def find(self, words: Integers, absent: Truths | None = None) -> Integers:
        """Return the number of each word, −1 where it is none of these, or absent."""
        codes = np.empty(len(words), np.int64)
        kernels = compiled_kernels(len(words), "word_numbers")
        missing = _NONE_ABSENT if absent is None else absent
        held = frozen(words), frozen(missing)
        if self._in_range:
            find = _find_in_range_numpy if kernels is None else kernels.find_in_range
            find(*held, np.int64(self._low), self._table, codes)
        else:
            search = _find_in_slots_numpy if kernels is None else kernels.find_in_slots
            search(*held, self._shift, self._table, codes)
        return codes


def _number_in_range_numpy(
    words: Integers, absent: Truths, low: np.int64, table: Integers, codes: Integers
) -> int:
    rows = np.flatnonzero(~absent) if len(absent) else np.arange(len(words))
    places = words[rows] - low
    # Of an index that occurs twice numpy keeps the last value: here the first row.
    table[places[::-1]] = rows[::-1]
    owners = np.full(len(words), -1, np.int64)
    owners[rows] = table[places]
    return _number_owners(owners, table, codes)


def _number_owners(owners: Integers, table: Integers, codes: Integers) -> int:
    """Turn the rows that own words, those where each appears first, into numbers of the words."""
    first = owners == np.arange(len(owners))
    numbers = np.append(np.cumsum(first) - 1, -1)  # row −1 finds the last: no number
    codes[:] = numbers[owners]
    table[:] = numbers[table]
    return int(np.count_nonzero(first))


def _find_in_range_numpy(
    words: Integers, absent: Truths, low: np.int64, table: Integers, codes: Integers
) -> None:
    # Differences wrap around; those of words below the range are large then.
    places = words.view(np.uint64) - low.astype(np.uint64)
    inside = places < np.uint64(len(table))
    if len(absent):
        inside &= ~absent
    codes.fill(-1)
    codes[inside] = table[places[inside].view(np.int64)]


def _slots(words: Integers, shift: np.uint64) -> Integers:
    bits = words.view(np.uint64)
    slots: Integers = (((bits ^ (bits >> _HALF)) * _FACTOR) >> shift).view(np.int64)
    return slots


def _number_in_slots_numpy(
    words: Integers, absent: Truths, shift: np.uint64, table: Integers, codes: Integers
) -> int:
    """Put words into slots, all at once: of those that want a free one the first row gets it."""
    rows = np.flatnonzero(~absent) if len(absent) else np.arange(len(words))
    slots = _slots(words[rows], shift)
    owners = np.full(len(words), -1, np.int64)
    while len(rows):
        free = table[slots, 1] < 0
        # Of an index that occurs twice numpy keeps the last value: here the first row.
        table[slots[free][::-1], 1] = rows[free][::-1]
        table[slots, 0] = words[table[slots, 1]]
        same = table[slots, 0] == words[rows]
        owners[rows[same]] = table[slots[same], 1]
        rows, slots = rows[~same], (slots[~same] + 1) & (len(table) - 1)
    return _number_owners(owners, table[:, 1], codes)


def _find_in_slots_numpy(
    words: Integers, absent: Truths, shift: np.uint64, table: Integers, codes: Integers
) -> None:
    codes.fill(-1)
    rows = np.flatnonzero(~absent) if len(absent) else np.arange(len(words))
    wanted = words[rows]
    slots = _slots(wanted, shift)
    while len(rows):
        numbers = table[slots, 1]
        same = (table[slots, 0] == wanted) & (numbers >= 0)
        codes[rows[same]] = numbers[same]
        further = (numbers >= 0) & ~same
        rows, wanted = rows[further], wanted[further]
        slots = (slots[further] + 1) & (len(table) - 1)

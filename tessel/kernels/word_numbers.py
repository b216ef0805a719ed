"""The hash of words of 64 bits; :mod:`tessel.clauses.grouped.hashing` says which, to the bit.

Numbers for the distinct words of a column, and the number of a word that is asked for.

A *word* is any value of 64 bits that is equal to another exactly where their bits are: an integer
of any width, an instant, a float without NaN and −0.0. Words that lie close together are found in a
table of their range, all others in a hash table with linear probing (Knuth, The Art of Computer
Programming, volume 3, section 6.4, algorithm L), at most half full.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import words_of
from tessel.memory import recycled

_INCREMENT = _FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FIRST_SHIFT, _SECOND_SHIFT, _LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)
_ZERO, _ONE, _EIGHT, _HALF, _ALL = (np.uint64(bits) for bits in (0, 1, 8, 32, (1 << 64) - 1))


@inner
def mixed_word(word: Any) -> Any:
    """Return the hash of a word."""
    word += _INCREMENT
    word = (word ^ (word >> _FIRST_SHIFT)) * _FIRST_FACTOR
    word = (word ^ (word >> _SECOND_SHIFT)) * _SECOND_FACTOR
    return word ^ (word >> _LAST_SHIFT)


@kernel("words: u64[rows], mixed: mut u64[rows]")
def mix_words(words: Any, mixed: Any) -> None:
    """Write the hash of each word."""
    for row in range(len(words)):
        mixed[row] = mixed_word(words[row])


@inner
def text_word(data: Any, words: Any, place: Any, left: Any) -> Any:
    """Return eight bytes of a text as a word; bytes past the end of the text are zeros.

    ``words`` are those of ``data``, whose last seven bytes begin none, and ``left`` is how many
    bytes the text has from there, one at least.
    """
    word = words[place] if place < np.uint64(len(words)) else np.uint64(0)
    if place >= np.uint64(len(words)):
        for at in range(len(data) - np.int64(place)):
            word |= np.uint64(data[place + np.uint64(at)]) << np.uint64(8 * at)
    return word if left >= _EIGHT else word & (_ALL >> ((_EIGHT - left) * _EIGHT))


@kernel("data: u8[bytes], offsets: O[ends], hashes: mut u64[rows]", O="i32 i64")
def hash_texts(data: Any, offsets: Any, hashes: Any) -> None:
    """Write the hash of each text, of its length and of its words in their places."""
    words = words_of(data)
    for row in range(len(hashes)):
        place = np.uint64(offsets[row])
        left = np.uint64(offsets[row + 1]) - place
        mixed, salt = left, _INCREMENT
        while left > _ZERO:
            mixed += mixed_word(text_word(data, words, place, left) + salt)
            salt += _INCREMENT
            place += _EIGHT
            left = left - _EIGHT if left > _EIGHT else _ZERO
        hashes[row] = mixed_word(mixed)


Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

_CELLS_A_WORD = 4
_CELLS = 1 << 16
_ROOMY, _ROOMY_CELLS = 32, 1 << 19
"""A table of a range of so many cells a word, and at most so many, is made: 20,000 words of a range
of 400,000 are found in half of the time that a hash table takes."""
_LEAST_BITS = 12
_CACHED_BITS = 12
"""Tables of up to so many slots are at most an eighth full: a taken slot that holds another word is
a branch that nobody foresees, and takes longer than a word that is not in the cache next to it."""
_MORE_BITS = 2
_WORD, _NUMBER = 0, 1
_NONE_ABSENT = np.zeros(0, np.bool_)


REPEATS = 2
"""Values that occur so often on the average are kept once, with how often they occur."""

SAMPLED_WORDS = 1 << 12  # of all words: by so many it is foretold how many differ
_MIX = -0x61C8864680B583EB
"""What numbers are multiplied by before groups are mixed in (Fibonacci hashing)."""


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
        roomy = min(_ROOMY * len(present), _ROOMY_CELLS)
        self._in_range = high - low < max(_CELLS, _CELLS_A_WORD * len(present), roomy)
        held, missing = _contiguous(words, absent)
        self.codes = recycled(len(words), np.int64)
        if self._in_range:
            # The number of each word of the range, −1 for those that do not occur.
            self._table = recycled(high - low + 1, np.int64, fill=-1)
            self._count = int(number_in_range(held, missing, low, self._table, self.codes))
            return
        self._table, self._shift, self._count = _numbered(held, missing, self.codes, _LEAST_BITS)

    def __len__(self) -> int:
        return self._count

    def find(self, words: Integers, absent: Truths | None = None) -> Integers:
        """Return the number of each word, −1 where it is none of these, or absent."""
        codes = recycled(len(words), np.int64)
        held, missing = _contiguous(words, absent)
        if self._in_range:
            find_in_range(held, missing, self._low, self._table, codes)
        else:
            find_in_slots(held, missing, self._shift, self._table, codes)
        return codes


def expected_distinct(sampled: int, found: int, rows: int) -> float:
    """Return how many distinct values so many rows have, judging by those that a sample has.

    As if each row took one of a number of values by chance: ``found = n (1 - exp(-sampled / n))``.
    Rows whose values come in runs have fewer than that for their number, in a sample as well.
    """
    if found >= sampled:
        return rows
    low, high = float(found), float(sampled) * sampled
    while high - low > 0.01 * low:
        middle = math.sqrt(low * high)
        if -middle * math.expm1(-sampled / middle) < found:
            low = middle
        else:
            high = middle
    return -high * math.expm1(-rows / high)


def expected_words(sampled: Integers, rows: int) -> float:
    """Return how many distinct words so many rows have, judging by those of some of them."""
    ordered = np.sort(sampled)
    found = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    return expected_distinct(len(ordered), found, rows)


def may_repeat(numbers: Integers, starts: Integers) -> bool:
    """Return whether numbers repeat within groups so often that they are worth sorting for it."""
    rows = len(numbers)
    step = rows // SAMPLED_WORDS
    if step < 2:
        return True
    sampled = np.arange(0, rows, step)
    groups = np.searchsorted(starts, sampled, side="right")
    return expected_words(numbers[sampled] * np.int64(_MIX) ^ groups, rows) * REPEATS <= rows


def words_of_runs(
    words: Integers, starts: Integers, *, counted: bool = False
) -> tuple[Integers, Integers | None, Integers]:
    """Return the different words of each run.

    Parameters
    ----------
    words
        int64, the runs one after another.
    starts
        int64, shape ``(runs + 1,)``: where each begins, and the end.
    counted
        Whether to say how often each occurs; words are ascending then.

    Returns
    -------
    words, counts, starts : numpy.ndarray
        int64; ``counts`` is None where they are not asked for.
    """
    found, counts, ends = list[Integers](), list[Integers](), [0]
    for start, stop in itertools.pairwise(starts.tolist()):
        own = words[start:stop]
        numbers = WordNumbers(own)
        each = recycled(len(numbers), np.int64)
        each[numbers.codes] = own
        if counted:
            order = np.argsort(each)
            each = each[order]
            counts.append(np.bincount(numbers.codes, minlength=len(numbers))[order])
        found.append(each)
        ends.append(ends[-1] + len(each))
    return np.concatenate(found), np.concatenate(counts) if counted else None, np.array(ends)


def word_slots(words: Integers) -> tuple[Integers, int]:
    """Return the hash table of some words, for :func:`are_words` and :func:`numbers_of_words`.

    Parameters
    ----------
    words
        int64, each once.

    Returns
    -------
    slots : numpy.ndarray
        int64, shape ``(slots, 2)``: a word and its number, which is −1 where the slot is free.
    bits : int
        The logarithm of the number of slots to the base 2: at most half of them are taken.
    """
    roomy = min(_CACHED_BITS, (8 * len(words)).bit_length())
    bits = max(1, (2 * len(words) - 1).bit_length(), roomy)
    codes = recycled(len(words), np.int64)
    slots, _, _ = _numbered(*_contiguous(words, None), codes, bits)
    return slots, bits


def _numbered(
    words: Integers, absent: Truths, codes: Integers, bits: int
) -> tuple[Integers, int, int]:
    """Give words numbers in a hash table of at least ``2**bits`` slots, and write that of each.

    Returns
    -------
    slots : numpy.ndarray
        As of :func:`word_slots`.
    shift, count : int
        How far a hash is shifted to be a slot; and how many words there are.
    """
    table, count, row = _free_slots(bits), np.zeros(1, np.int64), 0
    while True:
        row = number_in_slots(words, absent, 64 - bits, table, codes, row, count)
        if row == len(words):
            return table, 64 - bits, int(count[0])
        # As many words as there will be, if they go on to come as they did.
        expected = expected_distinct(row, int(count[0]), len(words))
        bits = max(bits + _MORE_BITS, math.ceil(2 * expected).bit_length())
        table, full = _free_slots(bits), table
        move_slots(full, 64 - bits, table)


def _free_slots(bits: int) -> Integers:
    return recycled((1 << bits, 2), np.int64, fill=-1)


def _contiguous(words: Integers, absent: Truths | None) -> tuple[Integers, Truths]:
    missing = _NONE_ABSENT if absent is None else absent
    return np.ascontiguousarray(words), np.ascontiguousarray(missing)


@inner
def word_slot(word: int, shift: Any) -> Any:
    """Return the slot where a word is looked for first: bits of its hash above a place."""
    bits = np.uint64(word)
    return ((bits ^ (bits >> _HALF)) * _FACTOR) >> shift


@kernel("words: i64[rows], absent: bool[absent], low: i64, table: i64[cells], codes: mut i64[rows]")
def find_in_range(words: Any, absent: Any, low: int, table: Any, codes: Any) -> None:
    """Write the number of each word that lies in the range of a table; −1 for others."""
    size, least = np.uint64(len(table)), np.uint64(np.int64(low))
    for row in range(len(words)):
        place = np.uint64(words[row]) - least
        inside = place < size and not (len(absent) and absent[row])
        codes[row] = table[place] if inside else -1


@kernel(
    "words: i64[rows], absent: bool[absent], low: i64, table: mut i64[cells], "
    "codes: mut i64[rows] -> i64"
)
def number_in_range(words: Any, absent: Any, low: int, table: Any, codes: Any) -> Any:
    """Give each word of a range a number in its table of −1s; return how many there are.

    The number of each row's word is written.
    """
    count = 0
    for row in range(len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        place = np.uint64(words[row] - low)
        if table[place] < 0:
            table[place] = count
            count += 1
        codes[row] = table[place]
    return count


@kernel(
    "words: i64[rows], absent: bool[absent], shift: u64, table: mut i64[slots, 2], "
    "codes: mut i64[rows], start: i64, counts: mut i64[1] -> i64"
)
def number_in_slots(
    words: Any, absent: Any, shift: Any, table: Any, codes: Any, start: int, counts: Any
) -> Any:
    """Put each word from a row on into the table with a number, of which ``counts`` is the next.

    Return the row before which the table is half full.
    """
    mask = np.uint64(len(table) - 1)
    most, count = len(table) // 2, counts[0]
    for row in range(start, len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        slot = word_slot(words[row], shift)
        while table[slot, _NUMBER] >= 0 and table[slot, _WORD] != words[row]:
            slot = (slot + _ONE) & mask
        if table[slot, _NUMBER] < 0:
            if count >= most:
                counts[0] = count
                return row
            table[slot, _WORD] = words[row]
            table[slot, _NUMBER] = count
            count += 1
        codes[row] = table[slot, _NUMBER]
    counts[0] = count
    return len(words)


@kernel("table: i64[slots, 2], shift: u64, larger: mut i64[more, 2]")
def move_slots(table: Any, shift: Any, larger: Any) -> None:
    """Put all that is in a table into a larger one."""
    mask = np.uint64(len(larger) - 1)
    for old in range(len(table)):
        if table[old, _NUMBER] >= 0:
            slot = word_slot(table[old, _WORD], shift)
            while larger[slot, _NUMBER] >= 0:
                slot = (slot + _ONE) & mask
            larger[slot, _WORD] = table[old, _WORD]
            larger[slot, _NUMBER] = table[old, _NUMBER]


@kernel(
    "words: i64[rows], absent: bool[absent], shift: u64, table: i64[slots, 2], codes: mut i64[rows]"
)
def find_in_slots(words: Any, absent: Any, shift: Any, table: Any, codes: Any) -> None:
    """Write the number of each word that is in the table; −1 for others."""
    mask = np.uint64(len(table) - 1)
    for row in range(len(words)):
        codes[row] = -1
        if len(absent) and absent[row]:
            continue
        slot = word_slot(words[row], shift)
        while table[slot, _NUMBER] >= 0 and table[slot, _WORD] != words[row]:
            slot = (slot + _ONE) & mask
        codes[row] = table[slot, _NUMBER]


@inner
def _place_of_word(cells: Any, at: int, bits: int, word: int) -> Any:
    """Return where a word is, or the free slot that ends the search for it."""
    mask = (_ONE << np.uint64(bits)) - _ONE
    slot = word_slot(word, np.uint64(64) - np.uint64(bits))
    place = np.uint64(at) + slot + slot
    while cells[place + _ONE] >= 0 and cells[place] != word:
        slot = (slot + _ONE) & mask
        place = np.uint64(at) + slot + slot
    return place


@inner
def are_words(
    cells: Any, at: int, bits: int, words: Any, source: Any, truths: Any, out: Any, rows: Any
) -> None:
    """Write which words are in the table of ``2**bits`` slots that begins at ``cells[at]``."""
    for row in range(rows):
        place = _place_of_word(cells, at, bits, words[source + row])
        truths[out + row] = cells[place + _ONE] >= 0


@inner
def numbers_of_words(
    cells: Any, at: int, bits: int, words: Any, source: Any, numbers: Any, out: Any, rows: Any
) -> None:
    """Write the numbers of words in such a table; −1 of those that are not in it."""
    for row in range(rows):
        place = _place_of_word(cells, at, bits, words[source + row])
        numbers[out + row] = cells[place + _ONE]  # of a free slot that is −1

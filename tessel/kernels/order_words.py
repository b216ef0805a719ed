"""The stable order of 64-bit integers, by counting digits from the last to the first.

A word holds the leading bits of a number's distance from the least, and below them the number of
its row. Words are sorted digit by digit (a radix sort), which takes as long for any numbers; that
leaves rows of equal leading bits as they came, and those are put right by insertion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

Integers = NDArray[np.int64]

_WORD_BITS = 64
_DIGIT_BITS = 11
"""Digits of as many bits as the first cache has room for counts of."""

_LEADING_BITS = 4 * _DIGIT_BITS
"""What is looked at of numbers: enough that few rows, of numbers as they come, are equal in it."""


def order_of_integers(numbers: Integers) -> Integers:
    """Return the rows in the order of their numbers, equal ones as they come.

    Parameters
    ----------
    numbers
        int64, shape ``(rows,)``, one at least.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    least, row_bits = int(numbers.min()), len(numbers).bit_length()
    bits = (int(numbers.max()) - least).bit_length()
    most = min(_LEADING_BITS, _WORD_BITS - row_bits)
    shift = max(0, bits - most)
    words = _sorted_words(numbers, least, shift, bits - shift)
    order = np.empty(len(numbers), np.int64)
    if place_rows_of_words(words, row_bits, numbers if shift else numbers[:0], order):
        return order
    # Many rows are equal in their leading bits: ordered by the others first, they are in order.
    rest = np.bitwise_and(numbers - np.int64(least), (1 << shift) - 1)
    order = order_of_integers(rest)
    leading = (numbers - np.int64(least)).view(np.uint64) >> np.uint64(shift)
    return order[order_of_integers(leading.view(np.int64)[order])]


def _sorted_words(numbers: Integers, least: int, shift: int, bits: int) -> NDArray[np.uint64]:
    row_bits = len(numbers).bit_length()
    words, spare = np.empty((2, len(numbers)), np.uint64)
    write_words(numbers, least % (1 << _WORD_BITS), shift, row_bits, words)
    passes = -(-bits // _DIGIT_BITS)
    counts = np.zeros((passes, 1 << _DIGIT_BITS), np.uint64)
    moved = sort_by_digits(words, spare, counts, row_bits, -(-bits // max(1, passes)))
    return spare if moved % 2 else words


@kernel("numbers: i64[rows], least: u64, shift: i64, row_bits: i64, words: mut u64[rows]")
def write_words(numbers: Any, least: Any, shift: Any, row_bits: Any, words: Any) -> None:
    """Write the leading bits of distances from the least, and below them the rows."""
    low, dropped, raised = np.uint64(least), np.uint64(shift), np.uint64(row_bits)
    for row in range(len(numbers)):
        distance = np.uint64(numbers[row]) - low
        words[row] = (distance >> dropped) << raised | np.uint64(row)


@kernel(
    "words: mut u64[rows], spare: mut u64[rows], counts: mut u64[passes, cells], "
    "low: i64, width: i64 -> i64"
)
def sort_by_digits(words: Any, spare: Any, counts: Any, low: Any, width: Any) -> int:
    """Sort words by their digits of a width from a bit on; zeros, a row a digit, count them.

    Returns how often the words were moved from one array to the other.
    """
    mask = np.uint64((1 << width) - 1)
    first, wide = np.uint64(low), np.uint64(width)
    for row in range(len(words)):
        digits = words[row] >> first
        for number in range(len(counts)):
            counts[number, digits & mask] += np.uint64(1)
            digits >>= wide
    source, target = words, spare
    moved = 0
    shift = first
    for number in range(len(counts)):
        places = counts[number]
        if places[(words[0] >> shift) & mask] != np.uint64(len(words)):
            total = np.uint64(0)
            for cell in range(len(places)):
                count = places[cell]
                places[cell] = total
                total += count
            for row in range(len(words)):
                word = source[row]
                digit = (word >> shift) & mask
                target[places[digit]] = word
                places[digit] += np.uint64(1)
            source, target = target, source
            moved += 1
        shift += wide
    return moved


_MOST_MOVES = 4
"""So many moves a row, and rows of equal leading bits are ordered by their other bits instead."""


@kernel("words: u64[rows], row_bits: i64, numbers: i64[numbers], order: mut i64[rows] -> bool")
def place_rows_of_words(words: Any, row_bits: Any, numbers: Any, order: Any) -> bool:
    """Write the rows of sorted words; those of equal leading bits by their numbers, if there are.

    Returns false, and leaves rows as they are, where that takes too many moves.
    """
    low, mask = np.uint64(row_bits), np.uint64((1 << row_bits) - 1)
    if len(numbers) == 0:
        for place in range(len(words)):
            order[place] = np.int64(words[place] & mask)
        return True
    moves = _MOST_MOVES * len(words)
    last = np.uint64(len(numbers) - 1)
    begin, leading = np.uint64(0), ~words[0]
    for place in range(np.uint64(len(words))):
        spot = np.uint64(place)
        row = words[spot] & mask
        if words[spot] >> low != leading >> low:
            begin, leading = spot, words[spot]
        else:
            number = numbers[min(row, last)]
            while spot > begin:
                before = np.uint64(order[spot - np.uint64(1)])
                if numbers[min(before, last)] <= number:
                    break
                order[spot] = np.int64(before)
                spot -= np.uint64(1)
                moves -= 1
            if moves < 0:
                return False
        order[spot] = np.int64(row)
    return True

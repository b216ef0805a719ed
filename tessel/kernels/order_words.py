"""The stable order of 64-bit integers, by counting digits from the last to the first.

A word holds the leading bits of a number's distance from the least, and below them the number of
its row. Words are sorted digit by digit (a radix sort), which takes as long for any numbers; that
leaves rows of equal leading bits as they came, and those are put right by insertion.

Runs of numbers are sorted each by itself. Short runs are sorted by insertion; numpy's own sort,
which uses wide registers, takes those that are so long that calling it costs little.

Where some places of the order are asked for, nothing is sorted, by Hoare's selection (CACM 4, 1961,
algorithm 65). A run is cut in two by a number of its own, and the part that the place is in is cut
again, so that each number is looked at about three times. The cut has no branch that depends on
numbers, and positions of the three numbers of which it takes the middle one are drawn, so that no
usual order of the numbers is a bad one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.word_numbers import text_word
from tessel.memory import allocate, recycled

Integers = NDArray[np.int64]

_WORD_BITS = 64
_ZERO, _ONE, _EIGHT, _SIXTEEN, _HALF = (np.uint64(bits) for bits in (0, 1, 8, 16, 32))
_SIGN = np.uint64(1 << 63)
_ODD_BYTES, _ODD_PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
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
    span = int(numbers.max()) - least
    if span == len(numbers) - 1:  # ranks, maybe: each number may be there once
        order = recycled(len(numbers), np.int64, fill=-1)
        order[numbers - least] = np.arange(len(numbers))
        if order.min() >= 0:
            return order
    bits = span.bit_length()
    most = min(_LEADING_BITS, _WORD_BITS - row_bits)
    shift = max(0, bits - most)
    words = _sorted_words(numbers, least, shift, bits - shift)
    order = allocate(len(numbers), np.int64)
    if place_rows_of_words(words, row_bits, numbers if shift else numbers[:0], order):
        return order
    # Many rows are equal in their leading bits: ordered by the others first, they are in order.
    rest = np.bitwise_and(numbers - np.int64(least), (1 << shift) - 1)
    order = order_of_integers(rest)
    leading = (numbers - np.int64(least)).view(np.uint64) >> np.uint64(shift)
    return order[order_of_integers(leading.view(np.int64)[order])]


def _sorted_words(numbers: Integers, least: int, shift: int, bits: int) -> NDArray[np.uint64]:
    row_bits = len(numbers).bit_length()
    words: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    words, spare = allocate((2, len(numbers)), np.uint64)
    write_words(numbers, least % (1 << _WORD_BITS), shift, row_bits, words)
    passes = -(-bits // _DIGIT_BITS)
    counts = recycled((passes, 1 << _DIGIT_BITS), np.uint64, fill=0)
    moved = sort_by_digits(words, spare, counts, row_bits, -(-bits // max(1, passes)))
    return spare if moved % 2 else words


@kernel(
    "data: u8[bytes], offsets: O[ends], rows: i64[some], skip: i64, found: mut i64[some]",
    O="i32 i64",
)
def text_digits(data: Any, offsets: Any, rows: Any, skip: int, found: Any) -> None:
    """Write eight bytes of some texts, from a byte of each on, as numbers in the order of bytes.

    Bytes past the end of a text are zeros.
    """
    words = words_of(data)
    for at in range(len(rows)):
        row = np.uint64(rows[at])
        place = np.uint64(offsets[row]) + np.uint64(skip)
        end = np.uint64(offsets[row + _ONE])
        word = text_word(data, words, place, end - place) if place < end else _ZERO
        word = (word & _ODD_BYTES) << _EIGHT | (word >> _EIGHT) & _ODD_BYTES
        word = (word & _ODD_PAIRS) << _SIXTEEN | (word >> _SIXTEEN) & _ODD_PAIRS
        found[at] = np.int64((word << _HALF | word >> _HALF) ^ _SIGN)


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


_LONGEST = 16


def sort_runs(numbers: Integers, starts: Integers) -> None:
    """Sort runs of numbers in place.

    Parameters
    ----------
    numbers
        int64.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    sort_short_runs(numbers, np.ascontiguousarray(starts), _LONGEST)
    for run in np.flatnonzero(np.diff(starts) > _LONGEST).tolist():
        numbers[starts[run] : starts[run + 1]].sort()


@kernel("numbers: mut i64[rows], starts: i64[ends], longest: i64")
def sort_short_runs(numbers: Any, starts: Any, longest: Any) -> None:
    """Sort the runs that are not longer than ``longest``, in place, by insertion."""
    for run in range(len(starts) - 1):
        start, stop = starts[run], starts[run + 1]
        if stop - start > longest:
            continue
        for place in range(start + 1, stop):
            number = numbers[place]
            spot = place
            while spot > start and numbers[spot - 1] > number:
                numbers[spot] = numbers[spot - 1]
                spot -= 1
            numbers[spot] = number


def count_different(ordered: Integers, starts: Integers) -> Integers:
    """Return how many different numbers each run has, int64.

    Parameters
    ----------
    ordered
        int64, of each run equal ones side by side.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    counts = recycled(len(starts) - 1, np.int64)
    count_changes(np.ascontiguousarray(ordered), np.ascontiguousarray(starts), counts)
    return counts


def count_repeats(
    ordered: Integers, starts: Integers, counts: Integers
) -> tuple[Integers, Integers]:
    """Return the different numbers of each run, and how often each occurs.

    Parameters
    ----------
    ordered, starts, counts
        What :func:`count_different` takes, and what it gives.

    Returns
    -------
    numbers, times : numpy.ndarray
        int64, as many as there are different numbers, in their order.
    """
    numbers, times = recycled((2, int(counts.sum())), np.int64)
    write_repeats(np.ascontiguousarray(ordered), np.ascontiguousarray(starts), numbers, times)
    return numbers, times


@kernel("ordered: i64[rows], starts: i64[ends], counts: mut i64[runs]")
def count_changes(ordered: Any, starts: Any, counts: Any) -> None:
    """Count the numbers of each run that differ from the one before."""
    one = np.uint64(1)
    for run in range(len(counts)):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        count = np.int64(stop > start)
        for row in range(start + one, stop):
            count += ordered[row] != ordered[row - one]
        counts[run] = count


@kernel(
    "ordered: i64[rows], starts: i64[ends], numbers: mut i64[different], times: mut i64[different]"
)
def write_repeats(ordered: Any, starts: Any, numbers: Any, times: Any) -> None:
    """Write the different numbers of each run, and how often each occurs."""
    one = np.uint64(1)
    at = np.uint64(0)
    for run in range(len(starts) - 1):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        since = start
        for row in range(start, stop):
            # Written in any case, without a branch: the last of equal numbers stays.
            numbers[at] = ordered[row]
            times[at] = row + one - since
            ends = row + one == stop or ordered[row + one] != ordered[row]
            at += np.uint64(ends)
            since = row + one if ends else since


_FACTOR = np.uint64(6364136223846793005)
_TERM = np.uint64(1442695040888963407)
"""Knuth's linear congruential generator (MMIX)."""

_DRAWN_BITS = 32
_SHIFT = np.uint64(_DRAWN_BITS)


def select_places(
    numbers: Integers, starts: Integers, owners: Integers, places: Integers
) -> Integers:
    """Return the numbers that would be at some places if each run were sorted.

    Parameters
    ----------
    numbers
        int64; each run may be brought into another order.
    starts
        int64, shape ``(runs + 1,)``: where runs start, and the end of the last.
    owners, places
        int64: the run of what is wanted, and the place, counted from its start. Places of one run
        side by side and ascending take less time.
    """
    found = recycled(len(owners), np.int64)
    select_in_runs(
        numbers,
        np.ascontiguousarray(starts),
        np.ascontiguousarray(owners),
        np.ascontiguousarray(places),
        found,
    )
    return found


@kernel(
    "numbers: mut i64[numbers], starts: i64[ends], owners: i64[wanted], places: i64[wanted], "
    "found: mut i64[wanted]"
)
def select_in_runs(numbers: Any, starts: Any, owners: Any, places: Any, found: Any) -> None:
    """Select places of runs one after another."""
    drawn = np.uint64(1)
    for asked in range(len(owners)):
        run = np.uint64(owners[asked])
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + np.uint64(1)])
        place = start + np.uint64(places[asked])
        if asked > 0 and owners[asked - 1] == owners[asked]:
            before = places[asked - 1]
            if before == places[asked]:
                found[asked] = found[asked - 1]
                continue
            if before < places[asked]:
                # What is before the last place is not greater than what is behind it.
                start += np.uint64(before + 1)
        if place == start:
            # The least number: so is the second of two in the middle, once the first is found.
            least = start
            for spot in range(start, stop):
                least = np.uint64(spot) if numbers[spot] < numbers[least] else least
            number = numbers[least]
            numbers[least] = numbers[start]
            numbers[start] = number
        else:
            drawn = bring_to_place(numbers, start, stop, place, drawn)
        found[asked] = numbers[place]


@inner
def bring_to_place(numbers: Any, start: Any, stop: Any, place: Any, drawn: Any) -> Any:
    """Bring the number of a place there, smaller ones before it; return the generator's state."""
    one = np.uint64(1)
    while stop - start > one:
        count = stop - start
        drawn = drawn * _FACTOR + _TERM
        first = numbers[start + ((drawn >> _SHIFT) * count >> _SHIFT)]
        drawn = drawn * _FACTOR + _TERM
        second = numbers[start + ((drawn >> _SHIFT) * count >> _SHIFT)]
        third = numbers[start + (count >> one)]
        pivot = max(min(first, second), min(max(first, second), third))
        cut = start
        for spot in range(start, stop):
            number = numbers[spot]
            numbers[spot] = numbers[cut]
            numbers[cut] = number
            cut += np.uint64(number < pivot)
        if place < cut:
            stop = cut
            continue
        if cut == start:
            # Nothing is less: what equals it goes first, so that each round takes something away.
            for spot in range(start, stop):
                number = numbers[spot]
                numbers[spot] = numbers[cut]
                numbers[cut] = number
                cut += np.uint64(number == pivot)
            if place < cut:
                return drawn
        start = cut
    return drawn

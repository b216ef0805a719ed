"""Runs of numbers, each sorted by itself.

Short runs are sorted by insertion; numpy's own sort, which uses wide registers, takes those that
are so long that calling it costs little.

Equal numbers side by side in runs, each once, and how often it stands there; and how many different
numbers there are in runs in any order, where they lie close together.

What stands at some places of runs of numbers in order, without sorting them.

Hoare's selection (CACM 4, 1961, algorithm 65): a run is cut in two by a number of its own, and
the part that the place is in is cut again, so that each number is looked at about three times. The
cut has no branch that depends on numbers, and positions of the three numbers of which it takes the
middle one are drawn, so that no usual order of the numbers is a bad one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel

Integers = NDArray[np.int64]

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
    counts = np.empty(len(starts) - 1, np.int64)
    count_changes(np.ascontiguousarray(ordered), np.ascontiguousarray(starts), counts)
    return counts


def count_close(numbers: Integers, starts: Integers) -> Integers:
    """Return how many different numbers runs have, in any order; −1 for those that lie far apart.

    Parameters
    ----------
    numbers
        int64.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    counts = np.empty(len(starts) - 1, np.int64)
    seen = np.zeros(int(np.diff(starts).max(initial=0)), np.uint64)
    count_seen(np.ascontiguousarray(numbers), np.ascontiguousarray(starts), seen, counts)
    return counts


@kernel("numbers: i64[rows], starts: i64[ends], seen: mut u64[words], counts: mut i64[runs]")
def count_seen(numbers: Any, starts: Any, seen: Any, counts: Any) -> None:
    """Count the numbers of each run by a bit for each of its span, of at most 64 bits a row.

    ``seen`` is 0, and as long as the longest run; it is left so.
    """
    one = np.uint64(1)
    for run in range(len(counts)):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        counts[run] = 0
        if start == stop:
            continue
        low = high = numbers[start]
        for row in range(start, stop):
            low, high = min(low, numbers[row]), max(high, numbers[row])
        words = ((np.uint64(high) - np.uint64(low)) >> np.uint64(6)) + one
        if words > min(stop - start, np.uint64(len(seen))):
            counts[run] = -1
            continue
        count = np.uint64(0)
        for row in range(start, stop):
            bit = np.uint64(numbers[row]) - np.uint64(low)
            word, shift = bit >> np.uint64(6), bit & np.uint64(63)
            held = seen[word]
            count += one - ((held >> shift) & one)
            seen[word] = held | (one << shift)
        counts[run] = np.int64(count)
        for used in range(words):
            seen[used] = 0


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
    numbers, times = np.empty((2, int(counts.sum())), np.int64)
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
    found = np.empty(len(owners), np.int64)
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

"""What stands at some places of runs of numbers in order, without sorting them.

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

__all__ = ["select_places"]

Integers = NDArray[np.int64]

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

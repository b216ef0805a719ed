"""The rows of each group side by side: a stable sort by small numbers, by counting them.

Numbers written to the places of their groups, one by one or as lists that lie somewhere.

Groups lie side by side in what is written, and each has a place that moves on. Nothing is written
twice, and no order of rows is made on the way: memory that was never touched costs more than work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel

Integers = NDArray[np.int64]

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

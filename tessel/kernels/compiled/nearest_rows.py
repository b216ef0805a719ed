"""Compiled twin of :mod:`tessel.kernels.nearest_rows`.

First each number finds its place among the rows of its group, in a loop that does nothing else;
then the row before that place or the one behind it is chosen. No function that takes an array is
called for a row: numba counts references to it each time, which costs more than the search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["choose_rows", "last_of_runs", "rows_before"]

_BACKWARD, _FORWARD = 0, 1
_LEAST = np.int64(-(2**63))
_MOST = np.uint64(2**64 - 1)


@kernel
def last_of_runs(held: Any, starts: Any, out: Any) -> None:
    """Write for each place the last one of its group that holds the same number."""
    for group in range(len(starts) - 1):
        last = starts[group + 1] - 1
        for place in range(last, starts[group] - 1, -1):
            if held[place] != held[last]:
                last = place
            out[place] = last


@kernel
def rows_before(held: Any, starts: Any, asked: Any, codes: Any, exact: bool, out: Any) -> None:
    """Write the last row of its group before each number, or where exact not after it.

    Without codes all are asked of the only group. Where there is no such row, the place before the
    first one of the group; −1 where there is no group.
    """
    if not len(codes):
        _rows_before_in_one(held, asked, exact, out)
        return
    # Where the search of each group stands: a larger number wants no row before it.
    reached = starts.copy()
    for row in range(len(asked)):
        group = codes[row]
        if group < 0:
            out[row] = -1
            continue
        first, stop, place = starts[group], starts[group + 1], reached[group]
        if not exact and asked[row] == _LEAST:
            out[row] = first - 1
            continue
        bound = asked[row] if exact else asked[row] - 1
        if place > first and held[place - 1] > bound:
            place = first  # what is asked went back
        if place < stop and held[place] <= bound:
            place += 1
            step = 1
            ahead = place
            while ahead < stop and held[ahead] <= bound:
                place = ahead + 1
                ahead += step
                step += step
            high = min(ahead, stop)
            while place < high:
                middle = (place + high) >> 1
                if held[middle] <= bound:
                    place = middle + 1
                else:
                    high = middle
        reached[group] = place
        out[row] = place - 1


@inner
def _rows_before_in_one(held: Any, asked: Any, exact: bool, out: Any) -> None:
    place = np.int64(0)
    before = _LEAST
    for row in range(len(asked)):
        if not exact and asked[row] == _LEAST:
            out[row] = -1
            continue
        bound = asked[row] if exact else asked[row] - 1
        if row == 0 or bound < before:  # the first, or what is asked went back
            place = np.searchsorted(held, bound, "right")
        while place < len(held) and held[place] <= bound:
            place += 1
        before = bound
        out[row] = place - 1


@inner
def _apart(one: int, other: int) -> Any:
    if one < other:
        return np.uint64(other) - np.uint64(one)
    return np.uint64(one) - np.uint64(other)


@kernel
def choose_rows(
    held: Any,
    starts: Any,
    last: Any,
    asked: Any,
    codes: Any,
    looks: int,
    exact: bool,
    most_apart: Any,
    rows: Any,
) -> None:
    """Turn the rows before each number into the nearest ones, or −1."""
    group = np.int64(0)
    for row in range(len(asked)):
        if len(codes):
            group = codes[row]
            if group < 0:
                continue
        first, stop = starts[group], starts[group + 1]
        number, found = asked[row], rows[row]
        if found < first:
            found = -1
        if looks != _BACKWARD and not (exact and found >= 0 and held[found] == number):
            behind = rows[row] + 1
            if not exact and behind < stop and held[behind] == number:
                behind = last[behind] + 1
            if behind == stop:
                if looks == _FORWARD:
                    found = -1
            elif (
                looks == _FORWARD
                or found < 0
                or _apart(held[behind], number) < _apart(held[found], number)
            ):
                found = last[behind]
        if found >= 0 and most_apart < _MOST and _apart(held[found], number) > most_apart:
            found = -1
        rows[row] = found

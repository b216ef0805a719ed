"""The pairs of rows that have one key, counted first, then made from any place to any other.

For a number and a group, the row of that group whose number lies nearest on one side.

The rows of each group stand together, in the order of their numbers. What is asked comes in order
as well, mostly: then each group has a place that moves on, and no search starts anew.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.memory import recycled

Integers = NDArray[np.int64]


def match_ends(codes: Integers, starts: Integers, *, keep_unmatched: bool) -> Integers:
    """Return for each left row where its rows of output end.

    Parameters
    ----------
    codes
        The key of each left row, −1 for none. int64, shape ``(rows,)``.
    starts
        Where the right rows of each key start, and the end. int64, shape ``(keys + 1,)``; without
        any, each right row is the only one of its key, whose number it has.
    keep_unmatched
        Whether a left row without a right one has a row of output.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    ends = recycled(len(codes), np.int64)
    write_ends(np.ascontiguousarray(codes), np.ascontiguousarray(starts), keep_unmatched, ends)
    return ends


def match_rows(
    codes: Integers, starts: Integers, rows: Integers, ends: Integers, start: int, stop: int
) -> tuple[Integers, Integers]:
    """Return the rows ``[start, stop)`` of the output as left rows and right rows.

    Parameters
    ----------
    codes, starts, ends
        As for :func:`match_ends`, and what it returned.
    rows
        The right rows, those of key 0 first; none where there are no starts.

    Returns
    -------
    left, right : numpy.ndarray
        int64, shape ``(stop - start,)``. Left rows ascend, and the right rows of each come in the
        order of ``rows``; a right row is −1 where there is none.
    """
    first = int(np.searchsorted(ends, start, side="right"))
    left, right = recycled((2, stop - start), np.int64)
    held = (np.ascontiguousarray(each) for each in (codes, starts, rows, ends))
    write_matches(*held, first, start, left, right)
    return left, right


@kernel("codes: i64[rows], starts: i64[starts], keep_unmatched: bool, ends: mut i64[rows]")
def write_ends(codes: Any, starts: Any, keep_unmatched: Any, ends: Any) -> None:
    """Write where the rows of output of each left row end."""
    end = 0
    single = len(starts) == 0
    for row in range(len(codes)):
        code = codes[row]
        if single:
            end += 1 if code >= 0 or keep_unmatched else 0
            ends[row] = end
            continue
        count = starts[code + 1] - starts[code] if code >= 0 else 0
        end += 1 if count == 0 and keep_unmatched else count
        ends[row] = end


@kernel(
    "codes: i64[codes], starts: i64[starts], rows: i64[rows], ends: i64[codes], row: i64, "
    "start: i64, left: mut i64[found], right: mut i64[found]"
)
def write_matches(
    codes: Any, starts: Any, rows: Any, ends: Any, row: Any, start: Any, left: Any, right: Any
) -> None:
    """Write the rows of output from ``start`` on, which is one of the left row ``row``."""
    out = 0
    single = len(starts) == 0
    while out < len(left):
        if single:
            if ends[row] > start + out:
                left[out] = row
                right[out] = codes[row]
                out += 1
            row += 1
            continue
        begin = ends[row - 1] if row else 0
        end = min(ends[row] - start, len(left))
        code = codes[row]
        if code < 0 or starts[code] == starts[code + 1]:
            if out < end:
                left[out] = row
                right[out] = -1
                out += 1
        else:
            place = starts[code] + start + out - begin
            while out < end:
                left[out] = row
                right[out] = rows[place]
                out += 1
                place += 1
        row += 1


_MOST = 2**64 - 1
_NO_CODES = np.zeros(0, np.int64)


class Looks(enum.IntEnum):
    """On which side of a number a row is looked for."""

    BACKWARD = 0
    FORWARD = 1
    NEAREST = 2
    """On both; the row before counts where the two are as far."""


class NearestRows:
    """Rows in groups, ready to be asked for the nearest ones.

    Parameters
    ----------
    held
        The numbers of the rows, int64, ascending within each group.
    starts
        int64, shape ``(groups + 1,)``: where in ``held`` each group starts, and the end.
    looks
        On which side of a number rows are looked for.
    exact
        Whether a row of the very number is one.
    most_apart
        How far away a row may be; None is any distance.
    """

    def __init__(
        self,
        held: Integers,
        starts: Integers,
        *,
        looks: Looks,
        exact: bool,
        most_apart: int | None = None,
    ) -> None:
        self._held = np.ascontiguousarray(held)
        self._starts = np.ascontiguousarray(starts)
        self._looks = looks
        self._exact = exact
        self._most_apart = np.uint64(_MOST if most_apart is None else min(most_apart, _MOST))
        backward = looks is Looks.BACKWARD
        self._last = np.zeros(0, np.int64) if backward else _last_of_runs(self._held, self._starts)

    def find(self, asked: Integers, codes: Integers | None = None) -> Integers:
        """Return the row that lies nearest to each number.

        Parameters
        ----------
        asked
            int64, shape ``(rows,)``; any order gives the answer, ascending ones give it soon.
        codes
            The group of each, −1 for none, int64; None where there is one group.

        Returns
        -------
        numpy.ndarray
            int64, shape ``(rows,)``: a place in ``held``, of rows of one number the last; −1 for
            none.
        """
        found = recycled(len(asked), np.int64)
        asked = np.ascontiguousarray(asked)
        groups = _NO_CODES if codes is None else np.ascontiguousarray(codes)
        reached = self._starts.copy()
        rows_before(self._held, self._starts, asked, groups, self._exact, reached, found)
        if codes is None and self._looks is Looks.BACKWARD and self._most_apart == _MOST:
            return found
        choose_rows(
            self._held, self._starts, self._last, asked, groups, int(self._looks), self._exact,
            int(self._most_apart), found,
        )  # fmt: skip
        return found


def _last_of_runs(held: Integers, starts: Integers) -> Integers:
    """Return for each place the last one of its group that holds the same number."""
    last = recycled(len(held), np.int64)
    last_of_runs(held, starts, last)
    return last


_BACKWARD, _FORWARD = 0, 1
_LEAST = np.int64(-(2**63))


@kernel("held: i64[rows], starts: i64[ends], out: mut i64[rows]")
def last_of_runs(held: Any, starts: Any, out: Any) -> None:
    """Write for each place the last one of its group that holds the same number."""
    for group in range(len(starts) - 1):
        last = starts[group + 1] - 1
        for place in range(last, starts[group] - 1, -1):
            if held[place] != held[last]:
                last = place
            out[place] = last


@kernel(
    "held: i64[rows], starts: i64[ends], asked: i64[asked], codes: i64[codes], exact: bool, "
    "reached: mut i64[ends], out: mut i64[asked]"
)
def rows_before(
    held: Any, starts: Any, asked: Any, codes: Any, exact: Any, reached: Any, out: Any
) -> None:
    """Write the last row of its group before each number, or where exact not after it.

    Without codes all are asked of the only group. Where there is no such row, the place before the
    first one of the group; −1 where there is no group. ``reached``, the starts at first, is where
    the search of each group stands: a larger number wants no row before it.
    """
    if not len(codes):
        _rows_before_in_one(held, asked, exact, out)
        return
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


@kernel(
    "held: i64[rows], starts: i64[ends], last: i64[lasts], asked: i64[asked], codes: i64[codes], "
    "looks: i64, exact: bool, most_apart: u64, rows: mut i64[asked]"
)
def choose_rows(
    held: Any, starts: Any, last: Any, asked: Any, codes: Any, looks: Any, exact: Any,
    most_apart: Any,
    rows: Any,
) -> None:  # fmt: skip
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

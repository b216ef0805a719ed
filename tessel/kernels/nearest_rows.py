"""For a number and a group, the row of that group whose number lies nearest on one side.

The rows of each group stand together, in the order of their numbers. What is asked comes in order
as well, mostly: then each group has a place that moves on, and no search starts anew.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.rows_by_code import rows_by_code

__all__ = ["Looks", "NearestRows"]

Integers = NDArray[np.int64]

_MOST = 2**64 - 1
_NO_CODES = np.zeros(0, np.int64)
_FEW_GROUPS = 256
"""The numpy twin searches so many groups one by one, and more of them step by step together."""


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
        self._held = frozen(held)
        self._starts = frozen(starts)
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
        kernels = compiled_kernels(len(asked), "nearest_rows")
        if kernels is None:
            return self._find_numpy(asked, codes)
        found = np.empty(len(asked), np.int64)
        asked, groups = frozen(asked), frozen(_NO_CODES if codes is None else codes)
        kernels.rows_before(self._held, self._starts, asked, groups, self._exact, found)
        if codes is None and self._looks is Looks.BACKWARD and self._most_apart == _MOST:
            return found
        kernels.choose_rows(
            self._held, self._starts, self._last, asked, groups, int(self._looks), self._exact,
            self._most_apart, found,
        )  # fmt: skip
        return found

    def _find_numpy(self, asked: Integers, codes: Integers | None) -> Integers:
        held, last = self._held, self._last
        known = np.arange(len(asked)) if codes is None else np.flatnonzero(codes >= 0)
        found = np.full(len(asked), -1, np.int64)
        if not len(held) or not len(known):
            return found
        groups = np.zeros(len(known), np.int64) if codes is None else codes[known]
        asked = asked[known]
        chosen = before = after = found[: len(known)]
        if self._looks is not Looks.FORWARD:
            place = _places(held, self._starts, asked, groups, after=self._exact)
            chosen = before = np.where(place > self._starts[groups], place - 1, -1)
        if self._looks is not Looks.BACKWARD:
            place = _places(held, self._starts, asked, groups, after=not self._exact)
            there = place < self._starts[groups + 1]
            chosen = after = np.where(there, last[np.minimum(place, len(held) - 1)], -1)
        if self._looks is Looks.NEAREST:
            closer = _apart(held, asked, before) <= _apart(held, asked, after)
            chosen = np.where((after < 0) | ((before >= 0) & closer), before, after)
        near = _apart(held, asked, chosen) <= self._most_apart
        found[known] = np.where(near, chosen, -1)
        return found


def _last_of_runs(held: Integers, starts: Integers) -> Integers:
    """Return for each place the last one of its group that holds the same number."""
    kernels = compiled_kernels(len(held), "nearest_rows")
    if kernels is not None:
        last = np.empty(len(held), np.int64)
        kernels.last_of_runs(held, starts, last)
        return last
    differs = np.ones(len(held), np.bool_)
    differs[:-1] = held[1:] != held[:-1]
    differs[starts[1:][starts[1:] > 0] - 1] = True
    ends = np.flatnonzero(differs)
    found: Integers = ends[np.searchsorted(ends, np.arange(len(held)))]
    return found


def _places(
    held: Integers, starts: Integers, asked: Integers, groups: Integers, *, after: bool
) -> Integers:
    """Return in its group the first place whose number is not below each, or is above it."""
    if len(starts) == 2:
        return np.searchsorted(held, asked, "right" if after else "left")
    if len(starts) <= _FEW_GROUPS:
        rows, ends = rows_by_code(groups, len(starts) - 1)
        places = np.empty(len(asked), np.int64)
        for group in range(len(starts) - 1):
            some = rows[ends[group] : ends[group + 1]]
            inside = held[starts[group] : starts[group + 1]]
            at = np.searchsorted(inside, asked[some], "right" if after else "left")
            places[some] = at + starts[group]
        return places
    low, high = starts[groups], starts[groups + 1]
    wanted = np.flatnonzero(low < high)
    while len(wanted):
        middle = (low[wanted] + high[wanted]) >> 1
        number = held[middle]
        passed = number <= asked[wanted] if after else number < asked[wanted]
        low[wanted[passed]] = middle[passed] + 1
        high[wanted[~passed]] = middle[~passed]
        wanted = wanted[low[wanted] < high[wanted]]
    return low


def _apart(held: Integers, asked: Integers, places: Integers) -> NDArray[np.uint64]:
    """Return how far each number is from that of a place; anything where there is none."""
    other = held[np.maximum(places, 0)]
    # The difference of two int64, larger less smaller, is right as uint64 whatever it is.
    low, high = np.minimum(asked, other), np.maximum(asked, other)
    apart: NDArray[np.uint64] = high.view(np.uint64) - low.view(np.uint64)
    return apart

"""Finding, for a time and a key, the row of an ordered table that is nearest on one side.

The rows of each key are brought together, in their order, which is that of time. A row of the other
side looks for its time among the rows of its key by binary search, all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.lookup import KeyTable

__all__ = ["AsofTable"]

Numbers = NDArray[np.int64]


class AsofTable:
    """The right side of an as-of join, ready to be asked.

    Parameters
    ----------
    shape
        What is joined, and how.
    right
        Its rows, ordered by time.
    """

    def __init__(self, shape: AsofShape, right: pa.Table) -> None:
        self._shape = shape
        times = shape.times(right, 1)
        self._keys = KeyTable(shape.by_keys(right, 1)) if shape.by else None
        if self._keys is None:
            self._rows = np.arange(len(times))
            self._starts = np.array([0, len(times)])
        else:
            self._rows, self._starts = self._keys.rows, self._keys.starts
        self._times = times[self._rows]

    def find(self, left: pa.Table) -> Numbers:
        """Return the row of the right that goes beside each row of the left, −1 for none."""
        return self.find_times(self._shape.times(left, 0), self._shape.by_keys(left, 0))

    def find_times(self, times: Numbers, keys: Sequence[pa.Array]) -> Numbers:
        """Return what :meth:`find` does, for times and keys that were taken from the left."""
        low, high = self._groups(times, keys)
        before = self._before(times, low, high)
        after = self._after(times, low, high)
        if self._shape.direction == "backward":
            place = before
        elif self._shape.direction == "forward":
            place = after
        else:
            place = self._nearest(times, before, after)
        place = self._within(times, place)
        found = np.full(len(times), -1, np.int64)
        some = place >= 0
        found[some] = self._rows[place[some]]
        return found

    def _groups(self, times: Numbers, keys: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Return where the rows of each left row's key start and end; none for no such key."""
        if self._keys is None:
            count = len(times)
            return np.zeros(count, np.int64), np.full(count, len(self._times), np.int64)
        codes = self._keys.find(keys)
        ends = np.append(self._starts, self._starts[-1])
        return np.where(codes < 0, 0, ends[codes]), np.where(codes < 0, 0, ends[codes + 1])

    def _before(self, times: Numbers, low: Numbers, high: Numbers) -> Numbers:
        """Return the place of the last row not after each time; −1 where there is none."""
        if self._shape.direction == "forward":
            return np.zeros(0, np.int64)
        side: Literal["left", "right"] = "right" if self._shape.allow_exact_matches else "left"
        place = self._search(times, low, high, side)
        return np.where(place > low, place - 1, -1)

    def _after(self, times: Numbers, low: Numbers, high: Numbers) -> Numbers:
        """Return the place of the last row of the first time not before each; −1 for none."""
        if self._shape.direction == "backward":
            return np.zeros(0, np.int64)
        side: Literal["left", "right"] = "left" if self._shape.allow_exact_matches else "right"
        place = self._search(times, low, high, side)
        found = np.full(len(times), -1, np.int64)
        some = place < high
        first = self._times[place[some]]
        found[some] = self._search(first, place[some], high[some], "right") - 1
        return found

    def _nearest(self, times: Numbers, before: Numbers, after: Numbers) -> Numbers:
        back, forth = self._apart(times, before), self._apart(times, after)
        earlier = (after < 0) | ((before >= 0) & (back <= forth))
        # Rows of the time itself are found from both sides, the same ones.
        return np.where(earlier, before, after)

    def _within(self, times: Numbers, place: Numbers) -> Numbers:
        most = self._shape.most_apart
        if most is None:
            return place
        limit = np.uint64(min(most, 2**64 - 1))
        return np.where(self._apart(times, place) <= limit, place, -1)

    def _apart(self, times: Numbers, place: Numbers) -> NDArray[np.uint64]:
        """Return how far each time is from that of a place; anything where there is none."""
        if not len(self._times):
            return np.zeros(len(times), np.uint64)
        other = self._times[np.maximum(place, 0)]
        # The difference of two int64, larger less smaller, is right as uint64 whatever it is.
        low, high = np.minimum(times, other), np.maximum(times, other)
        apart: NDArray[np.uint64] = high.view(np.uint64) - low.view(np.uint64)
        return apart

    def _search(
        self, times: Numbers, low: Numbers, high: Numbers, side: Literal["left", "right"]
    ) -> Numbers:
        """Return ``searchsorted`` of each time among the rows of its own range."""
        if self._keys is None and not low.any():
            everything: Numbers = np.searchsorted(self._times, times, side)
            return everything
        low, high = low.copy(), high.copy()
        while True:
            open_ = np.flatnonzero(low < high)
            if not len(open_):
                return low
            middle = (low[open_] + high[open_]) >> 1
            found = self._times[middle]
            further = found <= times[open_] if side == "right" else found < times[open_]
            low[open_[further]] = middle[further] + 1
            high[open_[~further]] = middle[~further]

"""Finding, for a time and a key, the row of an ordered table that is nearest on one side.

The rows of each key are brought together, in their order, which is that of time. Key and time are
one number then, ascending over all rows, in which one binary search finds the place of a row: the
number of the key, and the rank of the time among those of the right. A time that is none of these
has a rank between its neighbours', so that nothing overflows whatever the times are.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.lookup import KeyTable, order_of_codes

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
        fresh = _differs_from_the_one_before(times)
        self._ranked = times[fresh]
        ranks = 2 * np.cumsum(fresh) - 1  # 1, 3, 5, …: between them is room for other times
        self._keys = KeyTable(shape.by_keys(right, 1)) if shape.by else None
        if self._keys is None:
            self._rows = np.arange(len(times))
            self._starts = np.array([0, len(times)])
            self._places = ranks
        else:
            self._rows, self._starts = self._keys.rows, self._keys.starts
            self._places = self._keys.codes[self._rows] * self._width + ranks[self._rows]
        self._times = times[self._rows]
        if shape.direction != "backward":  # for each row the last of its key and time
            ends = np.flatnonzero(_differs_from_the_one_before(self._places[::-1])[::-1])
            self._last = ends[np.searchsorted(ends, np.arange(len(self._places)))]

    def find(self, left: pa.Table) -> Numbers:
        """Return the row of the right that goes beside each row of the left, −1 for none."""
        times = self._shape.times(left, 0)
        codes = np.zeros(len(times), np.int64)
        if self._keys is not None:
            codes = self._keys.find(self._shape.by_keys(left, 0))
        asked = np.flatnonzero(codes >= 0)
        found = np.full(len(times), -1, np.int64)
        if len(asked) and len(self._times):
            # By key, then time: a binary search of ascending numbers stays in the cache.
            asked = asked[order_of_codes(codes[asked], len(self._starts))]
            place = self._place(times[asked], codes[asked])
            some = place >= 0
            found[asked[some]] = self._rows[place[some]]
        return found

    @property
    def _width(self) -> int:
        """Ranks of a key: those of the right's times, and those around each."""
        return 2 * len(self._ranked) + 2

    def _place(self, times: Numbers, codes: Numbers) -> Numbers:
        """Return the place among the rows, by key and time, of what goes beside each; or −1."""
        at = np.searchsorted(self._ranked, times)
        known = self._ranked[np.minimum(at, len(self._ranked) - 1)] == times
        wanted = codes * self._width + 2 * at + known
        direction = self._shape.direction
        before = after = np.zeros(0, np.int64)
        if direction != "forward":
            place = self._search(wanted, "right" if self._shape.allow_exact_matches else "left")
            before = np.where(place > self._starts[codes], place - 1, -1)
        if direction != "backward":
            place = self._search(wanted, "left" if self._shape.allow_exact_matches else "right")
            first = np.minimum(place, len(self._last) - 1)
            after = np.where(place < self._starts[codes + 1], self._last[first], -1)
        if direction == "nearest":
            closer = self._apart(times, before) <= self._apart(times, after)
            chosen = np.where((after < 0) | ((before >= 0) & closer), before, after)
        else:
            chosen = before if direction == "backward" else after
        most = self._shape.most_apart
        if most is None:
            return chosen
        limit = np.uint64(min(most, 2**64 - 1))
        return np.where(self._apart(times, chosen) <= limit, chosen, -1)

    def _search(self, wanted: Numbers, side: Literal["left", "right"]) -> Numbers:
        found: Numbers = np.searchsorted(self._places, wanted, side)
        return found

    def _apart(self, times: Numbers, place: Numbers) -> NDArray[np.uint64]:
        """Return how far each time is from that of a place; anything where there is none."""
        other = self._times[np.maximum(place, 0)]
        # The difference of two int64, larger less smaller, is right as uint64 whatever it is.
        low, high = np.minimum(times, other), np.maximum(times, other)
        apart: NDArray[np.uint64] = high.view(np.uint64) - low.view(np.uint64)
        return apart


def _differs_from_the_one_before(values: Numbers) -> NDArray[np.bool_]:
    differs = np.ones(len(values), np.bool_)
    differs[1:] = values[1:] != values[:-1]
    return differs

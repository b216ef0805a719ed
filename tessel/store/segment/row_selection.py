"""Which rows of a segment a read wants: ranges, or single rows. Arithmetic on arrays only.

Whoever plans a read enters here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.arrays import different
from tessel.errors import InvalidInputError
from tessel.store.segment.sources.base import Integers

__all__ = ["RowIndices", "RowRanges", "RowSelection"]


@dataclass(frozen=True, slots=True, eq=False)
class RowRanges:
    """Rows of a segment as ranges ``[start, stop)``: ascending, disjoint, none empty."""

    start: Integers
    stop: Integers

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> RowRanges:
        """Return ranges given in any order; empty ones are left out, touching ones are joined.

        Raises
        ------
        InvalidInputError
            For a range that starts before 0 or stops before it starts.
        """
        table = np.array(sorted(ranges), dtype=np.int64).reshape(-1, 2)
        if (table[:, 0] < 0).any() or (table[:, 1] < table[:, 0]).any():
            raise InvalidInputError(f"these are no row ranges: {sorted(ranges)[:8]}")
        table = table[table[:, 1] > table[:, 0]]
        if not len(table):
            return cls(table[:, 0], table[:, 1])
        reach = np.maximum.accumulate(table[:, 1])
        begins = np.concatenate(([0], np.flatnonzero(table[1:, 0] > reach[:-1]) + 1))
        ends = np.concatenate((begins[1:], [len(table)])) - 1
        return cls(table[begins, 0], reach[ends])

    @classmethod
    def where(cls, edges: Integers, keep: npt.NDArray[np.bool_]) -> RowRanges:
        """Return the ranges ``[edges[i], edges[i + 1])`` that are to be kept, joined."""
        change = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False])).view(np.int8)))
        return cls(edges[change[0::2]], edges[change[1::2]])

    @property
    def rows(self) -> int:
        """How many rows."""
        return int((self.stop - self.start).sum())

    def __and__(self, other: RowRanges) -> RowRanges:
        """Return the rows that are in both."""
        edges = different(np.concatenate((self.start, self.stop, other.start, other.stop)))
        starts = edges[:-1]
        return RowRanges.where(edges, self.holds(starts) & other.holds(starts))

    def holds(self, rows: Integers) -> npt.NDArray[np.bool_]:
        """Return, for each row, whether it is in some range."""
        if not len(self.start):
            return np.zeros(len(rows), bool)
        at = np.searchsorted(self.start, rows, "right") - 1
        return (at >= 0) & (rows < self.stop[at])

    def overlaps(self, starts: Integers, stops: Integers) -> npt.NDArray[np.bool_]:
        """Return, for each interval ``[starts, stops)``, whether some row of it is in a range."""
        first = np.searchsorted(self.stop, starts, "right")
        after = np.searchsorted(self.start, stops, "left")
        return (after > first) & (stops > starts)


@dataclass(frozen=True, slots=True, eq=False)
class RowIndices:
    """Single rows of a segment: int64, in any order, repeats allowed."""

    rows: Integers


RowSelection: TypeAlias = RowRanges | RowIndices
"""Rows of a segment, counted from its first."""

"""Which rows of a segment a read wants: ranges, or single rows. Arithmetic on arrays only.

Whoever plans a read enters here.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
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

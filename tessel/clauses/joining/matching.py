"""Which rows of two tables go together, as row numbers.

A left row has as many rows of output as right rows have its key, or one without a right row where
it has none and is kept. Any stretch of that output can be made without the rest of it: that is how
a join of many with many stays within its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.joining.lookup import KeyTable

__all__ = ["Matches"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """The output of a join of some left rows with a built side, counted and not made yet.

    Attributes
    ----------
    table
        The built side.
    codes
        For each left row the number of its key there, −1 for none. int64, shape ``(rows,)``.
    ends
        For each left row where its rows of output end. int64, shape ``(rows,)``.
    """

    table: KeyTable
    codes: Rows
    ends: Rows

    @classmethod
    def of(cls, table: KeyTable, codes: Rows, *, keep_unmatched: bool) -> Matches:
        """Count the rows of output; a left row without a match has one where it is kept."""
        sizes = np.append(np.diff(table.starts), 0)  # code −1 finds the last: no right row
        counts = sizes[codes]
        if keep_unmatched:
            counts = np.maximum(counts, 1)
        return cls(table, codes, np.cumsum(counts))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def is_one_to_one(self) -> bool:
        """Whether each left row has exactly one row of output."""
        count = len(self.ends)
        return len(self) == count and bool((self.ends == np.arange(1, count + 1)).all())

    def rows(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Return the rows ``[start, stop)`` of the output as left rows and right rows.

        Left rows ascend, and the right rows of each do; a right row is −1 where there is none.
        """
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        some = np.arange(first, last + 1) if stop > start else np.zeros(0, np.int64)
        begins = np.append(0, self.ends)[some]
        sizes = np.minimum(self.ends[some], stop) - np.maximum(begins, start)
        left = np.repeat(some, sizes)
        within = np.arange(start, stop) - np.repeat(begins, sizes)
        codes = self.codes[left]
        place = self.table.starts[codes] + within
        if not len(self.table.rows):
            return left, np.full(len(left), -1, np.int64)
        place[codes < 0] = 0
        return left, np.where(codes < 0, np.int64(-1), self.table.rows[place])

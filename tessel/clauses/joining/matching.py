"""Which rows of two tables go together, as row numbers.

A left row has as many rows of output as right rows have its key, or one without a right row where
it has none and is kept. Any stretch of that output can be made without the rest of it: that is how
a join of many with many stays within its bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.joining.lookup import KeyTable
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.lazy import dataclass

__all__ = ["Matches"]

Rows = NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


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
        starts = _NONE if table.is_unique else table.starts
        return cls(table, codes, match_ends(codes, starts, keep_unmatched=keep_unmatched))

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
        table = self.table
        starts, rows = (_NONE, _NONE) if table.is_unique else (table.starts, table.rows)
        return match_rows(self.codes, starts, rows, self.ends, start, stop)

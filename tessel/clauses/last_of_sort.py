"""sort and then tail, run as one: the rows that a sort would end with.

The planner makes it of the two. It is ``top_k`` backwards: of rows of equal keys the later ones
are kept, and all come out in the order of the sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.capabilities import DynamicFilter
from tessel.clauses.ordering import Rows
from tessel.clauses.registry import register
from tessel.clauses.top_k import PartialTopK, TopK
from tessel.clauses.top_rows import TopRows, backwards, first_rows
from tessel.lazy import dataclass

__all__ = ["LastOfSort", "PartialLastOfSort"]


@register
@dataclass(frozen=True)
class LastOfSort(TopK):
    """Keep the ``k`` rows that come last in an order, in that order.

    Attributes
    ----------
    k
        How many.
    by, descending, missing
        As in ``sort``.
    """

    name: ClassVar[str] = "last_of_sort"
    internal: ClassVar[bool] = True

    def _first(self, table: pa.Table) -> pa.Table:
        """Return the last rows of a table, in order."""
        last = first_rows(table, backwards(self.ordering), self.k, later=True)
        return table.take(arrow_array(last[::-1], pa.int64()))

    def _of_sorted(self, tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
        """Return the last rows of tables in order."""
        left = max(0, rows - self.k)
        for table in tables:
            yield table.slice(min(left, table.num_rows))
            left -= min(left, table.num_rows)


@register
@dataclass(frozen=True)
class PartialLastOfSort(PartialTopK):
    """Keep the last rows of each unit by an order, in their own."""

    name: ClassVar[str] = "partial_last_of_sort"
    internal: ClassVar[bool] = True

    def open_filter(self) -> DynamicFilter:
        """Return the threshold of one run: nothing is known of it yet."""
        return TopRows(backwards(self.ordering), self.k, later=True)

    def _first_rows(self, table: pa.Table) -> Rows:
        return first_rows(table, backwards(self.ordering), self.k, later=True)

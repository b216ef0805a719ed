"""sort and then tail, run as one: the rows that a sort would end with.

The planner makes it of the two. It is ``top_k`` backwards: of rows of equal keys the later ones
are kept, and all come out in the order of the sort.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.base import Clause
from tessel.clauses.ordering import Missing, Ordering, Rows
from tessel.clauses.registry import register
from tessel.clauses.stored_first_rows import KeyThreshold, stored_first_rows
from tessel.clauses.top_k import PartialTopK, TopK
from tessel.ecs import ProcessingUnit
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.selected_rows import SelectedRows

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
        return table.take(arrow_array(_last_rows(table, self.ordering, self.k), pa.int64()))

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

    def begun(self) -> Clause:
        """Return the clause for one run, whose units tell each other what they found."""
        return _SharedLastOfSort.of(self)

    def choose(self, rows: Batch) -> Rows | None:
        """Choose the last rows by stored integers."""
        return self._chosen(rows, KeyThreshold())

    def _chosen(self, rows: Batch, threshold: KeyThreshold) -> Rows | None:
        return stored_first_rows(rows, backwards(self.ordering), self.k, threshold, later=True)

    def _keep(self, rows: SelectedRows) -> None:
        """Find the last rows from the columns that order them."""
        if len(rows) > self.k:
            chosen = _last_rows(rows.values(self.by), self.ordering, self.k)
            rows.keep(rows.places()[np.sort(chosen)])

    def _first_rows(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.take(np.sort(_last_rows(unit.table, self.ordering, self.k)))


class _SharedLastOfSort(PartialLastOfSort):
    """The clause in one run in one process."""

    _key_threshold: KeyThreshold

    @classmethod
    def of(cls, clause: PartialLastOfSort) -> _SharedLastOfSort:
        found = cls(clause.k, clause.by, clause.descending, clause.missing)
        # No field: it says nothing of what the clause is.
        object.__setattr__(found, "_key_threshold", KeyThreshold())
        return found

    def choose(self, rows: Batch) -> Rows | None:
        return self._chosen(rows, self._key_threshold)

    def settle(self, first_row: int) -> Rows | None:
        return self._key_threshold.still_needed(first_row)


def backwards(ordering: Ordering) -> Ordering:
    """Return the order that begins where another ends."""
    descending = tuple(not downwards for downwards in ordering.descending)
    missing: Missing = "first" if ordering.missing == "last" else "last"
    return dataclasses.replace(ordering, descending=descending, missing=missing)


def _last_rows(table: pa.Table, ordering: Ordering, count: int) -> Rows:
    """Return the last rows of a table in an order, in that order; int64."""
    turned = np.arange(table.num_rows, dtype=np.int64)[::-1]
    keys = table.select(ordering.by).take(arrow_array(turned))
    first = backwards(ordering).first(keys, count)
    first = np.arange(min(count, table.num_rows)) if first is None else first
    found: Rows = turned[first][::-1]
    return found

"""top_k: the rows that a sort would begin with.

The planner puts a :class:`PartialTopK` before it, which of each unit reads the columns that order
rows, and the others only for rows that can be in the answer.

sort and then tail, run as one: the rows that a sort would end with.

The planner makes it of the two. It is ``top_k`` backwards: of rows of equal keys the later ones
are kept, and all come out in the order of the sort.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.base import ClauseInfo, IndexEffect, StreamClause, Structure
from tessel.clauses.capabilities import DynamicFilter
from tessel.clauses.ordering import Missing, Ordering, Rows
from tessel.clauses.positional import check_count
from tessel.clauses.registry import register
from tessel.clauses.sort import OrderedClause
from tessel.clauses.spill.sorting import ExternalSort
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.top_rows import TopRows, backwards, first_rows
from tessel.clauses.units.reduced import unit_of_table, units_of_tables
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_MOST_GATHERED = 100_000
"""Rows a unit up to which what is left of the units may be gathered in one process."""


class _First(OrderedClause):
    """What the clauses here share: by what rows are ordered, how many are kept, from which end."""

    k: int
    later: ClassVar[bool] = False
    """Whether the last rows are kept, of equal ones the later."""

    def __post_init__(self) -> None:
        check_count("top_k", self.k)
        if self.k < 0:
            raise PlanError(f"top_k keeps at least no rows, not {self.k}", clause="top_k")
        self.ordering.check("top_k")

    @property
    def _from_end(self) -> Ordering:
        """The order in which the rows that are kept come first."""
        return backwards(self.ordering) if self.later else self.ordering

    def _first_rows(self, table: pa.Table) -> Rows:
        """Return which rows of a table are kept, in order."""
        found = first_rows(table, self._from_end, self.k, later=self.later)
        return found[::-1] if self.later else found


@register
@dataclass(frozen=True)
class TopK(_First, StreamClause):
    """Keep the ``k`` rows that come first in an order, in that order.

    It is ``sort`` and then ``head``, ties included: of rows of equal keys those that come first in
    the table are kept. No more than ``k`` rows and one unit are held; where these are more than the
    byte budget allows, they are sorted in files.

    Attributes
    ----------
    k
        How many.
    by, descending, missing
        As in ``sort``.
    """

    name: ClassVar[str] = "top_k"
    k: int
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(self.by),
            keeps_order=False,
            index=IndexEffect.DROP,
            reduced=self.k <= _MOST_GATHERED,
        )

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Keep the first rows of what has come so far; sort where these may not be held."""
        index = self.output_schema(schema).index
        with workspace_of(units) as workspace, contextlib.ExitStack() as held:
            best = schema.empty()
            rows: ExternalSort | None = None
            added = 0
            for unit in units:
                if not self.k or not unit.num_rows:
                    continue
                if rows is not None:
                    rows.add(unit.table)
                    added += unit.num_rows
                    continue
                best = self._first(concat_tables([best, unit.table]))
                # One array a column, so that the unit it came from is let go of.
                best = best.unify_dictionaries().combine_chunks()
                held.close()
                if workspace.account.fits(best.nbytes):
                    held.enter_context(workspace.account.holding(best.nbytes))
                    continue
                sort = ExternalSort(self.ordering, schema.arrow, workspace)
                rows = held.enter_context(sort)
                rows.add(best)  # rows of equal keys: those that came first are first
                added += best.num_rows
                best = schema.empty()
            if rows is not None:
                yield from units_of_tables(self._of_sorted(rows.sorted(), added), index, workspace)
            elif best.num_rows:
                yield unit_of_table(0, 0, best, index)

    def _first(self, table: pa.Table) -> pa.Table:
        """Return the first rows of a table, in order."""
        return table.take(arrow_array(self._first_rows(table), pa.int64()))

    def _of_sorted(self, tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
        """Return the first rows of tables in order, which have ``rows`` together."""
        before = max(0, rows - self.k) if self.later else 0
        left = self.k
        for table in tables:
            part = table.slice(min(before, table.num_rows), left)
            before -= min(before, table.num_rows)
            left -= part.num_rows
            yield part
            if not left:
                return


@register
@dataclass(frozen=True)
class PartialTopK(_First):
    """Keep the first rows of each unit, in their own order: what can be among the first of all.

    Those of units that are not read are found by :class:`TopRows`.
    """

    name: ClassVar[str] = "partial_top_k"
    internal: ClassVar[bool] = True
    k: int
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order kept."""
        return ClauseInfo(columns=frozenset(self.by))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema: rows are dropped, and stay in order."""
        self.ordering.check_types(input_schema)
        return input_schema

    def open_filter(self) -> DynamicFilter:
        """Return the threshold of one run: nothing is known of it yet."""
        return TopRows(self._from_end, self.k, later=self.later)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the first rows of the unit, where they are."""
        if unit.num_rows <= self.k:
            return unit
        return unit.take(np.sort(self._first_rows(unit.table)))


@register
@dataclass(frozen=True)
class LastOfSort(TopK):
    """Keep the ``k`` rows that come last in an order, in that order."""

    name: ClassVar[str] = "last_of_sort"
    internal: ClassVar[bool] = True
    later: ClassVar[bool] = True


@register
@dataclass(frozen=True)
class PartialLastOfSort(PartialTopK):
    """Keep the last rows of each unit by an order, in their own."""

    name: ClassVar[str] = "partial_last_of_sort"
    internal: ClassVar[bool] = True
    later: ClassVar[bool] = True

"""sort: rows by the values of columns, and the forms it is run in.

The planner runs a sort as :class:`MergeSorted`, which holds no more than the byte budget allows; as
nothing at all where the time index says that the rows are in order; and as ``top_k`` where a
``head`` follows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.index_values import index_integers, with_times_of_index
from tessel.clauses.ordering import Missing, Ordering
from tessel.clauses.registry import register
from tessel.clauses.spill.workspace import UnitStream, Workspace, workspace_of
from tessel.clauses.units.reduced import units_of_tables
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


class OrderedClause(Clause):
    """What clauses share that order rows by columns: by which, and what that leaves."""

    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"

    @property
    def ordering(self) -> Ordering:
        """By what rows are ordered."""
        return Ordering(self.by, self.descending, self.missing)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's columns; the index stays one where the first key is it, ascending."""
        self.ordering.check_types(input_schema)
        kept = self.ordering.keeps_index(input_schema)
        return TableSchema(input_schema.arrow, input_schema.index if kept else None)


class _Sorting(OrderedClause):
    """What the forms of sort share: every row comes out once, in another order."""

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, every row once."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(self.by),
            keeps_order=False,
            keeps_count=True,
            index=IndexEffect.DROP,
        )

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Order the rows of one unit."""
        order = self.ordering.order(unit.table.select(self.by))
        table = unit.table if order is None else unit.table.take(arrow_array(order))
        schema = self.output_schema(unit.schema)
        found = unit.replace(table.select(schema.names))
        return with_times_of_index(found.with_pieces(found.pieces, schema))


@register
@dataclass(frozen=True)
class Sort(_Sorting):
    """Order the rows by one column or several.

    Attributes
    ----------
    by
        The columns, the most significant first: bool, numbers, decimals, text, binary, dates,
        times, timestamps, durations, and dictionaries of these by their values.
    descending
        For each column whether it is ordered downwards.
    missing
        Where rows go that miss a value: ``"last"`` or ``"first"``, in both directions.

    Notes
    -----
    Stable: rows of equal keys keep their order, also downwards. Null and NaN are one key; −0.0 and
    0.0 are one; False is before True; text is ordered by code point. The rows have a time index
    afterwards only where the first key is the index, ascending.
    """

    name: ClassVar[str] = "sort"
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"

    def __post_init__(self) -> None:
        self.ordering.check(self.name)


@register
@dataclass(frozen=True)
class MergeSorted(_Sorting):
    """Bring all rows into one order: the form in which a sort is run.

    It holds no more than the byte budget allows.

    Attributes
    ----------
    by, descending, missing
        As in :class:`Sort`.
    without
        Columns that are left out at the end, such as a hidden one that was ordered by.
    index
        The time index of the result, which the order must be that of; None leaves what a sort
        leaves.
    groups
        Whether the rows are groups: about as many come in as the result has.

    Notes
    -----
    Where the rows are in the order of the first key already, because it is the time index, only
    rows of one time are held together. Otherwise see :class:`ExternalSort`.
    """

    name: ClassVar[str] = "merge_sorted"
    internal: ClassVar[bool] = True
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"
    without: tuple[str, ...] = ()
    index: str | None = None
    groups: bool = False

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, every row once."""
        return dataclasses.replace(
            super().structure,
            columns=frozenset((*self.by, *self.without)),
            index=IndexEffect.DROP if self.index is None else IndexEffect.REPLACE,
            reduced=self.groups,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's columns but for those left out."""
        index = self.index or super().output_schema(input_schema).index
        names = [name for name in input_schema.names if name not in self.without]
        return TableSchema(input_schema.select(names).arrow, index)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Order everything within the byte budget."""
        after = self.output_schema(schema)
        with workspace_of(units) as workspace:
            if self.ordering.keeps_index(schema):
                tables = self._time_by_time(units, schema, workspace)
            else:
                tables = self._all(units, schema, workspace)
            selected = (table.select(after.names) for table in tables)
            yield from units_of_tables(selected, after.index, workspace)

    def _all(
        self, units: Iterable[ProcessingUnit], schema: TableSchema, workspace: Workspace
    ) -> Iterator[pa.Table]:
        from tessel.clauses.spill.sorting import ExternalSort

        is_result = isinstance(units, UnitStream) and units.is_result
        with ExternalSort(self.ordering, schema.arrow, workspace, is_result=is_result) as rows:
            for unit in units:
                rows.add(unit.table_as_read)
            yield from rows.sorted()

    def _time_by_time(
        self, units: Iterable[ProcessingUnit], schema: TableSchema, workspace: Workspace
    ) -> Iterator[pa.Table]:
        """Order rows whose index never goes back: a time is complete when a later one has come."""
        from tessel.clauses.spill.sorting import ExternalSort

        rows = ExternalSort(self.ordering, schema.arrow, workspace)
        latest: int | None = None
        try:
            for unit in units:
                if not unit.num_rows:
                    continue
                times = index_integers(unit)
                complete = int(np.searchsorted(times, times[-1]))
                rows.add(unit.table.slice(0, complete))
                if latest is not None and times[-1] > latest:
                    yield from rows.sorted()
                    rows.close()
                    rows = ExternalSort(self.ordering, schema.arrow, workspace)
                rows.add(unit.table.slice(complete))
                latest = int(times[-1])
            yield from rows.sorted()
        finally:
            rows.close()

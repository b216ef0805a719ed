"""value_counts: how often each value occurs.

A short word for a groupby, a sort and a division: the planner writes it as these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.aggregation import Aggregation
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, ShortClause, Structure
from tessel.clauses.partition import Partition
from tessel.clauses.registry import register
from tessel.clauses.results import NamedAggregate
from tessel.clauses.sort import Sort
from tessel.clauses.spill.spool import AsideUnit
from tessel.clauses.spill.workspace import workspace_of
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class ValueCounts(ShortClause):
    """One row for each value of a column, or of several together, and how often it occurs.

    Attributes
    ----------
    columns
        What is counted.
    sort
        Whether the most frequent come first, values of one frequency in their order; otherwise in
        order of first appearance.
    normalise
        Whether the count is given as a part of all rows counted, float64.
    drop_missing
        Whether rows that miss a value are left out; otherwise missing is a value like others.
    output
        Name of the column of counts; None is ``count``, and ``proportion`` of parts.
    """

    name: ClassVar[str] = "value_counts"
    columns: tuple[str, ...]
    sort: bool = True
    normalise: bool = False
    drop_missing: bool = True
    output: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError("value_counts needs a column", hint='value_counts("venue")')
        self._clauses()  # what the clauses refuse is refused here

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(self.columns),
            adds=frozenset([self._output]),
            keeps_order=False,
            index=IndexEffect.DROP,
        )

    @property
    def _output(self) -> str:
        return self.output or ("proportion" if self.normalise else "count")

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the clauses that the word is short for."""
        return self._clauses()

    def _clauses(self) -> tuple[Clause, ...]:
        counted = NamedAggregate(self._output, None, find_aggregate("size"))
        clauses: list[Clause] = [
            Partition(self.columns, self.drop_missing),
            Aggregation(self.columns, (counted,), self.sort),
        ]
        if self.sort:
            clauses.append(Sort((self._output,), (True,)))
        if self.normalise:
            clauses.append(Shares(self._output))
        return tuple(clauses)


@register
@dataclass(frozen=True)
class Shares(Clause):
    """A column of counts as parts of their sum."""

    name: ClassVar[str] = "shares"
    internal: ClassVar[bool] = True
    column: str

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, every row once."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset([self.column]),
            adds=frozenset([self.column]),
            keeps_count=True,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with float64 for the counts."""
        input_schema.require([self.column])
        return input_schema.with_column(self.column, pa.float64())

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Divide by the sum of all."""
        counts = numpy_array(unit.column(self.column))
        return self._over(unit, int(counts.sum()))

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Add up the counts of everything within the byte budget, then divide by the sum."""
        with workspace_of(units) as workspace, workspace.spool() as spool:
            aside: list[AsideUnit] = []
            total = 0
            for unit in units:
                total += int(numpy_array(unit.column(self.column)).sum())
                aside.append(AsideUnit(unit, spool))
            for each in aside:
                yield self._over(each.unit(), total)

    def _over(self, unit: ProcessingUnit, total: int) -> ProcessingUnit:
        counts = numpy_array(unit.column(self.column))
        # Both are whole numbers below 2**53, so that the quotient is rounded once.
        return unit.with_column(self.column, arrow_array(counts / np.float64(max(1, total))))

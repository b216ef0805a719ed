"""apply_together: a run of ``apply``, none of which reads what another makes, as one clause.

A thousand columns added one by one make a thousand tables of up to a thousand columns each, and as
many schemas in each pass of the planner. Together they make one.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import ClassVar

from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.computed import ComputedColumn
from tessel.clauses.filter import Filter
from tessel.clauses.registry import register
from tessel.clauses.running.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema

__all__ = ["ApplyTogether", "together"]

_LEAST = 16
"""Shorter runs stay as they are written: they cost little, and each apply can be moved alone."""


@register
@dataclass(frozen=True)
class ApplyTogether(Clause):
    """Add columns, or replace them where they stand; each is computed of the columns before."""

    name: ClassVar[str] = "apply_together"
    internal: ClassVar[bool] = True
    columns: tuple[ComputedColumn, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset().union(*(each.expression.columns() for each in self.columns)),
            adds=frozenset(each.name for each in self.columns),
            keeps_count=True,
            index=IndexEffect.KEEP,
        )

    def applies(self) -> list[Apply]:
        """Return one clause a column."""
        return [Apply(each.name, each.expression) for each in self.columns]

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the columns added or replaced."""
        try:
            types = {each.name: each.expression.result_type(input_schema) for each in self.columns}
        except TesselError:
            for each in self.applies():  # whose error knows the columns made so far
                input_schema = each.output_schema(input_schema)
            raise
        return input_schema.with_columns(types)

    def narrowed(self, needed: Set[str]) -> ApplyTogether | None:
        """Return the clause for those of its columns that are needed; None where none is."""
        kept = tuple(each for each in self.columns if each.name in needed)
        return ApplyTogether(kept) if kept else None

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute the columns; an error names the one it happened in."""
        if is_bound(unit):
            return unit.with_columns({each.name: each.expression for each in self.columns})
        made = {}
        for each in self.columns:
            try:
                made[each.name] = unit.evaluate(each.expression)
            except TesselError as error:
                error.with_context(clause=Apply(each.name, each.expression).describe())
                raise
        return unit.with_columns(made)


def together(clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """Return clauses with long runs of ``apply`` as one clause each.

    A run ends before a column that reads or replaces what the run makes, and behind one that a
    filter reads: a filter that is moved comes as far as without.
    """
    clauses = tuple(clauses)
    read = frozenset().union(*(c.predicate.columns() for c in clauses if type(c) is Filter))
    runs: list[list[Clause]] = [[]]
    made: set[str] = set()
    for clause in clauses:
        uses = {clause.column} | clause.expression.columns() if type(clause) is Apply else None
        if uses is None or not made.isdisjoint(uses):
            runs.append([])
            made.clear()
        runs[-1].append(clause)
        if type(clause) is not Apply or clause.column in read:
            runs.append([])
            made.clear()
        else:
            made.add(clause.column)
    found: list[Clause] = []
    for run in runs:
        columns = tuple(ComputedColumn(c.column, c.expression) for c in run if type(c) is Apply)
        found += run if len(columns) < _LEAST else [ApplyTogether(columns)]
    return tuple(found)

"""apply_together: a run of ``apply`` as one clause.

A thousand columns added one by one make a thousand tables of up to a thousand columns each, and as
many schemas in each pass of the planner. Together they make one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.filter import Filter
from tessel.clauses.registry import register
from tessel.clauses.units.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

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
        made: set[str] = set()
        read: set[str] = set()
        for each in self.columns:
            read |= each.expression.columns() - made
            made.add(each.name)
        return ClauseInfo(columns=frozenset(read), adds=frozenset(made), keeps_count=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the columns added or replaced."""
        made = {
            each.name: each.expression.result_type(known)
            for each, known in self.in_turn(input_schema)
        }
        return input_schema.with_columns(made)

    def in_turn(self, input_schema: TableSchema) -> Iterator[tuple[ComputedColumn, TableSchema]]:
        """Give each column with a schema of those that it reads, with the types they have then."""
        made: dict[str, pa.DataType] = {}
        for each in self.columns:
            known = input_schema.of_columns(each.expression.columns(), made)
            yield each, known
            made[each.name] = each.expression.result_type(known)

    def narrowed(self, needed: Set[str]) -> ApplyTogether | None:
        """Return the clause for those of its columns that are needed; None where none is."""
        left, kept = set(needed), list[ComputedColumn]()
        for each in reversed(self.columns):
            if each.name in left:
                left.remove(each.name)
                left |= each.expression.columns()
                kept.append(each)
        return ApplyTogether(tuple(reversed(kept))) if kept else None

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute the columns; an error names the one it happened in."""
        if is_bound(unit):
            return unit.with_columns({each.name: each.expression for each in self.columns})
        made: dict[str, pa.ChunkedArray] = {}
        for each in self.columns:
            try:
                made[each.name] = unit.evaluate(each.expression, made)
            except TesselError as error:
                error.with_context(clause=Apply(each.name, each.expression).describe())
                raise
        return unit.with_columns(made)


def together(clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """Return clauses with long runs of ``apply`` as one clause each.

    A run ends behind a column that a filter reads: a filter that is moved comes as far as without.
    It ends before a column that it makes already, since a mapping has one of each name.
    """
    clauses = tuple(clauses)
    read = frozenset().union(*(c.predicate.columns() for c in clauses if type(c) is Filter))
    runs: list[list[Clause]] = [[]]
    made: set[str] = set()
    for clause in clauses:
        if type(clause) is not Apply or clause.column in made:
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

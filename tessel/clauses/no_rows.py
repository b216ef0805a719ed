"""no_rows: what a query starts with of which no row can come out; made by the planner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

__all__ = ["NoRows"]


@register
@dataclass(frozen=True)
class NoRows(Clause):
    """No rows of a schema, whatever comes in, of which nothing is read.

    Attributes
    ----------
    schema
        The columns that come out.
    reason
        What keeps nothing, for explain.
    """

    name: ClassVar[str] = "no_rows"
    internal: ClassVar[bool] = True
    schema: TableSchema
    reason: str = ""

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out; no column is read."""
        return ClauseInfo(
            Structure.ALL,
            Structure.ROW_SLICE,
            columns=frozenset(),
            adds=frozenset(self.schema.names),
            index=IndexEffect.REPLACE,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns that come out."""
        return self.schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Return no rows."""
        return unit.replace(self.schema.empty(), index=self.schema.index)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give nothing, and take nothing: what stands before does not run."""
        yield from ()

    def describe(self) -> str:
        """Return the name, and what keeps nothing."""
        return f"{self.name}({self.reason})"

"""apply: add a column computed from others, or replace one."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Apply(Clause):
    """Add the column ``column``, or replace it where it stands; any result type.

    Replacing the index column takes away its role as index.
    """

    name: ClassVar[str] = "apply"
    column: str
    expression: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise PlanError(
                f"apply needs a name for the column it makes, not {self.column!r}",
                clause=self.name,
            )
        if not isinstance(self.expression, Expression):
            raise PlanError(
                f"apply takes an expression, not {self.expression!r}",
                hint='text is read by q.apply("name", "a + b") and by parse("a + b")',
                clause=self.name,
            )

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=self.expression.columns(), adds=frozenset([self.column]), keeps_count=True
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the column added or replaced."""
        return input_schema.with_column(self.column, self.expression.result_type(input_schema))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute the column."""
        return unit.with_column(self.column, self.expression)

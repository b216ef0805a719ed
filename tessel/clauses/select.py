"""select: keep some columns, in the order given."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Select(Clause):
    """Keep these columns, in this order. Without the index column the result has no time index."""

    name: ClassVar[str] = "select"
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError(
                "select needs at least one column",
                hint="leave it out for all columns; count() counts rows",
                clause=self.name,
            )
        column = repeated(self.columns)
        if column is not None:
            raise DuplicateColumnError(
                f"select names {column!r} twice", hint="name it once", column=column
            )

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(columns=frozenset(self.columns), keeps_count=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of these columns; unknown names are refused."""
        return input_schema.select(self.columns)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the columns."""
        return unit.select(self.columns)

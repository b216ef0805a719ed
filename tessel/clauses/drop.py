"""drop: leave some columns out."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo, Structure
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

__all__ = ["Drop"]


@register
@dataclass(frozen=True)
class Drop(Clause):
    """Leave these columns out. Without the index column the result has no time index."""

    name: ClassVar[str] = "drop"
    columns: tuple[str, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset(self.columns),
            keeps_count=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema without these columns; unknown names are refused."""
        input_schema.require(self.columns)
        dropped = set(self.columns)
        kept = [name for name in input_schema.names if name not in dropped]
        if not kept:
            raise PlanError("drop leaves no column", hint="keep at least one", clause=self.name)
        return input_schema.select(kept)

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the ``select`` of what is left, which reads nothing more."""
        from tessel.clauses.select import Select

        return (Select(tuple(self.output_schema(schema).names)),)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Leave the columns out."""
        dropped = set(self.columns)
        return unit.select([name for name in unit.schema.names if name not in dropped])

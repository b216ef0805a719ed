"""drop: leave some columns out."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo, ShortClause
from tessel.clauses.registry import register
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Drop(ShortClause):
    """Leave these columns out. Without the index column the result has no time index."""

    name: ClassVar[str] = "drop"
    columns: tuple[str, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(columns=frozenset(self.columns), keeps_count=True)

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the ``select`` of what is left, which reads nothing more."""
        from tessel.clauses.select import Select

        schema.require(self.columns)
        dropped = set(self.columns)
        kept = tuple(name for name in schema.names if name not in dropped)
        if not kept:
            raise PlanError("drop leaves no column", hint="keep at least one", clause=self.name)
        return (Select(kept),)

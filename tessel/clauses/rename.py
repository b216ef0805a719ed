"""rename: give columns other names."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Rename(Clause):
    """Give columns other names; the index keeps its role under its new name.

    Attributes
    ----------
    columns
        Pairs of old and new name. All are renamed at once, so two columns may trade names.
    """

    name: ClassVar[str] = "rename"
    columns: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for pair in self.columns:  # a Series named "" is a column of that name
            for name in pair:
                if not isinstance(name, str) or not pair[1]:
                    raise PlanError(f"rename: {name!r} is no column name", clause=self.name)
        old = repeated(old for old, _ in self.columns)
        if old is not None:
            raise PlanError(f"rename gives {old!r} two new names", clause=self.name)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=frozenset(old for old, _ in self.columns),
            adds=frozenset(new for _, new in self.columns),
            keeps_count=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the new names; unknown and colliding names are refused."""
        return input_schema.rename(dict(self.columns))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Rename the columns."""
        return unit.rename(dict(self.columns))

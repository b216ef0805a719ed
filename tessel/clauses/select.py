"""select, drop and rename: which columns there are, and what they are called."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo, ShortClause
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
        schema.require(self.columns)
        dropped = set(self.columns)
        kept = tuple(name for name in schema.names if name not in dropped)
        if not kept:
            raise PlanError("drop leaves no column", hint="keep at least one", clause=self.name)
        return (Select(kept),)


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

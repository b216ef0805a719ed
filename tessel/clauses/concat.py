"""concat: the rows of several symbols, one after another, each with clauses of its own first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from tessel.clauses.base import ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import (
    AlignColumns,
    CombinedInput,
    Combining,
    Lowered,
    PlanLimits,
    SubQuery,
    common_schema,
)
from tessel.clauses.registry import register
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Concat(Combining):
    """The rows of this query, then those of the others, in the order given.

    Attributes
    ----------
    others
        The other symbols.
    join
        ``"outer"`` keeps every column, in order of first appearance; one that a symbol does not
        have is missing in its rows. ``"inner"`` keeps the columns that all have.

    Notes
    -----
    Columns of one name get the narrowest type that holds all of theirs without loss (see
    :func:`tessel.store.promotion.promote`). The result has no time index: nothing promises that
    the rows of several symbols are in time order.
    """

    name: ClassVar[str] = "concat"
    chains: ClassVar[bool] = True
    others: tuple[SubQuery, ...]
    join: Literal["outer", "inner"] = "outer"

    def __post_init__(self) -> None:
        if self.join not in ("outer", "inner"):
            raise PlanError(f"concat: join is {self.join!r}", hint="it is outer or inner")

    @property
    def structure(self) -> ClauseInfo:
        """Units of several symbols in, row slices out."""
        return ClauseInfo(Structure.MULTI_SYMBOL, index=IndexEffect.DROP)

    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the schema of the result from those of all inputs."""
        return TableSchema(common_schema("concat", schemas, self.join))

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]]:
        """Return the columns of those names."""
        return [columns & set(schema.names) for schema in schemas]

    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return what aligns the columns: the units are in order already."""
        return Lowered((AlignColumns(combined),))

"""join_asof: beside each row, the row of another symbol that was the last before it, or nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo, Structure
from tessel.clauses.combining import (
    CombinedInput,
    Combining,
    Lowered,
    PlanLimits,
    SemiJoin,
    SubQuery,
)
from tessel.clauses.joining.asof_shape import DIRECTIONS, AsofShape, Direction, check_tolerance
from tessel.clauses.joining.asof_steps import AsofInputs, BroadcastAsof, HashAsof, InOrder
from tessel.clauses.joining.hashed import ExpandJoined, JoinPartition
from tessel.clauses.joining.shape import check_suffix
from tessel.clauses.joining.steps import bucket_count, is_held_whole
from tessel.clauses.registry import register
from tessel.errors import DuplicateColumnError, IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import check_index_type


@register
@dataclass(frozen=True)
class JoinAsof(Combining):
    """Each row of this query, the left, beside the row of another, the right, nearest in time.

    Attributes
    ----------
    other
        The right: a symbol with clauses of its own first.
    on
        The columns of time, left and right, each ordered already; by default the time indexes.
    by
        Pairs of columns, left and right, that must be equal too.
    tolerance
        How far apart the two may be, both ends included: a span such as ``"5s"`` (``"1D"`` is 24
        hours), or a whole number in the unit of the left's times. By default any distance.
    direction
        ``"backward"``: the last row of the right not after the left's. ``"forward"``: the first not
        before it. ``"nearest"``: whichever of these is less far, the earlier where both are as far.
    allow_exact_matches
        Whether rows of the very same time go together; otherwise before and after mean strictly so.
    suffix
        Added to the name of a right column that the left has as well.

    Notes
    -----
    Every row of the left comes out once, in its order, with its time index; where there is no row
    for it the right's columns are missing. Of rows of the right with equal times the last is taken,
    in any direction. A key that is missing (null or NaN) equals nothing.

    Columns are those of the left, then those of the right but for its keys, and but for its time
    where that has the left's name: rename it first to see the time of what was matched. Times of
    different units are compared in the finer one.

    A column of ``on`` that is not the time index is checked while it passes: where it goes back or
    is missing the query ends, naming the symbol and the row.
    """

    name: ClassVar[str] = "join_asof"
    other: SubQuery
    on: tuple[str, str] | None = None
    by: tuple[tuple[str, str], ...] = ()
    tolerance: str | int | None = None
    direction: Direction = "backward"
    allow_exact_matches: bool = True
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise PlanError(
                f"join_asof: direction is {self.direction!r}",
                hint=f"it is one of {', '.join(DIRECTIONS)}",
            )
        check_tolerance(self.tolerance)
        for pair in self.by:
            if self.by.count(pair) > 1:
                raise DuplicateColumnError(f"join_asof names the keys {pair} twice", column=pair[0])
        check_suffix(self.name, self.suffix)

    @property
    def others(self) -> tuple[SubQuery, ...]:  # type: ignore[override]
        """The right, as all clauses over several symbols have it."""
        return (self.other,)

    structure = ClauseInfo(Structure.MULTI_SYMBOL, uses_index=True, keeps_count=True)

    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the columns of both; times and keys that cannot be compared are refused."""
        return self._shape(schemas).schema

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]]:
        """Return the columns of those names, times and keys, and what gives one its suffix."""
        shape = self._shape(schemas)
        return shape.reads(columns, shape.index)

    def semi_joins(self, schemas: Sequence[TableSchema]) -> list[SemiJoin]:
        """Return the right by the keys of the left, where no row of the right can raise.

        That is where its order is not checked, and its times need not be counted in another unit.
        """
        left, right = schemas
        one, two = self._shape(schemas).index
        may_raise = two != right.index or left.type_of(one) != right.type_of(two)
        on = tuple((theirs, ours) for ours, theirs in self.by)
        return [] if may_raise or not on else [SemiJoin(1, 0, on)]

    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return one of three ways by the size of the right, and whether there are keys."""
        schemas = [each.schema for each in inputs]
        left, right = (each.name for each in inputs)
        shape = self._shape(schemas)
        before: list[tuple[Clause, ...]] = [
            () if schema.index == index else (InOrder(index, each.name),)
            for schema, index, each in zip(schemas, shape.index, inputs, strict=True)
        ]
        if is_held_whole(inputs[1], limits):
            coded = tuple(zip(*self.by, strict=True))
            return Lowered((BroadcastAsof(shape, right),), tuple(before), coded)
        if not self.by:
            return Lowered((AsofInputs(shape, (left, right)),), tuple(before))
        buckets = bucket_count(inputs, limits)
        for at, side in enumerate(("left", "right")):
            before[at] += (JoinPartition(shape, side, buckets),)  # type: ignore[arg-type]
        return Lowered((HashAsof(shape, buckets), ExpandJoined(shape)), tuple(before))

    def _shape(self, schemas: Sequence[TableSchema]) -> AsofShape:
        names = self.on or (None, None)
        left, right = (
            _timed(schema, name, where)
            for schema, name, where in zip(
                schemas,
                names,
                ("the left of the join", f"the right, {self.other.symbol!r}"),
                strict=True,
            )
        )
        left.require([one for one, _ in self.by], where="the left of the join")
        right.require([two for _, two in self.by], where=f"the right, {self.other.symbol!r}")
        shape = AsofShape(
            left,
            right,
            self.by,
            self.direction,
            self.tolerance,
            self.allow_exact_matches,
            self.suffix,
        )
        # Found now: keys and times that are not compared, a tolerance that does not fit them.
        _ = shape.time_type, shape.key_types, shape.most_apart
        return shape


def _timed(schema: TableSchema, column: str | None, where: str) -> TableSchema:
    """Return a schema whose index is the column of time."""
    if column is None:
        if schema.index is None:
            raise IndexColumnError(
                f"join_asof: no time index in {where}",
                hint='name an ordered column: join_asof(…, on="column"); merge(on="column") orders',
            )
        return schema
    schema.require([column], where=where)
    check_index_type(schema.arrow, column)
    return TableSchema(schema.arrow, column)

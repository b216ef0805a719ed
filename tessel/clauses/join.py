"""join: rows of this query and of another symbol whose keys are equal, side by side."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

from tessel.clauses.base import ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import (
    CombinedInput,
    Combining,
    Lowered,
    MakesLookup,
    PlanLimits,
    SemiJoin,
    SubQuery,
)
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.joining.broadcast import AppendUnmatched, BroadcastJoin
from tessel.clauses.joining.hashed import ExpandJoined, HashJoin, JoinPartition
from tessel.clauses.joining.shape import HOW, How, JoinShape, columns_beside
from tessel.clauses.joining.steps import bucket_count, is_held_whole, is_left_held
from tessel.clauses.registry import register
from tessel.clauses.sort import MergeSorted
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Join(Combining):
    """The rows of this query, the left, beside those of another, the right, that have their keys.

    Attributes
    ----------
    other
        The right: a symbol with clauses of its own first.
    on
        Pairs of columns that must be equal, left and right.
    how
        Which rows come out: ``"inner"``, those that have a match; ``"left"``, also those of the
        left that have none; ``"right"``, also those of the right; ``"outer"``, both. ``"semi"``
        keeps the rows of the left that have a match, each once, ``"anti"`` those that have none;
        neither adds columns.
    suffix
        Added to the name of a right column that the left has as well.

    Notes
    -----
    Keys are of any type that has equality as a whole. Columns of different types are compared by
    value where one type holds both without loss: integers of any width, dictionaries as their
    values, instants of any unit; −0.0 is 0.0. A missing key (null or NaN) equals nothing, not even
    another missing one.

    Rows come out in the order of the left, and the matches of each in the order of the right; rows
    of the right without a match come last, in their order, also for ``"right"``. So the left's time
    index stays, except where unmatched rows of the right come out.

    Columns are those of the left, then those of the right but for its keys. A pair of keys is one
    column, named as on the left; where rows of the right come out alone it holds the right's key,
    in a type that holds both.
    """

    name: ClassVar[str] = "join"
    other: SubQuery
    on: tuple[tuple[str, str], ...]
    how: How = "inner"
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise PlanError(f"join: how is {self.how!r}", hint=f"it is one of {', '.join(HOW)}")
        if not self.on:
            raise PlanError("join needs a column to join on", hint='join("other", on="key")')
        pair = repeated(self.on)
        if pair is not None:
            raise DuplicateColumnError(f"join names the keys {pair} twice", column=pair[0])

    @property
    def others(self) -> tuple[SubQuery, ...]:  # type: ignore[override]
        """The right, as all clauses over several symbols have it."""
        return (self.other,)

    @property
    def structure(self) -> ClauseInfo:
        """Units of two symbols in, row slices out, in the order of the left."""
        keeps = self.how not in ("right", "outer")
        return ClauseInfo(
            Structure.MULTI_SYMBOL, index=IndexEffect.KEEP if keeps else IndexEffect.DROP
        )

    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the columns of both; keys that cannot be compared are refused."""
        return self._shape(schemas).schema

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]]:
        """Return the columns of those names, the keys, and what gives a right column its suffix."""
        shape = self._shape(schemas)
        left, right = columns_beside(shape.left, shape.right_names, columns)
        return [left | {one for one, _ in self.on}, right | {two for _, two in self.on}]

    def semi_joins(self, schemas: Sequence[TableSchema]) -> list[SemiJoin]:
        """Return the sides of which only rows with a match come out."""
        found = []
        if self.how in ("inner", "right", "semi"):
            found.append(SemiJoin(0, 1, self.on))
        if self.how in ("inner", "left", "semi", "anti"):
            found.append(SemiJoin(1, 0, tuple((two, one) for one, two in self.on)))
        return found

    def as_lookup(self, schemas: Sequence[TableSchema]) -> MakesLookup | None:
        """Return what makes a filter by the keys of the right, and look-ups of its columns."""
        from tessel.clauses.joining.as_lookup import as_lookup, looks_up

        shape = self._shape(schemas)
        return functools.partial(as_lookup, shape) if looks_up(shape) else None

    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return a probe of the right, held whole, or of the left; of two large ones by buckets."""
        shape = self._shape([each.schema for each in inputs])
        keys = tuple(zip(*self.on, strict=True))  # of the left, and of the right
        if is_held_whole(inputs[1], limits):
            if shape.keeps_right:
                return Lowered((BroadcastJoin(shape), AppendUnmatched(shape)), coded=keys)
            codes = tuple(name for name in combined.names if name in limits.codes)
            ours = tuple(name for name in codes if name in shape.left and name not in keys[0])
            return Lowered((BroadcastJoin(shape, codes),), coded=((*keys[0], *ours), keys[1]))
        if self.how == "inner" and is_left_held(inputs[0], limits):
            index = shape.schema.index
            ordered = MergeSorted((POSITION,), (False,), without=(POSITION,), index=index)
            probe = BroadcastJoin(shape, held="left")
            return Lowered((probe, ordered), coded=keys, turned=True)
        buckets = bucket_count(inputs, limits)
        left, right = (
            JoinPartition(shape, "left", buckets),
            JoinPartition(shape, "right", buckets),
        )
        joined = HashJoin(shape, buckets, inputs[0].units)
        return Lowered((joined, ExpandJoined(shape)), ((left,), (right,)))

    def _shape(self, schemas: Sequence[TableSchema]) -> JoinShape:
        left, right = schemas
        left.require([one for one, _ in self.on], where="the left of the join")
        right.require([two for _, two in self.on], where=f"the right, {self.other.symbol!r}")
        return JoinShape(left, right, self.on, self.how, self.suffix)

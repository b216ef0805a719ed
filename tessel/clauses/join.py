"""join: rows of this query and of another symbol whose keys are equal, side by side.

Where few rows are joined, each with a key of its own, the columns of the right are functions of the
left's key. So such a join is a filter by the keys and a
:class:`~tessel.expression.operators.membership.Lookup` for each column, which the planner pushes,
prunes and fuses as it does any other filter and any other computed column.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import (
    CombinedInput,
    Combining,
    Lowered,
    MakesLookup,
    PlanLimits,
    SemiJoin,
    SubQuery,
)
from tessel.clauses.filter import Filter
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.joining.broadcast import AppendUnmatched, BroadcastJoin
from tessel.clauses.joining.hashed import ExpandJoined, HashJoin, JoinPartition
from tessel.clauses.joining.shape import HOW, How, JoinShape, check_suffix
from tessel.clauses.joining.steps import bucket_count, is_held_whole, is_left_held
from tessel.clauses.registry import register
from tessel.clauses.sort import MergeSorted
from tessel.clauses.values import normalised, plain_type
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression import literal_codec
from tessel.expression.leaves import Column, ValueSet
from tessel.expression.operators.boolean import Not, Or
from tessel.expression.operators.membership import IsIn, IsMissing, Lookup
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family
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
        check_suffix(self.name, self.suffix)

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
        return self._shape(schemas).reads(columns)

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


_KEY_FAMILIES = (Family.INTEGER, Family.TEXT, Family.DATE, Family.TIMESTAMP)
"""Keys that are equal where their bits are: of floats, zeros differ. Those of date64 are days, and
its values milliseconds."""


def looks_up(shape: JoinShape) -> bool:
    """Return whether a join is a look-up, where its right has few rows, each with its own key."""
    if shape.keeps_right or len(shape.on) > 1:
        return False
    ((one, two),) = shape.on
    ours, theirs = plain_type(shape.left.type_of(one)), plain_type(shape.right.type_of(two))
    same = ours == theirs or {family(ours), family(theirs)} == {Family.INTEGER}
    if not same or family(theirs) not in _KEY_FAMILIES or pa.types.is_date64(theirs):
        return False
    kinds = [shape.right.type_of(name) for name in shape.right_names]
    return all(plain_type(kind) == kind and literal_codec.kind_of(kind) for kind in kinds)


def as_lookup(shape: JoinShape, rows: pa.Table) -> tuple[Clause, ...] | None:
    """Return the clauses on the left that are a join with these rows; None where it is none.

    Parameters
    ----------
    shape
        Of a join that :func:`looks_up`.
    rows
        The right: its keys, and of its other columns at least those that are read behind the join.
        The others are missing values in what the clauses make.
    """
    ((one, two),) = shape.on
    column = Column(one)
    keys = normalised(rows.column(two))
    known = keys.is_valid()
    keys, rows = keys.filter(known), rows.filter(known)
    if shape.adds_columns and len(keys.unique()) < len(keys):
        return None
    clauses: list[Clause] = []
    if shape.how != "left":
        found = IsIn(column, ValueSet.of(keys))
        clauses.append(
            Filter(Or((Not(found), IsMissing(column))) if shape.how == "anti" else found)
        )
    kind = plain_type(shape.left.type_of(one))
    fitting = _fitting(keys, kind)
    keys, rows = keys.filter(fitting).cast(kind), rows.filter(fitting)
    for name, shown in shape.right_names.items():
        if name in rows.column_names:
            values = rows.column(name).combine_chunks()
        else:
            values = pa.nulls(len(keys), shape.right.type_of(name))
        clauses.append(Apply(shown, Lookup.of_columns(column, keys, values)))
    return tuple(clauses)


def _fitting(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return which keys a type can hold: a column of that type has no others."""
    if not pa.types.is_integer(kind) or keys.type == kind:
        return arrow_array(np.ones(len(keys), np.bool_))
    numbers, held = numpy_array(keys), np.iinfo(kind.to_pandas_dtype())
    return arrow_array((numbers >= held.min) & (numbers <= held.max))

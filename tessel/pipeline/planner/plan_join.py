"""What is asked of the small side of a join first: dynamic filters, and look-ups.

Some rows of an input of a join matter only where another input has their keys: both sides of an
inner join, the right of a left join (:meth:`~tessel.clauses.combining.Combining.semi_joins`). Where
that other input is much smaller, its distinct keys are asked for first, and the plan is made anew
with a filter on the large input: few keys as a set, more as the range that they lie in. The filter
is like any other from there on: it is pushed to the source, prunes segments and pages by zone
maps, and rows are dropped before they are read whole, shuffled or probed.

Which rows it drops is known before the large input is read, so it depends on no order of units. It
is added only where no row of the large input can raise: a row that is not joined may not hide its
error.

Where the small side is the right, and each of its rows has a key of its own, its columns are
functions of the left's key: its rows are asked for in place of its keys, and the plan is made anew
without a join. Clauses on the left stand in its place (:mod:`tessel.clauses.join`),
behind all that the left does, so an error of the left stays one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.combining import (
    CombinedInput,
    Combining,
    MakesLookup,
    PlanLimits,
    SemiJoin,
    SubQuery,
)
from tessel.clauses.distinct import Distinct
from tessel.clauses.filter import Filter
from tessel.clauses.joining.steps import is_held_whole
from tessel.clauses.select import Select
from tessel.clauses.values import normalised, plain_type
from tessel.expression import literal_codec
from tessel.expression.build import all_of
from tessel.expression.checking import cannot_raise
from tessel.expression.leaves import Column, ValueSet, literal
from tessel.expression.node import Expression
from tessel.expression.operators.comparison import GreaterEqual, LessEqual
from tessel.expression.operators.membership import IsIn
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family
from tessel.lazy import dataclass
from tessel.pipeline.plan import Plan, Question, SourcePlan, is_plugin
from tessel.pipeline.planner.commutation import PASSED_BY_FILTERS_ON_THE_LEFT, is_one_of
from tessel.pipeline.planner.draft import Input

if TYPE_CHECKING:
    from tessel.clauses.join import Join

_LEAST_BYTES = 2 << 20
"""A smaller input is read faster than another plan is made."""

_TIMES_SMALLER = 4
"""Keys are asked for where their side has at most this part of the bytes of the other one."""

_MOST_KEYS = 1 << 15
"""More keys become the range that they lie in, and their rows no look-up: a larger set costs more a
row and a segment."""

_MOST_LOOKUP_BYTES = 1 << 20
"""Rows of more bytes are no look-up: they are in each plan, once a column with their keys."""

_MOST_JOINS = 2
"""Keys are asked for at so many joins of a chain: each makes a plan of all those before it."""

_PASSED = ("select", "drop", "rename", "date_range", "sort")
"""Clauses that a filter goes past, and that have a result for every row."""


@dataclass(frozen=True)
class PlannedJoin:
    """A clause over several inputs that is planned, and ways to plan it again.

    Attributes
    ----------
    clause
        Over these inputs.
    schemas
        The columns of the inputs, also those that nobody needs.
    inputs, plans, found
        The inputs as they are read, the plans for that, and what is known of each.
    narrowed
        Plans the clause with a filter behind the input of that number; as it was without one.
    replaced
        Plans clauses on the first input in place of the clause.
    """

    clause: Combining
    schemas: Sequence[TableSchema]
    inputs: Sequence[Input]
    plans: Sequence[Plan]
    found: Sequence[CombinedInput]
    limits: PlanLimits
    plan: Callable[[SubQuery], Plan]
    narrowed: Callable[[int, Filter | None], Plan]
    replaced: Callable[[Sequence[Clause]], Plan]

    def question(self) -> Question | None:
        """Return what is asked of a small input, where a large one gains by it."""
        joins = self.clause.semi_joins([each.schema for each in self.inputs])
        by_bytes = sorted(joins, key=lambda join: -self.found[join.of].bytes)
        narrowing = next(filter(self._may_narrow, by_bytes), None)
        look_up = self.clause.as_lookup(self.schemas)
        if look_up is not None and self._may_look_up():
            asked = self.inputs[1]
            purpose = "rows of input 2, which are looked up for those of input 1"
            revise: Callable[[pa.Table], Plan] = functools.partial(
                self._looked_up, look_up, narrowing
            )
            saves = self.found[0].bytes
        elif narrowing is not None:
            names = dict.fromkeys(name for _, name in self._compared(narrowing))
            asked = self.inputs[narrowing.by].then(Select(tuple(names)), Distinct())
            purpose = f"keys of input {narrowing.by + 1}, which prune input {narrowing.of + 1}"
            revise = functools.partial(self._filtered, narrowing)
            saves = self.found[narrowing.of].bytes
        else:
            return None
        return Question(self.plan(asked.query), revise, saves, purpose)

    def _may_look_up(self) -> bool:
        """Return whether the second input may be asked for its rows."""
        first, second = self.found[:2]
        return (
            second.bytes <= min(first.bytes, _MOST_LOOKUP_BYTES)
            and self._is_small(1, beside=0)
            and _may_be_narrowed(self.inputs[0].query.clauses, self.plans[0])
        )

    def _is_small(self, number: int, *, beside: int) -> bool:
        """Return whether an input may be asked first for what saves work on another one."""
        nbytes, asked = self.found[beside].bytes, self.found[number].bytes
        clauses = (*self.inputs[beside].query.clauses, *self.inputs[number].query.clauses)
        return (
            nbytes >= max(_LEAST_BYTES, asked * _TIMES_SMALLER)
            and is_held_whole(self.found[number], self.limits)
            and sum(isinstance(each, Combining) for each in clauses) < _MOST_JOINS
            and not any(is_plugin(type(each)) for each in self.inputs[number].query.clauses)
        )

    def _may_narrow(self, join: SemiJoin) -> bool:
        """Return whether keys of one input may become a filter on another."""
        clauses, plan = self.inputs[join.of].query.clauses, self.plans[join.of]
        return (
            bool(self._compared(join))
            and self._is_small(join.by, beside=join.of)
            and _may_be_narrowed(clauses, plan)
        )

    def _compared(self, join: SemiJoin) -> list[tuple[str, str]]:
        """Return the pairs of keys that a filter compares as the join does."""
        large, small = self.inputs[join.of].schema, self.inputs[join.by].schema
        return [pair for pair in join.on if _compares(large, small, pair)]

    def _looked_up(self, look_up: MakesLookup, narrowing: SemiJoin | None, rows: pa.Table) -> Plan:
        """Return the plan without a join; with one where a key of the rows stands twice."""
        if rows.num_rows <= _MOST_KEYS and rows.nbytes <= _MOST_LOOKUP_BYTES:
            clauses = look_up(rows)
            if clauses is not None:
                return self.replaced(clauses)
        if narrowing is None or narrowing.by != 1:
            return self.narrowed(0, None)
        return self._filtered(narrowing, rows)

    def _filtered(self, join: SemiJoin, keys: pa.Table) -> Plan:
        """Return the plan with the keys of one input as a filter on another."""
        conditions: list[Expression] = []
        for name, other in self._compared(join):
            column, values = Column(name), normalised(keys.column(other)).unique().drop_null()
            if len(values) <= _MOST_KEYS:
                conditions.append(IsIn(column, ValueSet.of(values)))
            else:
                least, greatest = _ends(values)
                conditions.append(GreaterEqual(column, literal(least)))
                conditions.append(LessEqual(column, literal(greatest)))
        return self.narrowed(join.of, Filter(all_of(conditions)))


def _ends(values: pa.Array) -> pa.Array:
    """Return the least and the greatest of some values, which have an order."""
    held = values
    if pa.types.is_temporal(values.type):  # Arrow knows no extremes of durations
        held = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
    ends = pc.min_max(held)
    return arrow_array([ends["min"].as_py(), ends["max"].as_py()], held.type).view(values.type)


def _compares(large: TableSchema, small: TableSchema, pair: tuple[str, str]) -> bool:
    """Return whether a filter compares a pair of columns as the join does."""
    kinds = [plain_type(large.type_of(pair[0])), plain_type(small.type_of(pair[1]))]
    families = {family(kind) for kind in kinds}
    if families in ({Family.INTEGER}, {Family.TEXT}):
        return True
    if pa.types.is_date64(kinds[0]):
        return False  # whose keys are days, and whose values are milliseconds
    return kinds[0] == kinds[1] and literal_codec.kind_of(kinds[0]) is not None


def _may_be_narrowed(clauses: Sequence[Clause], plan: Plan) -> bool:
    """Return whether a filter goes past clauses, and none of them fails for a row that it drops."""
    source = plan.inputs[0]
    schema = source.view.schema if isinstance(source, SourcePlan) else None
    for clause in clauses:
        if is_one_of(clause, ("join",)):
            if cast("Join", clause).how not in PASSED_BY_FILTERS_ON_THE_LEFT:
                return False
            schema = None
            continue
        expression = _expression(clause)
        if expression is None and not is_one_of(clause, _PASSED):
            return False
        if expression is not None and not cannot_raise(expression, schema):
            return False
        schema = schema and clause.output_schema(schema)
    return True


def _expression(clause: Clause) -> Expression | None:
    if is_one_of(clause, ("filter",)):
        return cast(Filter, clause).predicate
    return cast(Apply, clause).expression if is_one_of(clause, ("apply",)) else None

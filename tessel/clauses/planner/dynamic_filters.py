"""Dynamic filters of joins: the keys of the small side prune the scan of the large one.

Some rows of an input of a join matter only where another input has their keys: both sides of an
inner join, the right of a left join (:meth:`~tessel.clauses.combining.Combining.semi_joins`). Where
that other input is much smaller, its distinct keys are asked for first, and the plan is made anew
with a filter on the large input: few keys as a set, more as the range that they lie in. The filter
is like any other from there on: it is pushed to the source, prunes segments and pages by zone
maps, and rows are dropped before they are read whole, shuffled or probed.

Which rows it drops is known before the large input is read, so it depends on no order of units. It
is added only where no row of the large input can raise: a row that is not joined may not hide its
error.
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
from tessel.clauses.combining import CombinedInput, Combining, PlanLimits, SubQuery
from tessel.clauses.distinct import Distinct
from tessel.clauses.filter import Filter
from tessel.clauses.joining.strategy import is_held_whole
from tessel.clauses.plan import Plan, Question, SourcePlan, is_plugin
from tessel.clauses.planner.commutation import PASSED_BY_FILTERS_ON_THE_LEFT, is_one_of
from tessel.clauses.planner.draft import Input
from tessel.clauses.select import Select
from tessel.clauses.values import normalised, plain_type
from tessel.expression import literal_codec
from tessel.expression.build import all_of
from tessel.expression.leaves import Column, ValueSet, literal
from tessel.expression.node import Expression
from tessel.expression.operators.comparison import GreaterEqual, LessEqual
from tessel.expression.operators.membership import IsIn
from tessel.expression.raising import cannot_raise
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family

if TYPE_CHECKING:
    from tessel.clauses.join import Join

__all__ = ["question_of_keys"]

_LEAST_BYTES = 2 << 20
"""A smaller input is read faster than another plan is made."""

_TIMES_SMALLER = 4
"""Keys are asked for where their side has at most this part of the bytes of the other one."""

_MOST_KEYS = 10_000
"""More keys become the range that they lie in: a larger set costs more a row and a segment."""

_MOST_JOINS = 2
"""Keys are asked for at so many joins of a chain: each makes a plan of all those before it."""

_PASSED = ("select", "drop", "rename", "date_range", "sort")
"""Clauses that a filter goes past, and that have a result for every row."""


def question_of_keys(
    clause: Combining,
    inputs: Sequence[Input],
    plans: Sequence[Plan],
    found: Sequence[CombinedInput],
    limits: PlanLimits,
    plan: Callable[[SubQuery], Plan],
    narrowed: Callable[[int, Filter], Plan],
) -> Question | None:
    """Return what asks for the keys of a small input, where a large one can be narrowed by them.

    Parameters
    ----------
    clause
        Over these inputs.
    inputs, plans, found
        What it takes together, how that is read, and what is known of it.
    limits
        What the plan is made for.
    plan
        Plans a query.
    narrowed
        Plans the clause again, with a filter behind the input of that number.
    """
    joins = clause.semi_joins([each.schema for each in inputs])
    for join in sorted(joins, key=lambda join: -found[join.of].bytes):
        large, small = inputs[join.of], inputs[join.by]
        nbytes, asked = found[join.of].bytes, found[join.by].bytes
        on = [pair for pair in join.on if _compares(large.schema, small.schema, pair)]
        before = (*large.query.clauses, *small.query.clauses)
        if (
            on
            and nbytes >= max(_LEAST_BYTES, asked * _TIMES_SMALLER)
            and is_held_whole(found[join.by], limits)
            and _may_be_narrowed(large.query.clauses, plans[join.of])
            and sum(isinstance(each, Combining) for each in before) < _MOST_JOINS
            and not any(is_plugin(type(each)) for each in small.query.clauses)
        ):
            keys = Select(tuple(dict.fromkeys(name for _, name in on))), Distinct()
            revise = functools.partial(_revised, narrowed, join.of, on)
            purpose = f"keys of input {join.by + 1}, which prune input {join.of + 1}"
            return Question(plan(small.then(*keys).query), revise, nbytes, purpose)
    return None


def _revised(
    narrowed: Callable[[int, Filter], Plan],
    of: int,
    on: Sequence[tuple[str, str]],
    keys: pa.Table,
) -> Plan:
    conditions: list[Expression] = []
    for name, other in on:
        column, values = Column(name), normalised(keys.column(other)).unique().drop_null()
        if len(values) <= _MOST_KEYS:
            conditions.append(IsIn(column, ValueSet.of(values)))
        else:
            least, greatest = _ends(values)
            conditions.append(GreaterEqual(column, literal(least)))
            conditions.append(LessEqual(column, literal(greatest)))
    return narrowed(of, Filter(all_of(conditions)))


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

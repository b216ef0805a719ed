"""Pass: what a query over several symbols drops right after taking them together, each drops alone.

Filters and date ranges run on every symbol before ``concat`` and ``merge``, and on one side of a
``join``, where statistics prune with them. Of a limit each symbol is given its own: no more than so
many rows of it can be wanted.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.combining import Combining
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.planner.commutation import (
    KEEPS_ROWS,
    PASSED_BY_FILTERS,
    PASSED_BY_FILTERS_ON_THE_LEFT,
    is_one_of,
)
from tessel.clauses.planner.draft import Draft, Input
from tessel.clauses.positional import Positional
from tessel.errors import TesselError
from tessel.expression.build import lit
from tessel.expression.leaves import Column
from tessel.expression.node import Expression
from tessel.expression.raising import cannot_raise
from tessel.expression.rewriting import rewrite
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family, type_name

if TYPE_CHECKING:
    from tessel.clauses.join import Join

__all__ = ["push_into_inputs"]


def push_into_inputs(draft: Draft) -> Draft:
    """Move the filters and date ranges that come first into every input, and copy the limit."""
    if draft.combining is None:
        return draft
    from tessel.clauses.join import Join

    joins = type(draft.combining) is Join
    if not (joins or is_one_of(draft.combining, PASSED_BY_FILTERS)):
        return draft
    inputs = list(draft.inputs)
    clauses = list(draft.clauses)
    while clauses:
        if isinstance(draft.combining, Join):
            pushed = _into_join(clauses[0], draft.combining, inputs, draft.schema)
        else:
            pushed = _pushed(clauses[0], inputs, draft.schema)
        if pushed is None:
            break
        inputs = pushed
        del clauses[0]
    limit = _limit(clauses)
    if limit is not None:
        limited = _limited(draft.combining)
        inputs = [each.then(limit) if at in limited else each for at, each in enumerate(inputs)]
    return draft.replace(inputs=tuple(inputs), clauses=tuple(clauses))


def _limited(combining: Combining) -> range:
    """Return the inputs of which no more rows than those of a limit can be wanted."""
    from tessel.clauses.join import Join

    if not isinstance(combining, Join):
        return range(1 + len(combining.others))
    # Every row of the left comes out at least once, in order.
    return range(1 if combining.how == "left" else 0)


def _into_join(
    clause: Clause, join: Join, inputs: Sequence[Input], schema: TableSchema
) -> list[Input] | None:
    """Return the inputs of a join with a clause on the side whose columns it reads; None if none.

    A filter on the left decides which of its rows come out, unless rows of the right come out
    alone. One on the right does so where rows come out in pairs. It then meets rows without a
    match as well, which it never met as written: so only where it cannot fail.
    """
    left, right = inputs
    if join.how not in PASSED_BY_FILTERS_ON_THE_LEFT:
        return None
    if is_one_of(clause, ("date_range",)) and _same_calendar(left.schema, schema):
        return [left.then(clause), right]
    if type(clause) is not Filter:
        return None
    columns = clause.predicate.columns()
    safe = cannot_raise(clause.predicate)
    if (safe or join.how == "left") and _as_they_are(columns, left.schema, schema):
        return [left.then(clause), right]
    own = columns.isdisjoint(left.schema.names)
    if safe and own and join.how == "inner" and _as_they_are(columns, right.schema, schema):
        return [left, right.then(clause)]
    return None


def _as_they_are(columns: Set[str], own: TableSchema, common: TableSchema) -> bool:
    """Say whether columns come out of a join as one of its sides has them."""
    return bool(columns) and all(
        name in own and own.type_of(name) == common.type_of(name) for name in columns
    )


def _pushed(clause: Clause, inputs: Sequence[Input], schema: TableSchema) -> list[Input] | None:
    """Return the inputs with a clause at the end of each; None where one cannot have it."""
    pushed = []
    for each in inputs:
        own: Clause | None = None
        if type(clause) is Filter:
            predicate = _for_input(clause.predicate, each.schema, schema)
            own = None if predicate is None else Filter(predicate, clause.optimise)
        elif is_one_of(clause, ("date_range",)) and _same_calendar(each.schema, schema):
            own = clause
        if own is None:
            return None
        try:
            pushed.append(each.then(own))
        except TesselError:
            return None
    return pushed


def _for_input(predicate: Expression, own: TableSchema, common: TableSchema) -> Expression | None:
    """Return a predicate on the common columns as one on an input's own.

    A column that the input does not have is missing there; one of another type is cast to the
    common one, which holds all its values, unless it is compared the same without.
    """
    compares = cannot_raise(predicate)

    def column(node: Expression) -> Expression:
        if not isinstance(node, Column) or node.column not in common:
            return node
        kind = common.type_of(node.column)
        if node.column not in own:
            return lit(None).cast(type_name(kind))
        has = own.type_of(node.column)
        same = has == kind or (compares and _compared_alike(has, kind))
        return node if same else node.cast(type_name(kind))

    try:
        return rewrite(predicate, column)
    except TesselError:
        return None  # of a type that has no name, as a list has none


def _compared_alike(own: pa.DataType, common: pa.DataType) -> bool:
    """Say whether a column that is only compared, never computed with, may stay in its own type.

    Statistics then know it. Integers compare exactly whatever their width, instants whatever their
    unit as long as text means the same instant beside both; a float literal takes the column's
    type.
    """
    families = {family(own), family(common)}
    if families == {Family.TIMESTAMP}:
        return bool(own.tz == common.tz)
    return families in ({Family.INTEGER}, {Family.TEXT})


def _same_calendar(own: TableSchema, common: TableSchema) -> bool:
    """Say whether a date range means the same instants on both: one index, one zone."""
    if own.index is None or own.index != common.index:
        return False
    kinds = [schema.type_of(own.index) for schema in (own, common)]
    zones = {getattr(kind, "tz", None) for kind in kinds}
    return len(zones) == 1 and len({type(kind) for kind in kinds}) == 1


def _limit(clauses: Sequence[Clause]) -> Clause | None:
    """Return the limit of each input that follows from one on them all; None without one."""
    from tessel.clauses.tail import Tail

    for clause in clauses:
        if isinstance(clause, Tail) and clause.n >= 0:
            return Tail(clause.n)
        if isinstance(clause, Positional):
            demand = clause.demand()
            return None if demand is None else Head(demand)
        if not is_one_of(clause, KEEPS_ROWS):
            return None
    return None

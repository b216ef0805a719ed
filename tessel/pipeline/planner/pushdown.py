"""Passes: predicates, date ranges and limits run as early as they may, and prune what is read.

``push_left`` moves them to the left, past what the whitelist of `commutation` names; a filter over
``and`` is taken apart where one of its conditions comes further than the whole.

``push_into_inputs`` runs them on every symbol before ``concat`` and ``merge``, and on one side of a
``join``, where statistics prune with them. Of a limit each symbol is given its own: no more than so
many rows of it can be wanted.

``push_to_source`` gives them to the index, from the left, which drops the segments that cannot
contribute; where it shows that every row left passes, they need not run. head, tail and row_range
are given to it whole, as long as no row was dropped before them. It stops at the first positional
clause that it cannot absorb: a predicate to its right says nothing about which rows that clause
counts.

There ``in_zone`` ends as well, where nothing before it looks at the time index: times are read in
its zone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Proves
from tessel.clauses.combining import Combining
from tessel.clauses.filter import Filter
from tessel.clauses.positional import Head, Positional, Tail
from tessel.errors import TesselError
from tessel.expression.build import lit
from tessel.expression.leaves import Column
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family, type_name
from tessel.lazy import dataclass
from tessel.pipeline.planner.commutation import (
    KEEPS_ROWS,
    MAKING,
    PASSED_BY_FILTERS,
    PASSED_BY_FILTERS_ON_THE_LEFT,
    ROW_WISE,
    is_one_of,
    swapped,
)
from tessel.pipeline.planner.draft import Draft, Input
from tessel.store.manifest.index import SegmentIndex

if TYPE_CHECKING:
    from tessel.clauses.join import Join

_FARTHEST = 64
"""Clauses that one passes at most, runs of filters not counted: planning stays linear."""

_Runs = list[list[Clause]]
"""Clauses in order: filters that follow one another together, each other one alone."""


def push_left(draft: Draft) -> Draft:
    """Move what drops rows below projections, sorts and whatever else it may pass."""
    runs: _Runs = []
    for clause in draft.clauses:
        if type(clause) is Filter:
            _insert_filter(runs, clause)
        elif is_one_of(clause, ("date_range",)) or isinstance(clause, Positional):
            _insert(runs, _destination(runs, clause))
        else:
            runs.append([clause])
    return draft.replace(clauses=tuple(itertools.chain.from_iterable(runs)))


def _insert_filter(runs: _Runs, clause: Filter) -> None:
    """Add a filter whole, or its conditions apart where one of them comes further than the whole.

    Apart they keep their order: each meets the rows that those before it left, which are fewer
    than it met as written, where rows of which one was missing went on.
    """
    whole = _destination(runs, clause)
    if isinstance(clause.predicate, And):
        parts = [Filter(operand, clause.optimise) for operand in clause.predicate.operands]
        if _farthest(runs, parts) > whole.gained:
            for part in parts:
                _insert(runs, _destination(runs, part))
            return
    _insert(runs, whole)


def _farthest(runs: _Runs, parts: Sequence[Filter]) -> int:
    """Return how many clauses one of these filters passes, added one after another."""
    from tessel.expression.checking import cannot_raise

    farthest, nearest = 0, _FARTHEST
    for part in parts:
        gained = _destination(runs, part).gained
        if not cannot_raise(part.predicate):
            gained = min(gained, nearest)  # it does not pass those that were added before it
        farthest, nearest = max(farthest, gained), min(nearest, gained)
    return farthest


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a clause goes.

    Attributes
    ----------
    at
        The run before which it comes.
    clause
        The clause in the form that it has there.
    passed
        What becomes of the runs that it passes, from right to left.
    gained
        How many clauses it passes for its own good.
    """

    at: int
    clause: Clause
    passed: _Runs
    gained: int


def _destination(runs: _Runs, clause: Clause) -> _Destination:
    """Return how far to the left of all clauses one may go, and is worth moving.

    A run of filters is passed in one step: what may pass one filter may pass any.
    """
    at, best, moving, moved = len(runs), len(runs), clause, clause
    passed: _Runs = []
    gained = steps = 0
    while at > 0 and steps < _FARTHEST:
        run = runs[at - 1]
        pair = swapped(run[0], moving)
        if pair is None:
            break
        at -= 1
        moving = pair[0]
        is_filter = type(run[0]) is Filter
        passed.append(run if is_filter else [pair[1]])
        steps += not is_filter
        if _is_worth_it(clause, run[0]):
            best, moved, gained = at, moving, gained + 1
    return _Destination(best, moved, passed[: len(runs) - best], gained)


def _insert(runs: _Runs, found: _Destination) -> None:
    """Put a clause where it goes; a filter ends the run of filters that it comes behind."""
    runs[found.at :] = reversed(found.passed)
    before = runs[found.at - 1] if found.at else None
    if type(found.clause) is Filter and before is not None and type(before[0]) is Filter:
        before.append(found.clause)
    else:
        runs.insert(found.at, [found.clause])


def _is_worth_it(clause: Clause, passed: Clause) -> bool:
    """Say whether a clause gains by standing left of another.

    A limit stands behind a barrier: it gains nothing before what computes nothing. A filter gains
    nothing before another filter.
    """
    if isinstance(clause, Positional):
        return is_one_of(passed, MAKING)
    return is_one_of(clause, ("date_range",)) or type(passed) is not Filter


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
    from tessel.expression.checking import cannot_raise

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
    from tessel.expression.checking import cannot_raise, rewrite

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
    for clause in clauses:
        if isinstance(clause, Tail) and clause.n >= 0:
            return Tail(clause.n)
        if isinstance(clause, Positional):
            demand = clause.demand()
            return None if demand is None else Head(demand)
        if not is_one_of(clause, KEEPS_ROWS):
            return None
    return None


def push_to_source(draft: Draft) -> Draft:
    """Ask the index, clause by clause; without one, collect the clauses that it would be asked."""
    if draft.combining is not None:
        return draft
    original = set(draft.schema.names)
    pruning: list[Clause] = []
    kept: list[Clause] = []
    index = draft.index
    rows_untouched = True
    source, schemas = draft.schema, draft.schemas()
    for position, clause in enumerate(draft.clauses):
        if isinstance(clause, Positional) and rows_untouched:
            pruning.append(clause)
            index = None if index is None else clause.cut(index)
            continue
        if is_one_of(clause, ("in_zone",)) and all(
            map(_ignores, kept, itertools.repeat(source.index))
        ):
            pruning.append(clause)
            source = clause.output_schema(source)
            index = None if index is None else index.read_as(clause.output_schema)
            continue
        if not is_one_of(clause, ROW_WISE):
            kept += draft.clauses[position:]
            break
        if isinstance(clause, Proves) and _reads(clause, schemas[position].index) <= original:
            pruning.append(clause)
            if index is not None:
                index, all_pass = _pruned(clause, index)
                if all_pass:
                    continue
        info = clause.structure
        original -= info.adds
        if is_one_of(clause, ("rename",)):
            original -= info.columns or frozenset()
        original &= set(schemas[position + 1].names)
        rows_untouched = rows_untouched and is_one_of(clause, KEEPS_ROWS)
        kept.append(clause)
    changes = {"clauses": tuple(kept), "pruning": tuple(pruning), "index": index}
    return draft.replace(**changes, schema=source)


def _pruned(clause: Clause, index: SegmentIndex) -> tuple[SegmentIndex, bool]:
    """Return what a clause leaves of an index, and whether it keeps every row of that."""
    from tessel.expression.intervals import FALSE, TRUE

    if index.slices == 0:
        return index, True
    assert isinstance(clause, Proves)
    proof = clause.proves(index)
    wanted = proof != FALSE
    left = index.keep_slices(wanted, clause=clause.name, reason=clause.drop_reason())
    return left, bool((proof[wanted] == TRUE).all())


def _ignores(clause: Clause, index: str | None) -> bool:
    """Return whether a clause passes the time index on, and looks at no time."""
    if is_one_of(clause, ("select", "drop")):
        return True
    info = clause.structure
    named = info.adds | (info.columns or frozenset())
    return info.columns is not None and index not in named and not info.uses_index


def _reads(clause: Clause, index: str | None) -> set[str]:
    columns = set(clause.structure.columns or ())
    return columns | {index} if clause.structure.uses_index and index else columns

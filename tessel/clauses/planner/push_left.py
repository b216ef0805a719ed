"""Pass: filters, date ranges and limits run as early as the whitelist lets them.

A filter over ``and`` is taken apart where one of its conditions comes further than the whole.
"""

from __future__ import annotations

from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.date_range import DateRange
from tessel.clauses.filter import Filter
from tessel.clauses.planner.commutation import swapped
from tessel.clauses.planner.draft import Draft
from tessel.clauses.positional import Positional
from tessel.expression.operators.boolean import And

__all__ = ["push_left"]


def push_left(draft: Draft) -> Draft:
    """Move what drops rows below projections, sorts and whatever else it may pass."""
    clauses: list[Clause] = []
    for clause in draft.clauses:
        if type(clause) is Filter:
            _insert_filter(clauses, clause)
        elif type(clause) is DateRange or isinstance(clause, Positional):
            _insert(clauses, clause)
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def _insert_filter(clauses: list[Clause], clause: Filter) -> None:
    """Add a filter whole, or its conditions apart where one of them comes further than the whole.

    Apart they keep their order: each meets the rows that those before it left, which are fewer
    than it met as written, where rows of which one was missing went on.
    """
    if isinstance(clause.predicate, And):
        whole, apart = list(clauses), list(clauses)
        passed = _insert(whole, clause)
        parts = [Filter(operand, clause.optimise) for operand in clause.predicate.operands]
        if max([_insert(apart, part) for part in parts]) > passed:
            clauses[:] = apart
            return
    _insert(clauses, clause)


def _insert(clauses: list[Clause], clause: Clause) -> int:
    """Add a clause at the end of a list and move it as far to the left as is worth it.

    Returns how many clauses it has passed for its own good.
    """
    moved, at = [*clauses, clause], len(clauses)
    best, gained, gain = moved, 0, 0
    while at > 0:
        passed = moved[at - 1]
        pair = swapped(passed, moved[at])
        if pair is None:
            break
        moved = [*moved[: at - 1], *pair, *moved[at + 1 :]]
        at -= 1
        if _is_worth_it(clause, passed):
            gain += 1
            best, gained = moved, gain
    clauses[:] = best
    return gained


def _is_worth_it(clause: Clause, passed: Clause) -> bool:
    """Say whether a clause gains by standing left of another.

    A limit stands behind a barrier: it gains nothing before what computes nothing. A filter gains
    nothing before another filter.
    """
    if isinstance(clause, Positional):
        return type(passed) is Apply
    return type(clause) is DateRange or type(passed) is not Filter

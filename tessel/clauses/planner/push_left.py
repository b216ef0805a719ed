"""Pass: filters, date ranges and limits run as early as the whitelist lets them.

A filter over ``and`` is taken apart where one of its conditions comes further than the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.planner.commutation import MAKING, is_one_of, swapped
from tessel.clauses.planner.draft import Draft
from tessel.clauses.positional import Positional
from tessel.expression.operators.boolean import And
from tessel.expression.raising import cannot_raise
from tessel.lazy import dataclass

__all__ = ["push_left"]


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

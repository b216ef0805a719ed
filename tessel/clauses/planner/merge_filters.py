"""Pass: two filters in a row become one, where that reads no more and fails no more."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.date_range import DateRange
from tessel.clauses.filter import Filter
from tessel.clauses.planner.commutation import is_one_of
from tessel.clauses.planner.draft import Draft
from tessel.clauses.planner.raising import cannot_raise
from tessel.expression import all_of

__all__ = ["merge_filters"]


def merge_filters(draft: Draft) -> Draft:
    """Join adjacent filters by ``and``.

    The second is then evaluated for rows of which the first is missing, which it never met as
    written: so only where it cannot fail. Of the filters that a query begins with each reads its
    columns for what the ones before it left; there only those over the same columns are joined.
    """
    clauses: list[Clause] = []
    leading = True
    for clause in draft.clauses:
        leading = leading and is_one_of(clause, (Filter, DateRange))
        before = clauses[-1] if clauses else None
        if type(clause) is Filter and type(before) is Filter and _join(before, clause, leading):
            predicate = all_of([before.predicate, clause.predicate])
            clauses[-1] = Filter(predicate, clause.optimise)
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def _join(first: Filter, second: Filter, leading: bool) -> bool:
    if first.optimise != second.optimise or not cannot_raise(second.predicate):
        return False
    return not leading or second.predicate.columns() <= first.predicate.columns()

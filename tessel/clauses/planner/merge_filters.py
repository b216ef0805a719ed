"""Pass: two filters in a row become one, where that reads no more and fails no more."""

from __future__ import annotations

from collections.abc import Sequence

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.planner.commutation import is_one_of
from tessel.clauses.planner.draft import Draft
from tessel.expression.build import all_of
from tessel.expression.raising import cannot_raise

__all__ = ["merge_filters"]


def merge_filters(draft: Draft) -> Draft:
    """Join adjacent filters by ``and``.

    The second is then evaluated for rows of which the first is missing, which it never met as
    written: so only where it cannot fail. Of the filters that a query begins with each reads its
    columns for what the ones before it left; there only those over the same columns are joined.
    """
    clauses: list[Clause] = []
    joined: list[Filter] = []
    columns: frozenset[str] = frozenset()
    leading = True
    for clause in draft.clauses:
        leading = leading and is_one_of(clause, ("filter", "date_range"))
        if type(clause) is not Filter:
            clauses += [*_one(joined), clause]
            joined = []
            continue
        own = clause.predicate.columns()
        if joined and not (_may_join(joined[0], clause) and (own <= columns or not leading)):
            clauses += _one(joined)
            joined = []
        columns = columns if joined else own
        joined.append(clause)
    return draft.replace(clauses=(*clauses, *_one(joined)))


def _one(filters: Sequence[Filter]) -> Sequence[Filter]:
    """Return the filters as one, made once for all of them; none of none."""
    if len(filters) < 2:
        return filters
    return [Filter(all_of(each.predicate for each in filters), filters[0].optimise)]


def _may_join(first: Filter, second: Filter) -> bool:
    return first.optimise == second.optimise and cannot_raise(second.predicate)

"""The verbs of a query, a family a module: how the methods are spelled that add clauses.

A family holds typed methods and their documentation, and no logic: a verb reads its arguments and
adds a clause. Clauses that have no method here, also those of other people, are verbs all the same,
by their names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tessel.clauses.base import Clause
from tessel.clauses.registry import clause_names, find_clause
from tessel.clauses.verbs.arguments import QueryType
from tessel.clauses.verbs.columns import ColumnVerbs
from tessel.clauses.verbs.combining import CombiningVerbs
from tessel.clauses.verbs.grouping import GroupingVerbs
from tessel.clauses.verbs.ordered import OrderedVerbs
from tessel.clauses.verbs.rows import RowVerbs
from tessel.errors import NameNotFoundError, UnknownVerbError

__all__ = ["Verbs"]

_NEAR_MISSES = {
    "where": "filter",
    "query": "filter",
    "sel": "select",
    "project": "select",
    "with_column": "with_columns",
    "withColumn": "with_columns",
    "assign": "with_columns",
    "limit": "head",
    "first": "head",
    "last": "tail",
    "slice": "row_range",
    "iloc": "row_range",
    "between": "date_range",
    "group": "groupby",
    "groupBy": "groupby",
    "group_by_dynamic": "resample",
    "aggregate": "agg",
    "order_by": "sort",
    "orderby": "sort",
    "sort_values": "sort",
    "nlargest": "top_k",
    "nsmallest": "top_k",
    "union": "concat",
    "unique": "distinct",
    "drop_duplicates": "distinct",
    "unnest": "explode",
    "astype": "cast",
    "append": "concat",
    "lag": "shift",
    "lead": "shift",
    "cumsum": "cum_sum",
    "cummin": "cum_min",
    "cummax": "cum_max",
    "cumcount": "cum_count",
    "ffill": "fill",
    "bfill": "fill",
    "fillna": "fill",
    "fill_null": "fill",
    "forward_fill": "fill",
    "backward_fill": "fill",
    "interpolate": "fill",
    "asof": "latest_at",
    "merge_asof": "join_asof",
    "asof_join": "join_asof",
    "lookup": "join",
}


class Verbs(RowVerbs, ColumnVerbs, GroupingVerbs, OrderedVerbs, CombiningVerbs):
    """The verbs of a query, shared by :class:`QueryBuilder` and lazy tables.

    A subclass says what a new query with one more clause is (``then``).
    """

    def __getattr__(self: QueryType, name: str) -> Callable[..., QueryType]:
        # Reached only for names that are no verbs above: registered clauses are verbs too.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            found = find_clause(name)
        except NameNotFoundError:
            raise UnknownVerbError.for_name(name, _verbs(), _NEAR_MISSES) from None
        if found.internal:
            raise UnknownVerbError.for_name(name, _verbs(), _NEAR_MISSES)
        return functools.partial(_then_clause, self, found)


def _then_clause(
    query: QueryType, clause: type[Clause], *arguments: Any, **named: Any
) -> QueryType:
    return query.then(clause(*arguments, **named))


def _verbs() -> list[str]:
    methods = {name for name in dir(Verbs) if not name.startswith("_")}
    public = {name for name in clause_names() if not find_clause(name).internal}
    return sorted(methods | public)

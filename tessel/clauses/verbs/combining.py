"""Verbs over several symbols."""

from __future__ import annotations

from typing import Literal

from tessel.clauses.combining import SubQuery
from tessel.clauses.concat import Concat
from tessel.clauses.merge import Merge
from tessel.clauses.verbs.arguments import as_queries
from tessel.clauses.verbs.base import Query, QueryType
from tessel.errors import PlanError

__all__ = ["CombiningVerbs"]


class CombiningVerbs(Query):
    """Bring rows of other symbols in."""

    def concat(
        self: QueryType, *others: str | SubQuery, join: Literal["outer", "inner"] = "outer"
    ) -> QueryType:
        """Add the rows of other symbols, by name or with clauses of their own first."""
        if not others:
            raise PlanError("concat needs another symbol", hint='concat("other")')
        return self.then(Concat(as_queries("concat", others), join))

    def merge(
        self: QueryType,
        *others: str | SubQuery,
        on: str | None = None,
        join: Literal["outer", "inner"] = "outer",
    ) -> QueryType:
        """Merge the rows of other symbols by time; without others, order the rows by time.

        ``on`` names the column to order by, which becomes the time index; by default the index.
        """
        return self.then(Merge(as_queries("merge", others), on, join))

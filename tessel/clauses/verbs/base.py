"""What every family of verbs stands on: a query to which a clause can be added."""

from __future__ import annotations

from typing import TypeVar

from tessel.clauses.base import Clause

__all__ = ["Query", "QueryType"]

QueryType = TypeVar("QueryType", bound="Query")


class Query:
    """Something that clauses can be added to; the families of verbs are its subclasses."""

    def then(self: QueryType, *clauses: Clause) -> QueryType:
        """Return the query with clauses added at the end: the way in for clauses of your own."""
        raise TypeError(f"{type(self).__name__} does not say how a clause is added")

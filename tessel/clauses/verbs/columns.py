"""Verbs that make, choose and name columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessel.clauses.apply import Apply
from tessel.clauses.drop import Drop
from tessel.clauses.rename import Rename
from tessel.clauses.select import Select
from tessel.clauses.verbs.arguments import ExpressionLike, as_expression, as_names
from tessel.clauses.verbs.base import Query, QueryType
from tessel.errors import PlanError

__all__ = ["ColumnVerbs"]


class ColumnVerbs(Query):
    """Make, choose and name columns."""

    def apply(
        self: QueryType, name: str, expression: ExpressionLike | int | float | bool
    ) -> QueryType:
        """Add the column ``name``, or replace it where it stands."""
        return self.then(Apply(name, as_expression(expression)))

    def with_columns(self: QueryType, **columns: ExpressionLike | int | float | bool) -> QueryType:
        """Add or replace several columns; a later one sees the earlier ones."""
        return self.then(*(Apply(name, as_expression(value)) for name, value in columns.items()))

    def select(self: QueryType, *columns: str | Sequence[str]) -> QueryType:
        """Keep these columns, in this order."""
        return self.then(Select(as_names(columns)))

    def drop(self: QueryType, *columns: str | Sequence[str]) -> QueryType:
        """Leave these columns out."""
        return self.then(Drop(as_names(columns)))

    def rename(self: QueryType, columns: Mapping[str, str]) -> QueryType:
        """Give columns other names: a mapping from old to new."""
        if not isinstance(columns, Mapping):
            raise PlanError(
                f"rename takes a mapping from old to new names, not {columns!r}",
                hint='rename({"old": "new"})',
            )
        return self.then(Rename(tuple(columns.items())))

"""Verbs that choose rows."""

from __future__ import annotations

from typing import Any, Literal

from tessel.clauses.date_range import DateRange
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.row_range import RowRange
from tessel.clauses.tail import Tail
from tessel.clauses.verbs.arguments import ExpressionLike, as_expression, as_row_count
from tessel.clauses.verbs.base import Query, QueryType
from tessel.errors import PlanError
from tessel.expression.periods import instant_text

__all__ = ["RowVerbs"]


class RowVerbs(Query):
    """Choose rows."""

    def filter(
        self: QueryType, *predicates: ExpressionLike, optimise: Literal["speed", "memory"] = "speed"
    ) -> QueryType:
        """Keep the rows where every predicate is true; an expression, or text in its grammar."""
        if not predicates:
            raise PlanError("filter needs a condition", hint='filter("price > 100")')
        return self.then(*(Filter(as_expression(each), optimise) for each in predicates))

    def date_range(
        self: QueryType,
        start: Any = None,
        end: Any = None,
        *,
        closed: Literal["both", "left", "right", "neither"] = "both",
    ) -> QueryType:
        """Keep a span of the time index; both ends included.

        ``start`` and ``end`` are ISO text (a partial one means its whole period), dates,
        date-times, or None for no bound.
        """
        return self.then(DateRange(instant_text(start), instant_text(end), closed))

    def head(self: QueryType, n: int = 5) -> QueryType:
        """Keep the first ``n`` rows; a negative ``n`` drops that many from the end."""
        return self.then(Head(as_row_count("head", n)))

    def tail(self: QueryType, n: int = 5) -> QueryType:
        """Keep the last ``n`` rows; a negative ``n`` drops that many from the start."""
        return self.then(Tail(as_row_count("tail", n)))

    def row_range(self: QueryType, start: int | None = None, stop: int | None = None) -> QueryType:
        """Keep rows by position, like ``iloc[start:stop]``."""
        ends = [None if each is None else as_row_count("row_range", each) for each in (start, stop)]
        return self.then(RowRange(*ends))

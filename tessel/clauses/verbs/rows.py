"""Verbs that choose rows, and bring them in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tessel.clauses.filter import Filter
from tessel.clauses.verbs.arguments import (
    ExpressionLike,
    Query,
    QueryType,
    as_ends,
    as_expression,
    as_names,
    as_row_count,
    ordered_by,
)
from tessel.errors import PlanError, shown
from tessel.errors.arguments import checks_arguments
from tessel.expression.node import Expression

if TYPE_CHECKING:
    from tessel.clauses.ordering import Missing


@checks_arguments
class RowVerbs(Query):
    """Choose rows, and bring them in order."""

    def filter(
        self: QueryType, *predicates: ExpressionLike, optimise: Literal["speed", "memory"] = "speed"
    ) -> QueryType:
        """Keep the rows where every predicate is true; an expression, or text in its grammar.

        Examples
        --------
        >>> trades.filter("qty > 1 and symbol == 'AAPL'").collect()["qty"].to_pylist()
        [3]
        >>> trades.filter(ts.col("price").is_missing()).collect()["qty"].to_pylist()
        [3]
        """
        if not predicates or any(each is None for each in predicates):
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
        date-times, or None for no bound; or both are one pair: ``date_range((start, end))``.

        Examples
        --------
        >>> trades.date_range("2024-01-01T09:30", "2024-01-01T10:00").collect()["qty"].to_pylist()
        [2, 3]
        """
        from tessel.clauses.date_range import DateRange
        from tessel.expression.periods import instant_text

        start, end = as_ends(start, end)
        return self.then(DateRange(instant_text(start), instant_text(end), closed))

    def head(self: QueryType, n: int = 5) -> QueryType:
        """Keep the first ``n`` rows; a negative ``n`` drops that many from the end.

        Examples
        --------
        >>> trades.head(2).collect()["qty"].to_pylist()
        [1, 2]
        """
        from tessel.clauses.positional import Head

        return self.then(Head(as_row_count("head", n)))

    def tail(self: QueryType, n: int = 5) -> QueryType:
        """Keep the last ``n`` rows; a negative ``n`` drops that many from the start.

        Examples
        --------
        >>> trades.tail(2).collect()["qty"].to_pylist()
        [3, 4]
        """
        from tessel.clauses.positional import Tail

        return self.then(Tail(as_row_count("tail", n)))

    def row_range(
        self: QueryType,
        start: int | tuple[int | None, int | None] | None = None,
        stop: int | None = None,
    ) -> QueryType:
        """Keep rows by position, like ``iloc[start:stop]``; both ends may be one pair.

        Examples
        --------
        >>> trades.row_range(1, 3).collect()["qty"].to_pylist()
        [2, 3]
        """
        from tessel.clauses.positional import RowRange

        start, stop = as_ends(start, stop)
        ends = [None if each is None else as_row_count("row_range", each) for each in (start, stop)]
        return self.then(RowRange(*ends))

    def take(self: QueryType, rows: Iterable[int]) -> QueryType:
        """Keep the rows at these positions, in the order given; one may come more than once.

        Positions count from 0, negative ones from the end. The rows between the least and the
        greatest are all that is read.

        Examples
        --------
        >>> trades.take([3, 0]).collect()["qty"].to_pylist()
        [4, 1]
        """
        from tessel.clauses.positional import RowRange, Take

        given: Any = rows
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise PlanError(
                f"take takes positions of rows, not {shown(rows)}",
                hint="take([3, 1]); head(n) keeps the first n rows",
            )
        positions = tuple(as_row_count("take", each) for each in rows)
        low = min(positions, default=0)
        if low < 0:
            return self.then(Take(positions))
        # cut first, so that no other rows are read
        cut = RowRange(low, max(positions, default=-1) + 1)
        return self.then(cut, Take(tuple(each - low for each in positions), low))

    def sort(
        self: QueryType,
        by: Expression | str | Sequence[Expression | str],
        *more: Expression | str,
        descending: bool | Sequence[bool] = False,
        missing: Missing = "last",
    ) -> QueryType:
        """Order the rows by columns or expressions, the most significant first.

        ``descending`` is one direction for all, or one for each. Rows that miss a value (null or
        NaN) come ``"last"`` in both directions, or ``"first"``. Rows of equal keys keep their
        order.

        Examples
        --------
        >>> trades.sort("symbol", "qty", descending=[False, True]).collect()["qty"].to_pylist()
        [3, 1, 4, 2]
        """
        from tessel.clauses.sort import Sort

        make = partial(Sort, missing=missing)
        return self.then(*ordered_by("sort", (by, *more), descending, make))

    def top_k(
        self: QueryType,
        k: int,
        by: Expression | str | Sequence[Expression | str],
        *more: Expression | str,
        descending: bool | Sequence[bool] = True,
        missing: Missing = "last",
    ) -> QueryType:
        """Keep the ``k`` rows with the greatest keys (the least: ``descending=False``), in order.

        The same as ``sort`` and then ``head``, ties included.

        Examples
        --------
        >>> trades.top_k(2, "price").collect()["price"].to_pylist()
        [21.0, 20.0]
        """
        from tessel.clauses.top_k import TopK

        def make(names: tuple[str, ...], directions: tuple[bool, ...]) -> TopK:
            return TopK(as_row_count("top_k", k), names, directions, missing)

        return self.then(*ordered_by("top_k", (by, *more), descending, make))

    def distinct(
        self: QueryType,
        *columns: str | Sequence[str],
        keep: Literal["first", "last", "none"] = "first",
    ) -> QueryType:
        """Keep one row of those with equal values in these columns; in all, where none is named.

        The first or the last of them, or none: only rows that have no equal. Missing equals
        missing. The rows that are kept stay in their order.

        Examples
        --------
        >>> trades.distinct("symbol").collect()["qty"].to_pylist()
        [1, 2]
        """
        from tessel.clauses.distinct import Distinct

        return self.then(Distinct(as_names(columns) if columns else None, keep))

    def sample(
        self: QueryType,
        n: int | None = None,
        *,
        fraction: float | None = None,
        seed: int = 0,
        replacement: bool = False,
    ) -> QueryType:
        """Choose ``n`` rows at random, or each with the chance ``fraction``.

        The same seed chooses the same rows, whatever runs the query; they stay in their order. With
        ``replacement`` a row may be chosen more than once.

        Examples
        --------
        >>> len(trades.sample(2, seed=7).collect())
        2
        """
        from tessel.clauses.sample import Sample

        rows = None if n is None else as_row_count("sample", n)
        return self.then(Sample(rows, fraction, seed, replacement))

    def explode(
        self: QueryType, *columns: str | Sequence[str], keep_empty: bool = True
    ) -> QueryType:
        """Give one row for each item of a list column; of several, items go side by side.

        A row with an empty or missing list stays, with a missing item, unless
        ``keep_empty=False``.

        Examples
        --------
        >>> store.write("orders", {"id": [1, 2], "items": [["a", "b"], []]})
        3
        >>> list(store.scan("orders").explode("items").collect())
        [{'id': 1, 'items': 'a'}, {'id': 1, 'items': 'b'}, {'id': 2, 'items': None}]
        """
        from tessel.clauses.explode import Explode

        return self.then(Explode(as_names(columns), keep_empty))

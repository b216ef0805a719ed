"""Verbs that make, choose, name and sum up columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tessel.clauses.apply import Apply
from tessel.clauses.select import Select
from tessel.clauses.verbs.arguments import (
    ExpressionLike,
    Query,
    QueryType,
    as_expression,
    as_keys,
    as_names,
)
from tessel.errors import PlanError
from tessel.errors.arguments import checks_arguments
from tessel.expression.build import col
from tessel.expression.leaves import Column
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression
from tessel.expression.types import named_type


@checks_arguments
class ColumnVerbs(Query):
    """Make, choose, name and sum up columns."""

    def apply(
        self: QueryType, name: str, expression: ExpressionLike | int | float | bool
    ) -> QueryType:
        """Add the column ``name``, or replace it where it stands.

        Examples
        --------
        >>> trades.apply("paid", ts.col("price") * ts.col("qty")).collect()["paid"].to_pylist()
        [10.0, 40.0, None, 84.0]
        >>> trades.apply("twice", "2 * qty").collect()["twice"].to_pylist()
        [2, 4, 6, 8]
        """
        return self.then(Apply(name, as_expression(expression)))

    def with_columns(
        self: QueryType,
        *columns: Expression | ComputedColumn | Mapping[str, ExpressionLike],
        **named: ExpressionLike | int | float | bool,
    ) -> QueryType:
        """Add or replace several columns; a later one sees the earlier ones.

        ``with_columns(twice="price * 2")``; without a keyword, an expression has the name of
        ``.alias("twice")``, or that of the one column it reads.

        Examples
        --------
        >>> query = trades.with_columns(twice="2 * qty", more=ts.col("twice") + 1)
        >>> query.collect()["more"].to_pylist()
        [3, 5, 7, 9]
        """
        for each in columns:
            if isinstance(each, str):
                raise PlanError(
                    f"with_columns: {each!r} needs a name", hint=f"with_columns(name={each!r})"
                )
        made = as_keys(columns, named, "with_columns(name={})")
        pairs = [(e, col(e)) if isinstance(e, str) else (e.name, e.expression) for e in made]
        return self.then(*(Apply(name, expression) for name, expression in pairs))

    def select(self: QueryType, *columns: str | Column | Sequence[str]) -> QueryType:
        """Keep these columns, in this order.

        Examples
        --------
        >>> trades.select("symbol", "qty").collect().column_names
        ['symbol', 'qty']
        """
        return self.then(Select(as_names(columns)))

    def drop(self: QueryType, *columns: str | Sequence[str]) -> QueryType:
        """Leave these columns out.

        Examples
        --------
        >>> trades.drop("price").collect().column_names
        ['time', 'symbol', 'qty']
        """
        from tessel.clauses.select import Drop

        return self.then(Drop(as_names(columns)))

    def rename(self: QueryType, columns: Mapping[str, str]) -> QueryType:
        """Give columns other names: a mapping from old to new.

        Examples
        --------
        >>> trades.rename({"qty": "shares"}).collect().column_names
        ['time', 'symbol', 'price', 'shares']
        """
        from tessel.clauses.select import Rename

        if not isinstance(columns, Mapping):
            raise PlanError(
                f"rename takes a mapping from old to new names, not {columns!r}",
                hint='rename({"old": "new"})',
            )
        return self.then(Rename(tuple(columns.items())))

    def cast(
        self: QueryType, columns: Mapping[str, str | pa.DataType | type], *, strict: bool = True
    ) -> QueryType:
        """Give columns other types: a mapping from column to type.

        A type is an Arrow type, a name of one, such as ``"float64"``, or Python's ``bool``,
        ``int`` (``int64``), ``float`` (``float64``) or ``str``. A value that does not fit is an
        error that names it; with ``strict=False`` it becomes missing.

        Examples
        --------
        >>> trades.cast({"qty": float}).collect()["qty"].to_pylist()
        [1.0, 2.0, 3.0, 4.0]
        """
        from tessel.clauses.select import Cast

        if not isinstance(columns, Mapping):
            raise PlanError(
                f"cast takes a mapping from columns to types, not {columns!r}",
                hint='cast({"price": "float64"})',
            )
        targets = tuple((name, named_type(kind)) for name, kind in columns.items())
        return self.then(Cast(targets, strict))

    def value_counts(
        self: QueryType,
        *columns: str | Sequence[str],
        sort: bool = True,
        normalise: bool = False,
        drop_missing: bool = True,
        output: str | None = None,
    ) -> QueryType:
        """Count how often each value of a column occurs, or of several together.

        The most frequent come first (``sort=False``: in order of first appearance). With
        ``normalise`` counts are parts of all rows counted.

        Examples
        --------
        >>> list(trades.value_counts("symbol").collect())
        [{'symbol': 'AAPL', 'count': 2}, {'symbol': 'MSFT', 'count': 2}]
        """
        from tessel.clauses.describe import ValueCounts

        return self.then(ValueCounts(as_names(columns), sort, normalise, drop_missing, output))

    def describe(self: QueryType, *, quantiles: bool = True) -> QueryType:
        """Give one row of figures for each column: how many values, mean, median and others.

        Examples
        --------
        >>> trades.select("qty").describe().collect()["mean"].to_pylist()
        [2.5]
        """
        from tessel.clauses.describe import Describe

        return self.then(Describe(quantiles))

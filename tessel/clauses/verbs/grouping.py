"""Verbs that reduce rows: groups, time buckets, windows, and what waits for their aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

from tessel.clauses.verbs.arguments import (
    AwaitsAggregates,
    ExpressionLike,
    KeyLike,
    Query,
    QueryType,
    as_keys,
)
from tessel.errors import PlanError, UnknownArgumentError
from tessel.errors.arguments import checks_arguments
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression
from tessel.expression.scalars import elapsed_text
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.clauses.aggregate_forms import AggregateForm, AggregateLike, AllForms
    from tessel.clauses.base import Clause
    from tessel.clauses.resample import Empty


def _refuse_foreign_arguments(named: Mapping[str, Any]) -> None:
    """Raise for a named key that names a column, or nothing, as an argument elsewhere does."""
    for name, value in named.items():
        is_key = isinstance(value, Expression | ComputedColumn | str)
        is_plain = isinstance(value, str) and value.isidentifier() and value != name
        if is_plain or not is_key:
            from tessel.errors.foreign_names import foreign_arguments

            if not is_key or ("groupby", name) in foreign_arguments():
                raise UnknownArgumentError.for_name("groupby", name, ["sort", "drop_missing"])


@checks_arguments
class GroupingVerbs(Query):
    """Group rows and reduce them."""

    def groupby(
        self: QueryType,
        *keys: KeyLike | Sequence[KeyLike] | Mapping[str, ExpressionLike],
        sort: bool = True,
        drop_missing: bool = True,
        **named: ExpressionLike,
    ) -> GroupedQuery[QueryType]:
        """Group rows by keys; go on with ``.agg(...)``.

        A key is a column by its name, or an expression with a name for the result:
        ``groupby("symbol", day=col("time").floor("1d"))``, or in a mapping where the name is odd.
        An expression without a name takes that of the one column it reads.

        Groups come out by key (``sort=False``: in order of first appearance). Rows with a missing
        key are dropped unless ``drop_missing=False``.

        Examples
        --------
        >>> list(trades.groupby("symbol").agg(total=("qty", "sum")).collect())
        [{'symbol': 'AAPL', 'total': 4}, {'symbol': 'MSFT', 'total': 6}]
        """
        _refuse_foreign_arguments(named)
        found = as_keys(keys, named)
        if not found:
            raise PlanError("groupby needs a key", hint="for one group of everything use agg alone")
        return GroupedQuery(self, _groups(found, sort, drop_missing))

    group_by = groupby

    def agg(
        self: QueryType,
        by_column: AllForms | None = None,
        *more: Expression | ComputedColumn,
        **outputs: Any,
    ) -> QueryType:
        """Aggregate all rows into one; the forms are those of ``groupby(...).agg``.

        Examples
        --------
        >>> list(trades.agg(total=("qty", "sum"), high="max(price)").collect())
        [{'total': 10, 'high': 21.0}]
        """
        return GroupedQuery(self, _groups(())).agg(by_column, *more, **outputs)

    def resample(
        self: QueryType,
        rule: str | timedelta,
        *,
        by: KeyLike | Sequence[KeyLike] | Mapping[str, ExpressionLike] = (),
        closed: Literal["left", "right"] | None = None,
        label: Literal["left", "right"] | None = None,
        origin: Any = "epoch",
        offset: str | timedelta | None = None,
        empty: Empty = "omit",
        drop_missing: bool = True,
        tz: str | None = None,
    ) -> ResampledQuery[QueryType]:
        """Group rows into time buckets; go on with ``.agg(...)``.

        ``rule`` is elapsed time (``"15s"``, ``"1h30min"``) or of the calendar in the zone of the
        index: ``"1D"``, ``"W"``, ``"W-SUN"``, ``"MS"``, ``"ME"``, ``"QS"``, ``"YS"``, ``"B"``, with
        a count before (``"3MS"``).

        Parameters
        ----------
        rule
            Length of a bucket; a timedelta is elapsed time.
        by
            Keys as those of ``groupby``: columns, or expressions, in a mapping with their names
            (``by={"day": col("shipped").floor("1d")}``). Each key has buckets of its own, and rows
            come out by (time, key).
        closed, label
            Which edge of a bucket belongs to it, and which one it is labelled with. By default
            left; right for the origins ``end`` and ``end_day``.
        origin
            Where a bucket starts: ``"epoch"``, an instant (ISO text or a datetime), ``"start"``,
            ``"start_day"``, ``"end"`` or ``"end_day"`` of the rows that arrive here.
        offset
            A span by which all edges are moved, such as ``"6h"``, ``"-1D"`` or a timedelta.
        empty
            What is done about buckets without rows between the first and the last that has some:
            ``"omit"``, ``"null"``, ``"zero"`` (what the aggregate answers of no rows) or
            ``"ffill"`` (the values of the bucket before).
        drop_missing
            Whether rows with a missing key are left out.
        tz
            The time zone whose calendar the rule is of, and in which the buckets are labelled; by
            default that of the index. Short for ``in_zone`` before it.

        Examples
        --------
        >>> trades.resample("1h").agg(total=("qty", "sum")).collect()["total"].to_pylist()
        [3, 7]
        """
        from tessel.clauses.buckets.rules import new_spelling
        from tessel.clauses.index_values import InZone
        from tessel.clauses.resample import Resample
        from tessel.expression.periods import instant_text

        clause = Resample(
            new_spelling(elapsed_text(rule)),
            (),
            closed,
            label,
            instant_text(origin) or "epoch",
            elapsed_text(offset),
            as_keys((by,), {}, 'resample(..., by={{"name": {}}})'),
            drop_missing,
            empty=empty,
        )
        return ResampledQuery(self if tz is None else self.then(InZone(tz)), (clause,))


def _groups(
    keys: tuple[str | ComputedColumn, ...], sort: bool = True, drop_missing: bool = True
) -> tuple[Clause, ...]:
    """Return what groups rows by keys, without aggregates."""
    from tessel.clauses.aggregation import Aggregation
    from tessel.clauses.partition import Partition

    return Partition(keys, drop_missing), Aggregation(keys, (), sort)


@checks_arguments
@dataclass(frozen=True)
class GroupedQuery(AwaitsAggregates, Generic[QueryType]):
    """A query whose rows are grouped, waiting for ``agg``.

    Attributes
    ----------
    query
        What comes before.
    clauses
        What groups the rows, without aggregates.
    """

    query: QueryType
    clauses: tuple[Clause, ...]

    def agg(
        self,
        by_column: AllForms | None = None,
        *more: Expression | ComputedColumn,
        **outputs: AggregateForm,
    ) -> QueryType:
        """Compute aggregates of each group, or of each bucket.

        ``agg(total=("qty", "sum"))``, ``agg({"qty": "sum"})`` (named ``qty``) or
        ``agg({"qty": ["sum", "max"]})`` (named ``qty_sum`` and ``qty_max``); with parameters or
        further columns ``agg(high=("price", "quantile", 0.9), mean=("price", "vwap", "qty"))``; of
        an expression ``agg(notional=(col("price") * col("qty")).sum())`` or, as text,
        ``agg(notional="sum(price * qty)")``; computed with the results of several
        ``agg(spread=col("price").max() - col("price").min(), vwap="sum(price * qty) / sum(qty)")``;
        of rows ``agg(rows="count")``; named as its column ``agg(col("price").mean())``, or by
        ``.alias("mean")``; ``agg("sum")`` of all columns that can, under their own names.
        ``bar=("price", "ohlc")`` makes ``bar_open``, ``bar_high``, ``bar_low`` and ``bar_close``.
        """
        from tessel.clauses.aggregate_forms import aggregated

        return self.query.then(*aggregated(self.clauses, by_column, more, outputs))


class ResampledQuery(GroupedQuery[QueryType]):
    """A query whose rows are in time buckets, waiting for ``agg``."""


@checks_arguments
@dataclass(frozen=True)
class WindowQuery(AwaitsAggregates, Generic[QueryType]):
    """A query that looks at windows of rows, or at rows that fade, waiting for ``agg``.

    Attributes
    ----------
    query
        What comes before.
    clause
        Makes the clause of its aggregates and results.
    """

    _what: ClassVar[str] = "windows"

    query: QueryType
    clause: Callable[..., Clause]

    def agg(
        self,
        by_column: Mapping[str, AggregateForm | list[AggregateLike]] | None = None,
        **outputs: AggregateForm,
    ) -> QueryType:
        """Add aggregates of each row's window, in the forms of ``groupby(...).agg``.

        Of rows that fade they are weighted: ``mean``, ``var`` or ``std``.
        """
        from tessel.clauses.aggregate_forms import read_outputs

        found = read_outputs(by_column, outputs)
        return self.query.then(self.clause(aggregates=found.aggregates, results=found.results))

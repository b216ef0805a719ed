"""Verbs whose answer for a row depends on the rows around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from tessel.clauses.verbs.arguments import Query, QueryType, as_names, as_row_count
from tessel.errors import PlanError
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import elapsed_text, whole_number

if TYPE_CHECKING:
    from tessel.clauses.along_rows.ranking import RankMethod
    from tessel.clauses.fill import Method
    from tessel.clauses.rolling import Closed
    from tessel.clauses.verbs.grouping import WindowQuery

ColumnsLike = str | Sequence[str] | Mapping[str, str]
"""Columns that are replaced by their results, or a mapping from new names to columns."""
KeysLike = str | Sequence[str]


@checks_arguments
class OrderedVerbs(Query):
    """Look at rows in their order.

    Wherever these verbs take ``columns``, a name or a list of names replaces the columns by their
    results, and a mapping ``{"new": "column"}`` adds results under new names. ``by`` names keys:
    rows of other keys are as if they were not there. A missing key is a key like others.
    """

    def shift(
        self: QueryType, columns: ColumnsLike, n: int = 1, *, by: KeysLike = (), fill: Any = None
    ) -> QueryType:
        """Take the value of ``n`` rows before; of rows after where ``n`` is negative.

        Parameters
        ----------
        columns
            Columns of any type: names, or ``{"new": "column"}``.
        n
            Rows to look back.
        by
            Keys: rows are counted within each.
        fill
            What stands where there is no such row: a value that the column's type holds. By
            default missing.

        Examples
        --------
        >>> trades.shift("qty", by="symbol").collect()["qty"].to_pylist()
        [None, None, 1, 2]
        """
        from tessel.clauses.constants import constant_text
        from tessel.clauses.shifted import Shift

        count = as_row_count("shift", n)
        return self.then(Shift(_pairs("shift", columns), _keys(by), count, constant_text(fill)))

    def diff(self: QueryType, columns: ColumnsLike, n: int = 1, *, by: KeysLike = ()) -> QueryType:
        """Subtract from each value the one ``n`` rows before.

        Parameters
        ----------
        columns
            Columns of numbers, decimals, instants or durations: names, or ``{"new": "column"}``.
            Types and overflow are those of ``-`` in expressions.
        n
            Rows to look back; ahead where it is negative.
        by
            Keys: rows are counted within each.

        Examples
        --------
        >>> trades.diff("qty", by="symbol").collect()["qty"].to_pylist()
        [None, None, 2, 2]
        """
        from tessel.clauses.shifted import Diff

        return self.then(Diff(_pairs("diff", columns), _keys(by), as_row_count("diff", n)))

    def pct_change(
        self: QueryType, columns: ColumnsLike, n: int = 1, *, by: KeysLike = ()
    ) -> QueryType:
        """Divide each value by the one ``n`` rows before, less 1: 0.5 is half as much again.

        Parameters
        ----------
        columns
            Columns of numbers: names, or ``{"new": "column"}``. Results are float64.
        n
            Rows to look back; ahead where it is negative.
        by
            Keys: rows are counted within each.

        Examples
        --------
        >>> trades.pct_change("qty").collect()["qty"].to_pylist()
        [None, 1.0, 0.5, 0.33333333333333326]
        """
        from tessel.clauses.shifted import PctChange

        count = as_row_count("pct_change", n)
        return self.then(PctChange(_pairs("pct_change", columns), _keys(by), count))

    def cum_sum(self: QueryType, columns: ColumnsLike, *, by: KeysLike = ()) -> QueryType:
        """Add up each column as far as each row.

        Parameters
        ----------
        columns
            Columns of numbers, decimals or durations: names, or ``{"new": "column"}``. Types and
            overflow are those of the aggregate ``sum``; sums of floats are exact, rounded once.
        by
            Keys: each has results of its own.

        Examples
        --------
        >>> trades.cum_sum("qty").collect()["qty"].to_pylist()
        [1, 3, 6, 10]
        """
        from tessel.clauses.cumulative import CumSum

        return self.then(CumSum(_pairs("cum_sum", columns), _keys(by)))

    def cum_min(self: QueryType, columns: ColumnsLike, *, by: KeysLike = ()) -> QueryType:
        """Take the least value of each column as far as each row.

        Parameters
        ----------
        columns
            Columns of types that have an order: names, or ``{"new": "column"}``.
        by
            Keys: each has results of its own.

        Examples
        --------
        >>> trades.cum_min("price").collect()["price"].to_pylist()
        [10.0, 10.0, None, 10.0]
        """
        from tessel.clauses.cumulative import CumMin

        return self.then(CumMin(_pairs("cum_min", columns), _keys(by)))

    def cum_max(self: QueryType, columns: ColumnsLike, *, by: KeysLike = ()) -> QueryType:
        """Take the greatest value of each column as far as each row.

        Parameters
        ----------
        columns
            Columns of types that have an order: names, or ``{"new": "column"}``.
        by
            Keys: each has results of its own.

        Examples
        --------
        >>> trades.cum_max("price").collect()["price"].to_pylist()
        [10.0, 20.0, None, 21.0]
        """
        from tessel.clauses.cumulative import CumMax

        return self.then(CumMax(_pairs("cum_max", columns), _keys(by)))

    def cum_count(self: QueryType, columns: ColumnsLike, *, by: KeysLike = ()) -> QueryType:
        """Count the values of each column as far as each row, without missing ones.

        Parameters
        ----------
        columns
            Columns of any type: names, or ``{"new": "column"}``. Results are int64, never missing.
        by
            Keys: each has results of its own.

        Examples
        --------
        >>> trades.cum_count("price").collect()["price"].to_pylist()
        [1, 2, 2, 3]
        """
        from tessel.clauses.cumulative import CumCount

        return self.then(CumCount(_pairs("cum_count", columns), _keys(by)))

    def fill(
        self: QueryType,
        columns: ColumnsLike,
        method: Method = "forward",
        *,
        value: Any = None,
        by: KeysLike = (),
        limit: int | None = None,
        along: Literal["rows", "time"] = "rows",
    ) -> QueryType:
        """Put something in place of missing values.

        Parameters
        ----------
        columns
            Columns of any type: names, or ``{"new": "column"}``.
        method
            ``"forward"`` takes the last value before, ``"backward"`` the next one after,
            ``"linear"`` goes straight between both (numbers; integers and decimals give float64),
            ``"value"`` puts ``value``.
        value
            A value that the type of the column holds; alone it means the method ``"value"``.
        by
            Keys: values are those of the same key.
        limit
            Rows that are filled in a row at most. By default all.
        along
            What ``"linear"`` goes along: ``"rows"``, or the ``"time"`` of the index.

        Examples
        --------
        >>> trades.fill("price", by="symbol").collect()["price"].to_pylist()
        [10.0, 20.0, 10.0, 21.0]
        """
        from tessel.clauses.constants import constant_text
        from tessel.clauses.fill import Fill

        if value is not None and method == "forward":
            method = "value"
        pairs = _pairs("fill", columns)
        return self.then(Fill(pairs, _keys(by), method, constant_text(value), limit, along))

    def rank(
        self: QueryType,
        columns: ColumnsLike,
        method: RankMethod = "average",
        *,
        by: KeysLike = (),
        descending: bool = False,
        pct: bool = False,
    ) -> QueryType:
        """Rank each value among all of its column, from 1 on; missing values have no rank.

        Parameters
        ----------
        columns
            Columns of types that have an order: names, or ``{"new": "column"}``.
        method
            What equal values get: the ``"average"`` of their places (float64), the ``"min"``, the
            ``"max"``, ``"dense"`` (distinct values are counted) or ``"ordinal"`` (in row order).
        by
            Keys: values are ranked within each.
        descending
            Whether the greatest value is the first.
        pct
            Whether ranks are parts of the number of values, up to 1 (float64).

        Examples
        --------
        >>> trades.rank("price").collect()["price"].to_pylist()
        [1.0, 2.0, None, 3.0]
        """
        from tessel.clauses.rank import Rank

        return self.then(Rank(_pairs("rank", columns), _keys(by), method, descending, pct))

    def latest_at(
        self: QueryType, times: Any, *, by: KeysLike = (), origin: str | None = None
    ) -> QueryType:
        """Take, for each of some times, the last row at or before it, of each key.

        Parameters
        ----------
        times
            One time or many: ISO text, dates, date-times; whole numbers on an index of integers.
            They are taken in order, each once, and are the index of the result.
        by
            Keys: each has a last row of its own. Rows come out by time, then by key.
        origin
            Name of a column that gets the time of the row itself; by default it is not kept.

        Examples
        --------
        >>> trades.latest_at("2024-01-01T10:00").collect()["qty"].to_pylist()
        [3]
        """
        from tessel.clauses.latest_at import LatestAt

        one = isinstance(times, str | pa.Scalar) or not isinstance(times, Iterable)
        instants = tuple(_instant(time) for time in ([times] if one else times))
        return self.then(LatestAt(instants, _keys(by), origin))

    def ewm(
        self: QueryType,
        *,
        alpha: float | None = None,
        span: float | None = None,
        halflife: float | str | timedelta | None = None,
        com: float | None = None,
        by: KeysLike = (),
        adjust: bool = True,
        ignore_missing: bool = False,
        min_periods: int = 1,
    ) -> WindowQuery[QueryType]:
        """Weigh the rows up to each row, fading into the past; go on with ``.agg(...)``.

        Parameters
        ----------
        alpha, span, halflife, com
            How fast weights fade; exactly one of them. ``alpha`` is the share of a new value,
            above 0 and at most 1; ``span`` from 1 on is ``2 / alpha - 1``; after ``halflife`` rows,
            above 0, or after that time on the index (``"10s"`` or a timedelta), a weight is half;
            ``com`` from 0 on is the centre of mass, ``1 / alpha - 1``.
        by
            Keys: each fades by itself.
        adjust
            Whether weights are taken over the sum of those there are.
        ignore_missing
            Whether rows without a value take no part; else the others fade all the same, as they
            always do with time.
        min_periods
            Values that there must be so far, or the result is missing.

        Examples
        --------
        >>> trades.ewm(alpha=0.5).agg(smooth=("qty", "mean")).collect()["smooth"].to_pylist()
        [1.0, 1.6666666666666667, 2.4285714285714284, 3.2666666666666666]
        """
        from tessel.clauses.along_rows.index_spans import fading_of
        from tessel.clauses.ewm import Ewm
        from tessel.clauses.verbs.grouping import WindowQuery

        share, half = fading_of(alpha, span, elapsed_text(halflife), com)
        clause = partial(
            Ewm,
            alpha=share,
            by=_keys(by),
            adjust=adjust,
            ignore_missing=ignore_missing,
            min_periods=min_periods,
            halflife=half,
        )
        return WindowQuery(self, clause)

    def rolling(
        self: QueryType,
        window: int | str | timedelta,
        *,
        by: KeysLike = (),
        min_periods: int | None = None,
        closed: Closed = "right",
        center: bool = False,
    ) -> WindowQuery[QueryType]:
        """Look at the rows around each row; go on with ``.agg(...)``, which adds columns.

        Parameters
        ----------
        window
            A number of rows, or a length of time on a time index: ``"5min"`` or a timedelta.
        by
            Keys: a window holds rows of one key.
        min_periods
            Values that a window must have, or its result is missing. By default those of a whole
            window of rows, 1 for a window of time; ``count`` and ``size`` need none.
        closed
            Which ends belong to the window: ``"right"``, ``"left"``, ``"both"`` or ``"neither"``.
        center
            Whether the row is in the middle of its window instead of at its end.

        Examples
        --------
        >>> trades.rolling(2).agg(total=("qty", "sum")).collect()["total"].to_pylist()
        [None, 3, 5, 7]
        """
        from tessel.clauses.rolling import Rolling
        from tessel.clauses.verbs.grouping import WindowQuery

        length = elapsed_text(window)
        count = length if isinstance(length, str) else as_row_count("rolling", length)
        clause = partial(
            Rolling, count, by=_keys(by), min_periods=min_periods, closed=closed, center=center
        )
        return WindowQuery(self, clause)


def _pairs(verb: str, columns: ColumnsLike) -> tuple[tuple[str, str], ...]:
    if isinstance(columns, Mapping):
        return tuple(columns.items())
    if not isinstance(columns, str | Sequence):
        raise PlanError(
            f"{verb} takes names of columns, not {columns!r}",
            hint=f'{verb}("price"), {verb}(["bid", "ask"]) or {verb}({{"new": "price"}})',
        )
    return tuple((name, name) for name in as_names((columns,)))


def _instant(time: Any) -> int | str:
    from tessel.expression.periods import instant_text

    number = whole_number(time)
    found = instant_text(time) if number is None else number
    if found is None:
        raise PlanError("latest_at takes times, and None is none")
    return found


def _keys(by: KeysLike) -> tuple[str, ...]:
    if not isinstance(by, str | Sequence):
        raise PlanError(f"by takes names of columns, not {by!r}")
    return as_names((by,))

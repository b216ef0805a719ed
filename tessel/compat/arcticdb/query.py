"""ArcticDB's query builder, which its verbs change; it holds one of Tessel's, which do not."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

import tessel as ts
from tessel.compat.arcticdb.expressions import ExpressionNode, plain
from tessel.compat.arcticdb.items import (
    DataError,
    ReadRequest,
    VersionedItem,
    VersionedItemWithJoin,
)
from tessel.errors import AggregateError, PlanError

if TYPE_CHECKING:
    from tessel.compat.arcticdb.reading import Reads


class QueryBuilder:
    """A query that is changed by its verbs, each of which returns it.

    Every public attribute but the verbs is a column: ``q.price``.
    """

    def __init__(self) -> None:
        self._query = ts.QueryBuilder()
        self._key: str | None = None
        self._join: Literal["inner", "outer"] | None = None
        self._grouping: dict[str, Any] | None = None

    # --- columns and filters ----------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Any:
        """``q["price"]`` is a column; ``q[condition]`` is a copy of the query with a filter."""
        if isinstance(item, str):
            return ExpressionNode(ts.col(item))
        if not isinstance(item, ExpressionNode | bool):
            raise PlanError(
                f"a query is indexed by a column's name or a condition, not by {item!r:.80}",
                hint='q["price"], or q[q["price"] > 3]',
            )
        filtered = copy.copy(self)
        filtered._query = tessel_query(self).filter(plain(item))
        return filtered

    def __setitem__(self, name: str, expression: Any) -> None:
        """``q["new"] = expression`` is ``q.apply("new", expression)``."""
        self.apply(name, expression)

    def __getattr__(self, name: str) -> ExpressionNode:
        """``q.price`` is ``q["price"]``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return ExpressionNode(ts.col(name))

    def apply(self, name: str, expression: Any) -> Self:
        """Add a column, or replace it."""
        value = plain(expression)
        if isinstance(expression, ExpressionNode) and expression.is_condition:
            value = value.fill_missing(False)
        self._query = tessel_query(self).apply(name, value)
        return self

    # --- rows -------------------------------------------------------------------------------------

    def date_range(self, date_range: Any) -> Self:
        """Keep the rows from one instant to another, both included; None for no bound."""
        self._query = tessel_query(self).date_range(*bounds(date_range))
        return self

    def row_range(self, row_range: tuple[int | None, int | None]) -> Self:
        """Keep rows by position, as ``iloc[start:stop]``."""
        start, stop = row_range
        self._query = tessel_query(self).row_range(start, stop)
        return self

    def head(self, n: int = 5) -> Self:
        """Keep the first ``n`` rows; all but the last ``-n`` of a negative ``n``."""
        self._query = tessel_query(self).head(n)
        return self

    def tail(self, n: int = 5) -> Self:
        """Keep the last ``n`` rows; all but the first ``-n`` of a negative ``n``."""
        self._query = tessel_query(self).tail(n)
        return self

    # --- aggregates -------------------------------------------------------------------------------

    def groupby(self, name: str) -> Self:
        """Group the rows by a column, which becomes the index; go on with ``agg``."""
        self._query = tessel_query(self)
        self._grouping = {"key": name}
        return self

    def resample(
        self,
        rule: Any,
        closed: Literal["left", "right"] | None = None,
        label: Literal["left", "right"] | None = None,
        offset: str | timedelta | None = None,
        origin: Any = "epoch",
    ) -> Self:
        """Group the rows into buckets of time; go on with ``agg``."""
        self._query = tessel_query(self)
        options = {"closed": closed, "label": label, "offset": offset, "origin": origin}
        self._grouping = {"rule": getattr(rule, "freqstr", rule), **options}
        return self

    def agg(self, aggregations: Mapping[str, str | tuple[str, str]]) -> Self:
        """Aggregate the groups: ``{"price": "mean"}`` or ``{"high": ("price", "max")}``."""
        if self._grouping is None:
            raise AggregateError(
                "agg comes after groupby or resample",
                hint='q.groupby("symbol").agg({"price": "mean"})',
            )
        asked: dict[str, tuple[str, str]] = {}
        for name, value in aggregations.items():
            column, how = (name, value) if isinstance(value, str) else value
            asked[name] = (column, how.lower())
        grouping, self._grouping = dict(self._grouping), None
        key = grouping.pop("key", None)
        if key is not None:
            self._query = self._query.groupby(key).agg(asked)
        else:
            self._query = self._query.resample(grouping.pop("rule"), **grouping).agg(asked)
        counts = {name: "uint64" for name, (_, how) in asked.items() if how == "count"}
        self._query = self._query.cast(counts) if counts else self._query
        self._key = key
        return self

    # --- several queries --------------------------------------------------------------------------

    def then(self, other: QueryBuilder) -> Self:
        """Run another query behind this one."""
        self._query = tessel_query(self).then(*tessel_query(other).clauses)
        self._key = other._key or self._key
        self._join = self._join or other._join
        return self

    def prepend(self, other: QueryBuilder) -> Self:
        """Run another query before this one."""
        self._query = tessel_query(other).then(*self._query.clauses)
        self._key = self._key or other._key
        self._join = other._join or self._join
        return self

    def concat(self, join: str = "outer") -> Self:
        """Put the rows of several symbols one after the other: the first verb of such a query."""
        joins: dict[str, Literal["inner", "outer"]] = {"inner": "inner", "outer": "outer"}
        found = joins.get(join.lower())
        if found is None or tessel_query(self).clauses:
            what = f"join={join!r}" if found is None else "concat behind other verbs"
            raise PlanError(
                f"{what} cannot be",
                hint='concat("outer") or concat("inner"), as the first verb of the query',
            )
        self._join = found
        return self

    def optimise_for_speed(self) -> None:
        """Do nothing: there is one way to run a query."""

    def optimise_for_memory(self) -> None:
        """Do nothing: there is one way to run a query."""

    # --- what it is -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueryBuilder):
            return False
        same = (self._query, self._key, self._join, self._grouping)
        return same == (other._query, other._key, other._join, other._grouping)

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return repr(self._query)


def tessel_query(builder: QueryBuilder) -> ts.QueryBuilder:
    """Return the query as Tessel has it; a group-by without its aggregates is refused."""
    if builder._grouping is not None:
        raise AggregateError(
            f"the groups of {builder._grouping} wait for their aggregates",
            hint='go on with agg({"price": "mean"})',
        )
    return builder._query


def group_key(builder: QueryBuilder | None) -> str | None:
    """Return the column that the rows were grouped by last: the index of the frame."""
    return None if builder is None else builder._key


def join_kind(builder: QueryBuilder) -> Literal["inner", "outer"] | None:
    """Return how ``concat`` puts columns together; None for a query that does not begin so."""
    return builder._join


def bounds(date_range: Any) -> tuple[Any, Any]:
    """Return start and end of a range of times: a pair, an index of pandas, or a date range."""
    if hasattr(date_range, "start") and hasattr(date_range, "end"):
        return date_range.start, date_range.end
    return date_range[0], date_range[-1]


# --- queries that know what they read, and run when they are collected ----------------------------


class LazyDataFrame(QueryBuilder):
    """A read of a symbol that is not run yet; the verbs of a query builder change it."""

    def __init__(self, library: Reads, request: ReadRequest) -> None:
        super().__init__()
        self._library = library
        self._request = request
        if request.query_builder is not None:
            self.then(request.query_builder)

    def _asked(self) -> ReadRequest:
        """Return what ``read`` takes for it."""
        return self._request._replace(query_builder=self)

    def collect(self) -> VersionedItem:
        """Read the rows."""
        item: VersionedItem = self._library.read(**self._asked()._asdict())
        return item


class LazyDataFrameCollection(QueryBuilder):
    """Several such reads, of one library; what is added here is done to each."""

    def __init__(self, frames: Iterable[LazyDataFrame]) -> None:
        super().__init__()
        self._frames = list(frames)

    def split(self) -> list[LazyDataFrame]:
        """Return the reads one by one, with what was added to all of them."""
        return [LazyDataFrame(each._library, self._whole(each)) for each in self._frames]

    def collect(self) -> list[VersionedItem | DataError]:
        """Read the rows of each."""
        if not self._frames:
            return []
        library: Any = self._frames[0]._library
        items: list[VersionedItem | DataError] = library.read_batch(self._requests())
        return items

    def _requests(self) -> list[ReadRequest]:
        """Return what ``read`` takes for each."""
        return [self._whole(each) for each in self._frames]

    def _whole(self, frame: LazyDataFrame) -> ReadRequest:
        return frame._asked()._replace(query_builder=QueryBuilder().then(frame).then(self))


class LazyDataFrameAfterJoin(QueryBuilder):
    """Several reads put one after the other, and what is done to all of their rows."""

    def __init__(self, frames: LazyDataFrameCollection, join: str) -> None:
        super().__init__()
        self._frames = frames
        self.concat(join)

    def collect(self) -> VersionedItemWithJoin:
        """Read the rows."""
        library: Any = self._frames._frames[0]._library
        item: VersionedItemWithJoin = library.read_batch_and_join(self._frames._requests(), self)
        return item


def concat(
    lazy_dataframes: list[LazyDataFrame] | LazyDataFrameCollection, join: str = "outer"
) -> LazyDataFrameAfterJoin:
    """Put the rows of several reads one after the other.

    ``join`` is ``"outer"`` for the columns of any of them, or ``"inner"`` for those of all.
    """
    if not isinstance(lazy_dataframes, LazyDataFrameCollection):
        lazy_dataframes = LazyDataFrameCollection(lazy_dataframes)
    return LazyDataFrameAfterJoin(lazy_dataframes, join)

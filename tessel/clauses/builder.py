"""QueryBuilder: how people write a query. Immutable: every verb returns a new one."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from tessel.clauses.aggregation import Aggregation
from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.combining import SubQuery, clauses_from_json
from tessel.clauses.concat import Concat
from tessel.clauses.date_range import DateRange
from tessel.clauses.drop import Drop
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.merge import Merge
from tessel.clauses.named_aggregate import AggregateLike, named_aggregates
from tessel.clauses.partition import Partition
from tessel.clauses.registry import clause_names, find_clause
from tessel.clauses.rename import Rename
from tessel.clauses.resample import Resample
from tessel.clauses.row_range import RowRange
from tessel.clauses.select import Select
from tessel.clauses.tail import Tail
from tessel.errors import NameNotFoundError, PlanError, PlanFormatError, UnknownVerbError
from tessel.expression import Expression, col, lit, parse
from tessel.expression.periods import instant_text
from tessel.expression.schema import TableSchema

__all__ = ["ExpressionLike", "GroupedQuery", "QueryBuilder", "ResampledQuery", "Verbs"]

PLAN_FORMAT = 1

ExpressionLike = Expression | str
Self = TypeVar("Self", bound="Verbs")

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
    "union": "concat",
    "append": "concat",
}


class Verbs:
    """The verbs of a query, shared by :class:`QueryBuilder` and lazy tables.

    A subclass says what a new query with one more clause is (``then``).
    """

    def then(self: Self, *clauses: Clause) -> Self:
        """Return the query with clauses added at the end: the way in for clauses of your own."""
        raise TypeError(f"{type(self).__name__} does not say how a clause is added")

    def filter(
        self: Self, *predicates: ExpressionLike, optimise: Literal["speed", "memory"] = "speed"
    ) -> Self:
        """Keep the rows where every predicate is true; an expression, or text in its grammar."""
        if not predicates:
            raise PlanError("filter needs a condition", hint='filter("price > 100")')
        return self.then(*(Filter(_expression(each), optimise) for each in predicates))

    def apply(self: Self, name: str, expression: ExpressionLike | int | float | bool) -> Self:
        """Add the column ``name``, or replace it where it stands."""
        return self.then(Apply(name, _expression(expression)))

    def with_columns(self: Self, **columns: ExpressionLike | int | float | bool) -> Self:
        """Add or replace several columns; a later one sees the earlier ones."""
        return self.then(*(Apply(name, _expression(value)) for name, value in columns.items()))

    def select(self: Self, *columns: str | Sequence[str]) -> Self:
        """Keep these columns, in this order."""
        return self.then(Select(_names(columns)))

    def drop(self: Self, *columns: str | Sequence[str]) -> Self:
        """Leave these columns out."""
        return self.then(Drop(_names(columns)))

    def rename(self: Self, columns: Mapping[str, str]) -> Self:
        """Give columns other names: a mapping from old to new."""
        if not isinstance(columns, Mapping):
            raise PlanError(
                f"rename takes a mapping from old to new names, not {columns!r}",
                hint='rename({"old": "new"})',
            )
        return self.then(Rename(tuple(columns.items())))

    def date_range(
        self: Self,
        start: Any = None,
        end: Any = None,
        *,
        closed: Literal["both", "left", "right", "neither"] = "both",
    ) -> Self:
        """Keep a span of the time index; both ends included.

        ``start`` and ``end`` are ISO text (a partial one means its whole period), dates,
        date-times, or None for no bound.
        """
        return self.then(DateRange(instant_text(start), instant_text(end), closed))

    def head(self: Self, n: int = 5) -> Self:
        """Keep the first ``n`` rows; a negative ``n`` drops that many from the end."""
        return self.then(Head(_count("head", n)))

    def tail(self: Self, n: int = 5) -> Self:
        """Keep the last ``n`` rows; a negative ``n`` drops that many from the start."""
        return self.then(Tail(_count("tail", n)))

    def row_range(self: Self, start: int | None = None, stop: int | None = None) -> Self:
        """Keep rows by position, like ``iloc[start:stop]``."""
        ends = [None if each is None else _count("row_range", each) for each in (start, stop)]
        return self.then(RowRange(*ends))

    def groupby(
        self: Self, *keys: str | Sequence[str], sort: bool = True, drop_missing: bool = True
    ) -> GroupedQuery[Self]:
        """Group rows by keys; go on with ``.agg(...)``.

        Groups come out by key (``sort=False``: in order of first appearance). Rows with a missing
        key are dropped unless ``drop_missing=False``.
        """
        names = _names(keys)
        if not names:
            raise PlanError("groupby needs a key", hint="for one group of everything use agg alone")
        return GroupedQuery(self, names, sort, drop_missing)

    group_by = groupby

    def agg(self: Self, by_column: Mapping[str, Any] | None = None, **outputs: Any) -> Self:
        """Aggregate all rows into one; the forms are those of ``groupby(...).agg``."""
        found = named_aggregates(by_column, outputs)
        return self.then(Partition(()), Aggregation((), found))

    def resample(
        self: Self,
        rule: str,
        *,
        closed: Literal["left", "right"] = "left",
        label: Literal["left", "right"] = "left",
        origin: Any = "epoch",
        offset: str | None = None,
    ) -> ResampledQuery[Self]:
        """Group rows into time buckets; go on with ``.agg(...)``.

        ``rule`` is a length such as ``"15s"``, ``"1h30min"`` or ``"1D"``.
        """
        start = instant_text(origin)
        return ResampledQuery(self, rule, closed, label, start or "epoch", offset)

    def concat(
        self: Self, *others: str | SubQuery, join: Literal["outer", "inner"] = "outer"
    ) -> Self:
        """Add the rows of other symbols, by name or with clauses of their own first."""
        if not others:
            raise PlanError("concat needs another symbol", hint='concat("other")')
        return self.then(Concat(_queries("concat", others), join))

    def merge(
        self: Self,
        *others: str | SubQuery,
        on: str | None = None,
        join: Literal["outer", "inner"] = "outer",
    ) -> Self:
        """Merge the rows of other symbols by time; without others, order the rows by time.

        ``on`` names the column to order by, which becomes the time index; by default the index.
        """
        return self.then(Merge(_queries("merge", others), on, join))

    def __getattr__(self: Self, name: str) -> Callable[..., Self]:
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


def _then_clause(query: Self, clause: type[Clause], *arguments: Any, **named: Any) -> Self:
    return query.then(clause(*arguments, **named))


def _verbs() -> list[str]:
    methods = {name for name in vars(Verbs) if not name.startswith("_")}
    public = {name for name in clause_names() if not find_clause(name).internal}
    return sorted(methods | public)


@dataclass(frozen=True, eq=False)
class QueryBuilder(Verbs):
    """A query: an immutable list of clauses, not bound to a symbol or store.

    Examples
    --------
    >>> q = QueryBuilder().filter("price > 100").groupby("symbol").agg(total=("qty", "sum"))
    >>> q = q[q["total"] > 1000].head(10)

    Two builders are equal when their plain forms are.
    """

    clauses: tuple[Clause, ...] = ()

    def then(self, *clauses: Clause) -> QueryBuilder:
        """Return the query with clauses added at the end: the way in for clauses of your own."""
        for clause in clauses:
            if not isinstance(clause, Clause):
                raise PlanError(
                    f"{clause!r} is not a clause", hint="pass an instance: q.then(MyClause(...))"
                )
        return QueryBuilder(self.clauses + clauses)

    def __getitem__(self, item: Any) -> Any:
        """``q["price"]`` is a column; ``q[predicate]`` filters; ``q[["a", "b"]]`` selects."""
        if isinstance(item, str):
            return col(item)
        if isinstance(item, Expression):
            return self.filter(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        raise PlanError(
            f"a query is not indexed by {item!r}",
            hint='q["column"], q[condition], or q.row_range(start, stop)',
        )

    def schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the result for an input, without data; misuse is refused here."""
        for clause in self.clauses:
            input_schema = clause.output_schema(input_schema)
        return input_schema

    def to_json(self) -> dict[str, Any]:
        """Return the plain form: ``{"tessel_plan": 1, "clauses": [...]}``."""
        clauses = [clause.to_json() for clause in self.clauses]
        return {"tessel_plan": PLAN_FORMAT, "clauses": clauses}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> QueryBuilder:
        """Rebuild a query from its plain form, or the text of it.

        Raises
        ------
        PlanFormatError
            For anything that is not the plain form of a query.
        NameNotFoundError
            For a clause that is not installed here.
        """
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except (json.JSONDecodeError, RecursionError) as error:
                raise PlanFormatError(f"the text of a plan is not JSON: {error}") from error
        if not isinstance(data, Mapping) or data.get("tessel_plan") != PLAN_FORMAT:
            raise PlanFormatError(
                "not the plain form of a query",
                hint=f'it starts {{"tessel_plan": {PLAN_FORMAT}, "clauses": [...]}}',
            )
        return cls(clauses_from_json(data.get("clauses")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryBuilder) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return (QueryBuilder.from_json, (json.dumps(self.to_json()),))

    def __repr__(self) -> str:
        lines = "".join(f"\n  .{clause.describe()}" for clause in self.clauses)
        return f"QueryBuilder(){lines}"


QueryType = TypeVar("QueryType", bound=Verbs)


@dataclass(frozen=True)
class GroupedQuery(Generic[QueryType]):
    """A query whose rows are grouped, waiting for ``agg``."""

    query: QueryType
    keys: tuple[str, ...]
    sort: bool
    drop_missing: bool

    def agg(
        self,
        by_column: Mapping[str, AggregateLike | list[AggregateLike] | tuple[str, AggregateLike]]
        | None = None,
        **outputs: tuple[str, AggregateLike],
    ) -> QueryType:
        """Compute aggregates of each group.

        ``agg(total=("qty", "sum"))``, ``agg({"qty": "sum"})`` (named ``qty``) or
        ``agg({"qty": ["sum", "max"]})`` (named ``qty_sum`` and ``qty_max``).
        """
        found = named_aggregates(by_column, outputs)
        partition = Partition(self.keys, self.drop_missing)
        return self.query.then(partition, Aggregation(self.keys, found, self.sort))


@dataclass(frozen=True)
class ResampledQuery(Generic[QueryType]):
    """A query whose rows are in time buckets, waiting for ``agg``."""

    query: QueryType
    rule: str
    closed: Literal["left", "right"]
    label: Literal["left", "right"]
    origin: str
    offset: str | None

    def agg(
        self,
        by_column: Mapping[str, AggregateLike | list[AggregateLike] | tuple[str, AggregateLike]]
        | None = None,
        **outputs: tuple[str, AggregateLike],
    ) -> QueryType:
        """Compute aggregates of each bucket; the forms are those of ``groupby(...).agg``."""
        found = named_aggregates(by_column, outputs)
        return self.query.then(
            Resample(self.rule, found, self.closed, self.label, self.origin, self.offset)
        )


def _expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    return parse(value) if isinstance(value, str) else lit(value)


def _names(names: tuple[str | Sequence[str], ...]) -> tuple[str, ...]:
    flat: list[str] = []
    for name in names:
        flat += list(name) if isinstance(name, Iterable) and not isinstance(name, str) else [name]
    for name in flat:
        if not isinstance(name, str):
            raise PlanError(f"a column is named by text, not by {name!r}")
    return tuple(flat)


def _queries(verb: str, others: Sequence[Any]) -> tuple[SubQuery, ...]:
    for each in others:
        if not isinstance(each, str | SubQuery):
            raise PlanError(
                f"{verb} takes symbols, not {each!r}",
                hint=f'{verb}("other"), or {verb}(SubQuery("other", None, clauses))',
            )
    return tuple(SubQuery(each) if isinstance(each, str) else each for each in others)


def _count(verb: str, n: Any) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise PlanError(f"{verb} takes a whole number of rows, not {n!r}")
    return int(n.__index__())

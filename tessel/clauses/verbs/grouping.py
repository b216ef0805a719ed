"""Verbs that reduce rows: groups, time buckets, and what waits for its aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal

from tessel.clauses.aggregation import Aggregation
from tessel.clauses.named_aggregate import AggregateLike, named_aggregates
from tessel.clauses.partition import Partition
from tessel.clauses.resample import Resample
from tessel.clauses.verbs.arguments import as_names
from tessel.clauses.verbs.base import Query, QueryType
from tessel.errors import PlanError
from tessel.expression.periods import instant_text

__all__ = ["GroupedQuery", "GroupingVerbs", "ResampledQuery"]


class GroupingVerbs(Query):
    """Group rows and reduce them."""

    def groupby(
        self: QueryType, *keys: str | Sequence[str], sort: bool = True, drop_missing: bool = True
    ) -> GroupedQuery[QueryType]:
        """Group rows by keys; go on with ``.agg(...)``.

        Groups come out by key (``sort=False``: in order of first appearance). Rows with a missing
        key are dropped unless ``drop_missing=False``.
        """
        names = as_names(keys)
        if not names:
            raise PlanError("groupby needs a key", hint="for one group of everything use agg alone")
        return GroupedQuery(self, names, sort, drop_missing)

    group_by = groupby

    def agg(
        self: QueryType, by_column: Mapping[str, Any] | None = None, **outputs: Any
    ) -> QueryType:
        """Aggregate all rows into one; the forms are those of ``groupby(...).agg``."""
        found = named_aggregates(by_column, outputs)
        return self.then(Partition(()), Aggregation((), found))

    def resample(
        self: QueryType,
        rule: str,
        *,
        closed: Literal["left", "right"] = "left",
        label: Literal["left", "right"] = "left",
        origin: Any = "epoch",
        offset: str | None = None,
    ) -> ResampledQuery[QueryType]:
        """Group rows into time buckets; go on with ``.agg(...)``.

        ``rule`` is a length such as ``"15s"``, ``"1h30min"`` or ``"1D"``.
        """
        start = instant_text(origin)
        return ResampledQuery(self, rule, closed, label, start or "epoch", offset)


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

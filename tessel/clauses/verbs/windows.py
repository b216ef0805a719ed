"""Queries that wait for the aggregates of windows of rows, and of rows that fade into the past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Generic

from tessel.clauses.aggregate_forms import AggregateForm, AggregateLike, read_outputs
from tessel.clauses.verbs.arguments import AwaitsAggregates, QueryType
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.clauses.rolling import Closed


@checks_arguments
@dataclass(frozen=True)
class RollingQuery(AwaitsAggregates, Generic[QueryType]):
    """A query that looks at windows of rows, waiting for ``agg``."""

    _what: ClassVar[str] = "windows"

    query: QueryType
    window: int | str
    by: tuple[str, ...]
    min_periods: int | None
    closed: Closed
    center: bool

    def agg(
        self,
        by_column: Mapping[str, AggregateForm | list[AggregateLike]] | None = None,
        **outputs: AggregateForm,
    ) -> QueryType:
        """Add aggregates of each row's window; the forms are those of ``groupby(...).agg``."""
        from tessel.clauses.rolling import Rolling

        found = read_outputs(by_column, outputs)
        return self.query.then(
            Rolling(
                self.window,
                found.aggregates,
                self.by,
                self.min_periods,
                self.closed,
                self.center,
                found.results,
            )
        )


@checks_arguments
@dataclass(frozen=True)
class EwmQuery(AwaitsAggregates, Generic[QueryType]):
    """A query that weighs rows, fading into the past, waiting for ``agg``."""

    _what: ClassVar[str] = "windows"

    query: QueryType
    alpha: float | None
    halflife: str | None
    by: tuple[str, ...]
    adjust: bool
    ignore_missing: bool
    min_periods: int

    def agg(
        self,
        by_column: Mapping[str, AggregateForm | list[AggregateLike]] | None = None,
        **outputs: AggregateForm,
    ) -> QueryType:
        """Add weighted ``mean``, ``var`` or ``std``; the forms are those of ``groupby``'s agg."""
        from tessel.clauses.ewm import Ewm

        found = read_outputs(by_column, outputs)
        return self.query.then(
            Ewm(
                found.aggregates,
                self.alpha,
                self.by,
                self.adjust,
                self.ignore_missing,
                self.min_periods,
                self.halflife,
                found.results,
            )
        )

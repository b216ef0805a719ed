"""The promise of executors: one query, one answer, whatever runs it.

For tests of clauses and of executors; every error is part of the answer::

    def test_mine(store, spark):
        assert_parity(store, "symbol", query, SparkExecutor(spark))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from tessel.api import Store
from tessel.clauses.builder import QueryBuilder
from tessel.compare import first_difference
from tessel.errors import TesselError
from tessel.lazy import dataclass
from tessel.pipeline.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Failure", "assert_parity", "assert_same", "outcome"]


@dataclass(frozen=True)
class Failure:
    """The error that a query ended with, as plain data: class, kind, message, context and all."""

    error: type[TesselError]
    told: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.error.__name__}: {dict(self.told)}"


Outcome: TypeAlias = pa.Table | Failure


def outcome(store: Store, symbol: str, query: QueryBuilder, executor: Executor | str) -> Outcome:
    """Return what a query ends with: its table, or its typed error."""
    try:
        return store.read(symbol, query=query, executor=executor).to_arrow()
    except TesselError as error:
        return Failure(type(error), error.to_json())


def assert_same(local: Outcome, other: Outcome) -> None:
    """Assert that two outcomes are one: schema, order and every bit, or the same typed error.

    Raises
    ------
    AssertionError
        With the schemas, or the first row, that differ.
    """
    if isinstance(local, Failure) or isinstance(other, Failure):
        if local != other:
            raise AssertionError(f"the outcomes differ:\n  {_shown(local)}\n  {_shown(other)}")
        return
    difference = first_difference(local, other)
    if difference is not None:
        raise AssertionError(
            f"the tables of {local.num_rows} and {other.num_rows} rows differ at {difference}"
        )


def assert_parity(store: Store, symbol: str, query: QueryBuilder, executor: Executor) -> Outcome:
    """Assert that a query ends alike on the local pool and on an executor; return the outcome."""
    expected = outcome(store, symbol, query, "local")
    assert_same(expected, outcome(store, symbol, query, executor))
    return expected


def _shown(found: Outcome) -> str:
    return str(found) if isinstance(found, Failure) else f"a table of {found.num_rows} rows"

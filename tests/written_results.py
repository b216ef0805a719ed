"""What the tests of written results share: a result is written, and what is there is compared."""

from __future__ import annotations

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.errors import TesselError
from tessel.pipeline.executor import Executor
from tessel.testing.parity import Failure, assert_same, outcome


def assert_written(
    store: Store, symbol: str, query: QueryBuilder, executor: Executor | str
) -> None:
    """Assert that a symbol gets what the query gives, or the query's error and no version."""
    expected = outcome(store, symbol, query, "local")
    before = store.version
    lazy = store.scan(symbol).then(*query.clauses)
    try:
        version = store.write("written", lazy, executor=executor)
    except TesselError as error:
        assert store.version == before
        assert_same(expected, Failure(type(error), error.to_json()))
        return
    assert version == store.version == before + 1
    assert_same(expected, store.read("written").to_arrow())
    assert store.view("written").schema == lazy.schema()

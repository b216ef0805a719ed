"""Results that come to the driver a little at a time, and those that are too large to come."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.errors import SparkError, TesselError
from tessel.spark_exec import SparkExecutor, barriers, jobs, running_flows, unit_columns
from tessel.spark_exec.wire import WireRow
from tessel.testing.parity import Failure, assert_same
from tests.spark_exec.queries import Pairs, RaiseAt, many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
ROWS = 120_000
WIDER = Q.apply("y", "x * 1.7")
REGROUPED = Q.then(Pairs())
APPEARED = Q.groupby({"g": "key % 2_500"}, sort=False).agg(x="sum(x)", n="size")
QUERIES = [
    Q,
    Q.filter("b"),
    Q.filter("u < 0"),
    Q.tail(9),
    Q.sort("v"),
    Q.groupby("k").agg(n=("u", "nunique")),
    Q.groupby("k").agg(n=("u", "nunique")).filter("n < 0"),
    Q.resample("2h").agg(m=("v", "median")),
    Q.resample("2h").agg(m=("v", "median")).tail(3),
    Q.concat("b").groupby("k").agg(n=("u", "nunique")),
    Q.merge("b"),
    Q.groupby("k").agg(i=("u", "nunique")).then(RaiseAt((1, 5, 9))),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("streamed"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Rows in 24 segments, which take less bytes than what is computed of them."""
    made = open_store(str(tmp_path_factory.mktemp("wide") / "store"))
    keys = [at * 7_919 % (ROWS // 2) for at in range(ROWS)]
    table = pa.table({"key": keys, "x": [float(at) for at in range(ROWS)]})
    with options(segment_rows=5_000, fsync=False):
        made.write("x", table)
    return made


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    most = 150_000
    monkeypatch.setattr(running_flows, "PARTITION_BYTES", most)
    return most


def _streamed(store: Store, symbol: str, query: QueryBuilder, executor: Any) -> pa.Table | Failure:
    lazy = store.scan(symbol).then(*query.clauses)
    try:
        batches = list(lazy.iter_batches(executor=executor))
        return pa.Table.from_batches(batches, lazy.schema().arrow)
    except TesselError as error:
        return Failure(type(error), error.to_json())


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_what_comes_in_rounds_is_what_threads_give(
    spark: SparkSession, store: Store, query: QueryBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_flows, "PARTITION_BYTES", 1)
    mine = _streamed(store, "a", query, SparkExecutor(spark))
    assert_same(_streamed(store, "a", query, "local"), mine)


@pytest.mark.parametrize(
    "query",
    [WIDER, REGROUPED, APPEARED, REGROUPED.then(*APPEARED.clauses)],
    ids=["narrow", "shuffled", "by appearance", "by appearance behind a shuffle"],
)
def test_the_driver_holds_a_round(
    spark: SparkSession,
    wide: Store,
    few_bytes: int,
    query: QueryBuilder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brought: list[int] = []
    of_job = jobs.Jobs._ran

    def ran(self: jobs.Jobs, work: Callable[[], list[pa.RecordBatch]]) -> list[WireRow]:
        found = of_job(self, work)
        brought.append(sum(len(row.blob) for row in found))
        return found

    monkeypatch.setattr(jobs.Jobs, "_ran", ran)
    monkeypatch.setattr(barriers, "_LEAST_BYTES_IN_ROUNDS", 0)
    monkeypatch.setattr(unit_columns, "_TASK_BYTES", 1)
    executor = SparkExecutor(spark, max_blob_bytes=few_bytes)
    executor.gathered_bytes = few_bytes
    lazy = wide.scan("x").then(*query.clauses)
    given = pa.Table.from_batches(lazy.iter_batches(executor=executor))
    most, total = max(brought), sum(brought)
    assert given.equals(lazy.collect().to_arrow())
    assert total > 3 * few_bytes
    assert most <= 2 * few_bytes  # one unit may be more than a round
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@contextlib.contextmanager
def _most_result_bytes(spark: SparkSession, size: str) -> Iterator[None]:
    """Change what the running context takes: Spark asks for it anew for every stage."""
    settings = spark.sparkContext._jsc.sc().conf()
    name = "spark.driver.maxResultSize"
    before = settings.get(name, "1g")
    settings.set(name, size)
    try:
        yield
    finally:
        settings.set(name, before)


@pytest.mark.parametrize("query", [WIDER, REGROUPED], ids=["narrow", "shuffled"])
def test_a_result_too_large_to_collect_names_what_takes_it(
    spark: SparkSession, wide: Store, few_bytes: int, query: QueryBuilder
) -> None:
    executor = SparkExecutor(spark, max_blob_bytes=few_bytes)
    lazy = wide.scan("x").then(*query.clauses)
    expected = lazy.collect().to_arrow()
    with _most_result_bytes(spark, "700k"):
        with pytest.raises(SparkError, match="too large to be collected") as caught:
            lazy.collect(executor=executor)
        given = pa.Table.from_batches(lazy.iter_batches(executor=executor))
    assert 'store.write("name", lazy, executor="spark")' in str(caught.value.hint)
    assert "700.0 KiB" in caught.value.message
    assert given.equals(expected)

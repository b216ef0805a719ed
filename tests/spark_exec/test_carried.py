"""Clauses that carry from unit to unit on Spark: two passes give what the local pool gives."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.spark_exec import SparkExecutor
from tessel.testing.parity import Failure, assert_parity
from tests.clauses.ordered_steps import ordered_chains, ordered_tables
from tests.spark_exec.queries import many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

Q = QueryBuilder()


class Exchanging(SparkExecutor):
    """Brings no summaries to the driver: what is carried is combined in tasks."""

    gathered_bytes = 0


EXECUTORS = pytest.mark.parametrize("executor", [SparkExecutor, Exchanging])

QUERIES: dict[str, QueryBuilder] = {
    "from before, by key, of any type": Q.shift({"w": "n", "x": "l", "y": "c"}, 2, by=["k", "c"]),
    "from after, behind a filter": Q.filter("b").shift("s", -2, by="c", fill="x").filter("i > 9"),
    "several, and a limit": Q.diff({"a": "i"}, 3).pct_change("v").filter("i > 20").head(7),
    "cumulative": Q.cum_sum({"a": "v", "b": "d"}, by="k")
    .cum_min({"c": "s"})
    .cum_max({"e": "t"}, by="c")
    .cum_count({"f": "l"}),
    "rolling rows": Q.rolling(5, by="k", min_periods=2).agg(a=("v", "mean"), b=("d", "sum")),
    "rolling time": Q.rolling("3h", center=True).agg(a=("v", "std"), b=("c", "last"), n="size"),
    "fill": Q.fill(["k", "v"], by="c").fill({"w": "v"}, "backward").fill("i", "linear"),
    "along time": Q.fill({"w": "v"}, "linear", along="time", by="c", limit=2),
    "rank": Q.filter("b").rank({"r": "v"}, "min", by="c"),
    "ewm": Q.ewm(halflife=3, by="c").agg(m=("v", "mean"), s=("v", "std")),
    "ewm, by time": Q.ewm(halflife="2h", by="c").agg(m=("v", "mean"), s=("v", "std")),
    "rolling, computed": Q.rolling(5, by="k").agg(v="max(v) - min(v)", n="size() / 2"),
    "latest_at": Q.latest_at(["1970-01-01T05", "1970-01-01T13"], by=["c"], origin="then"),
    "after a shuffle": Q.groupby("k", "c").agg(m=("v", "median")).shift({"w": "m"}, by="c"),
    "of several symbols": Q.concat("b", "empty", "one").diff("i", by="c"),
    "of nothing": Q.filter("i < 0").shift("v"),
    "before an aggregation": Q.shift({"w": "v"}, -1, by="k").groupby("k").agg(s=("w", "sum")),
}


_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("carried"))


@EXECUTORS
@pytest.mark.parametrize("name", QUERIES)
def test_parity(
    name: str, executor: type[SparkExecutor], store: Store, spark: SparkSession
) -> None:
    found = assert_parity(store, "a", QUERIES[name], executor(spark))
    assert isinstance(found, pa.Table), found


@EXECUTORS
@pytest.mark.parametrize("symbol", ["empty", "one"])
def test_parity_of_little(
    symbol: str, executor: type[SparkExecutor], store: Store, spark: SparkSession
) -> None:
    assert_parity(store, symbol, Q.shift("v").shift("s", -1), executor(spark))


@EXECUTORS
def test_the_first_error_in_order_is_raised(
    executor: type[SparkExecutor], store: Store, spark: SparkSession
) -> None:
    # The difference of an early unit overflows; so does a product of a later one, before it.
    big = 2**62
    table = pa.table({"v": [big, -big, big, big, 0, 1, 2, 3], "f": [1, 1, 1, 1, 1, 1, big, 1]})
    with options(segment_rows=2, fsync=False):
        store.write("errors", table)
    for n in (1, -1):
        query = Q.apply("g", "f * 4").diff({"d": "v"}, n)
        found = assert_parity(store, "errors", query, executor(spark))
        assert isinstance(found, Failure)
        assert "v" in found.told["message"]


def _check_chains(data: st.DataObject, folder: Path, executor: SparkExecutor) -> None:
    table = data.draw(ordered_tables())
    store = open_store(str(folder / str(next(_numbers))))
    with options(fsync=False, segment_rows=data.draw(st.integers(1, 6))):
        store.write("x", table, index="t")
        for _ in range(3):
            query = data.draw(ordered_chains())
            note(repr(query))
            assert_parity(store, "x", query, executor)


@settings(max_examples=5)
@given(data=st.data())
def test_random_chains(data: st.DataObject, folder: Path, spark: SparkSession) -> None:
    _check_chains(data, folder, data.draw(st.sampled_from([SparkExecutor, Exchanging]))(spark))


@pytest.mark.slow
@pytest.mark.timeout(5_400)
@settings(max_examples=300)
@given(data=st.data())
def test_many_random_chains(data: st.DataObject, folder: Path, spark: SparkSession) -> None:
    _check_chains(data, folder, data.draw(st.sampled_from([SparkExecutor, Exchanging]))(spark))

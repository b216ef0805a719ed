"""Clauses that need everything give on Spark what they give here, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.options import options
from tessel.pipeline.plan import Stage
from tessel.spark_exec import SparkExecutor, barriers, unit_columns
from tessel.spark_exec.flows import FrameFlow
from tessel.testing.parity import assert_parity
from tests.spark_exec.queries import many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
QUERIES = [
    Q.sort("v", "s", descending=[True, False]),
    Q.sort("t", "v", missing="first").resample("6h").agg(first=("v", "first")),
    Q.filter("b").sort("c", "d").tail(7),
    Q.filter("b").head(200_000).shift("v").groupby("k").agg(n="size", m=("v", "median")),
    Q.filter("i > 3").row_range(2, 200_000).rolling(3).agg(m=("i", "mean")).tail(9),
    Q.top_k(5, "v"),
    Q.distinct("k", "s", keep="last"),
    Q.distinct("k", keep="none"),
    Q.explode("l"),
    Q.filter("b").sample(9, seed=4),
    Q.sample(fraction=0.3),
    Q.sample(40, replacement=True, seed=1),
    Q.value_counts("s", normalise=True),
    Q.drop("l").describe(),
    Q.cast({"k": "float64", "u": "string"}),
    Q.select("t", "k", "v").groupby("k").agg("max"),
    Q.groupby("s", sort=False).agg(m=("v", "median"), n="size"),
    Q.rank({"r": "v", "q": "s"}, "max", by="k", pct=True),
    Q.groupby("s").agg(spread="max(v) - min(v)", m="median(v) * 2", n="size"),
    Q.resample("6h", by={"word": "upper(s)"}, empty="zero").agg(spread="max(v) - min(v)"),
]


ZONED = Q.resample("1D", tz="Asia/Tokyo").agg(n="size", m=("v", "max"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder: Path = tmp_path_factory.mktemp("whole")
    return many_symbols(folder)


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("symbol", ["a", "empty"])
def test_one_answer(store: Store, symbol: str, query: QueryBuilder, spark: SparkSession) -> None:
    with options(live_bytes=4_000, hash_bucket_bytes=500):
        found = assert_parity(store, symbol, query, SparkExecutor(spark))
    assert isinstance(found, pa.Table)


def test_buckets_of_another_time_zone(store: Store, spark: SparkSession) -> None:
    rows = store.read("a").to_arrow().select(["t", "v"])
    aware = rows.set_column(0, "t", rows["t"].cast(pa.timestamp("us", "UTC")))
    with options(segment_rows=7):
        store.write("zoned", aware, index="t")
    found = assert_parity(store, "zoned", ZONED, SparkExecutor(spark))
    assert isinstance(found, pa.Table)
    assert found["t"].type.tz == "Asia/Tokyo"


@pytest.mark.parametrize("keys", [("s",), ("k", "c")], ids=str)
@pytest.mark.parametrize("sort", [True, False])
def test_many_groups_are_merged_in_tasks(
    store: Store,
    keys: tuple[str, ...],
    sort: bool,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(barriers, "_LEAST_BYTES_IN_ROUNDS", 0)
    monkeypatch.setattr(unit_columns, "_TASK_BYTES", 1)
    combined, merged = FrameFlow.combined, []

    def noted(flow: FrameFlow, stage: Stage) -> FrameFlow:
        merged.append(stage)
        return combined(flow, stage)

    monkeypatch.setattr(FrameFlow, "combined", noted)
    query = Q.groupby(*keys, sort=sort, drop_missing=False).agg(
        n="size", f=("v", "first"), last=("i", "last"), m=("v", "mean"), d=("d", "sum")
    )
    executor = SparkExecutor(spark)
    executor.gathered_bytes = 0
    assert isinstance(assert_parity(store, "a", query, executor), pa.Table)
    assert bool(merged) is sort  # what comes out as it appeared stays in order
    again = assert_parity(store, "a", query.filter("n > 1").top_k(3, "n"), executor)
    assert isinstance(again, pa.Table)

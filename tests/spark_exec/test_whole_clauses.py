"""Clauses that need everything give on Spark what they give here, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.options import options
from tessel.spark_exec import SparkExecutor
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
    Q.groupby("s", sort=False).agg(m=("v", "median"), n="size"),
    Q.rank({"r": "v", "q": "s"}, "max", by="k", pct=True),
    Q.groupby("s").agg(spread="max(v) - min(v)", m="median(v) * 2", n="size"),
    Q.resample("6h", by={"word": "upper(s)"}, empty="zero").agg(spread="max(v) - min(v)"),
]


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

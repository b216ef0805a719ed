"""The queries that must give the same bytes whatever the threads and the cut, as Spark jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.spark_exec import SparkExecutor
from tessel.testing.parity import assert_parity
from tests.clauses.test_running import SAME, readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The readings in segments of 64 rows."""
    store = open_store(str(tmp_path_factory.mktemp("same")))
    with options(segment_rows=64):
        store.write("x", readings(), index="t")
    return store


@pytest.mark.parametrize("name", SAME)
def test_spark_gives_the_bytes_of_threads(store: Store, spark: SparkSession, name: str) -> None:
    with options(workers=2, inline_bytes=0):
        assert_parity(store, "x", SAME[name], SparkExecutor(spark))


def test_spark_gives_what_statistics_tell_and_what_nothing_can_pass(
    store: Store, spark: SparkSession
) -> None:
    query = QueryBuilder()
    for each in (
        query.agg(n="size", low=("f", "min"), k=("k", "count")),
        query.filter("i > 0").agg(n="size", high=("t", "max")),
        query.filter("1 > 2").apply("z", "i + 1"),
        query.concat("x").filter("i > 0").head(0).agg(n="size"),
        query.head(100).agg(n="size", i=("i", "count")),
    ):
        assert_parity(store, "x", each, SparkExecutor(spark))

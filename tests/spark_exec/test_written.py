"""Results of queries that tasks of Spark write to a store."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.errors import CancelledError, StoreNotVisibleError, TesselError
from tessel.expression.schema import TableSchema
from tessel.job import Job, JobState
from tessel.spark_exec import SparkExecutor, register_source
from tessel.testing.parity import assert_same
from tests.collecting import collect_all
from tests.profiles import cases
from tests.spark_exec.cluster_drivers import Takes
from tests.spark_exec.queries import many_symbols
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.tables import cut_into_segments, tables
from tests.written_results import assert_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_CHAINS_A_CASE = 4
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def executor(spark: SparkSession) -> SparkExecutor:
    return SparkExecutor(spark)


@cases(6, 12)
@given(data=st.data())
def test_a_symbol_gets_what_the_query_gives(
    data: st.DataObject, folder: Path, executor: SparkExecutor
) -> None:
    drawn = {"x": data.draw(query_tables(index=True)), "y": data.draw(query_tables(max_rows=8))}
    index = {name: "t" if "t" in table.column_names else None for name, table in drawn.items()}
    schemas = {name: TableSchema(table.schema, index[name]) for name, table in drawn.items()}
    store = open_store(str(folder / str(next(_numbers))))
    with options(fsync=False, hash_bucket_bytes=data.draw(st.sampled_from([100, 32_000_000]))):
        for name, table in drawn.items():
            data.draw(cut_into_segments(table, index=index[name])).write(store, name)
        for _ in range(_CHAINS_A_CASE):
            query = build(data.draw(chains(schemas["x"], others={"y": schemas["y"]})))
            note(repr(query))
            assert_written(store, "x", query, executor)


@cases(6, 12)
@given(data=st.data())
def test_every_type_is_written(data: st.DataObject, folder: Path, executor: SparkExecutor) -> None:
    indexed = data.draw(st.booleans())
    table = data.draw(tables(index=indexed))
    store = open_store(str(folder / str(next(_numbers))))
    with options(fsync=False):
        data.draw(cut_into_segments(table, index="t" if indexed else None)).write(store, "x")
        assert_written(store, "x", QueryBuilder().tail(table.num_rows - 1), executor)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return many_symbols(tmp_path)


QUERIES = {
    "all rows": QueryBuilder(),
    "no row": QueryBuilder().filter("i < 0"),
    "few segments of many": QueryBuilder().filter("i % 17 == 3"),
    "another order": QueryBuilder().sort("v", "i"),
    "groups by appearance": QueryBuilder().groupby("s", sort=False).agg(n=("i", "median")),
    "many buckets": QueryBuilder().groupby("i").agg(n=("v", "nunique")),
    "two symbols": QueryBuilder().select("t", "i", "s").concat("b", join="inner"),
    "from the front": QueryBuilder().head(31),
    "windows": QueryBuilder().rolling(3, by="s").agg(m=("i", "sum")),
    "here": QueryBuilder().agg(n="sum(i)"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries_of_each_kind(store: Store, executor: SparkExecutor, name: str) -> None:
    with options(hash_bucket_bytes=200, fsync=False):
        assert_written(store, "a", QUERIES[name], executor)


def test_the_other_verbs_do_what_they_do_here(store: Store, executor: SparkExecutor) -> None:
    with options(fsync=False):
        for name in ("local", "spark"):
            store.write(name, store.scan("a").select("t", "i", "v"))
        for name, on in (("local", "local"), ("spark", executor)):
            own = store.scan(name)
            store.update(name, own.filter("i >= 9 and i < 20").apply("v", "-v"), executor=on)
            store.upsert(name, own.filter("i > 50").apply("v", "v * 2"), keys=["i"], executor=on)
            late = own.tail(1).apply("i", "i + 1000")
            store.append(name, late, executor=on)
    assert_same(*(store.read(name).to_arrow() for name in ("local", "spark")))


def test_a_task_that_fails_leaves_no_version(store: Store, executor: SparkExecutor) -> None:
    """Other tasks have staged by then; what they did is collected."""
    segments = {*store.objects.list("seg/"), *store.objects.list("man/")}
    failing = store.scan("a").apply("i", "i + 90").cast({"i": "int8"})
    errors = []
    for on in ("local", executor):
        with options(fsync=False), pytest.raises(TesselError) as caught:
            store.write("y", failing, executor=on)
        errors.append(caught.value.to_json())
    assert errors[0] == errors[1]
    assert "y" not in store.symbols()
    collect_all(store)
    assert {*store.objects.list("seg/"), *store.objects.list("man/")} == segments


def test_a_write_that_is_cancelled_half_way_leaves_no_version(
    store: Store, executor: SparkExecutor
) -> None:
    held = {*store.objects.list("seg/"), *store.objects.list("man/")}
    version = store.version
    slow = store.scan("a").then(Takes(0.2, straggles=True))
    with options(fsync=False, inline_bytes=0):
        job = Job(lambda: store.write("y", slow, executor=executor), "a slow write")
        while job.progress.done < 1:
            assert not job.done(), job.error
            time.sleep(0.02)
        assert job.cancel()
        with pytest.raises(CancelledError):
            job.result()
    assert job.state == JobState.CANCELLED
    assert store.version == version
    assert "y" not in store.symbols()
    collect_all(store)
    assert {*store.objects.list("seg/"), *store.objects.list("man/")} == held


def test_a_store_that_workers_cannot_open_is_told_before_any_job(
    store: Store, executor: SparkExecutor
) -> None:
    with pytest.raises(StoreNotVisibleError):
        open_store("memory://").write("y", store.scan("a"), executor=executor)


def test_a_store_that_workers_do_not_see_is_told_as_that(
    store: Store,
    spark: SparkSession,
    executor: SparkExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_source(spark)  # which turns exceptions of the JVM into typed errors as well
    target = open_store(str(tmp_path / "here"))
    walked = SparkExecutor._walked

    def moved(*arguments: Any, **named: Any) -> Any:
        (tmp_path / "here").rename(tmp_path / "there")
        return walked(*arguments, **named)

    monkeypatch.setattr(SparkExecutor, "_walked", moved)
    with pytest.raises(StoreNotVisibleError, match="finds no store at") as caught:
        target.write("y", store.scan("a"), executor=executor)
    assert caught.value.attributes["uri"] == target.uri

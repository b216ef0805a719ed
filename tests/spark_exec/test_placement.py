"""What explain tells of Spark is what the executor does: which stages run in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.ecs import ProcessingUnit
from tessel.pipeline.executor import run_stages, run_units
from tessel.pipeline.plan import Plan, Stage
from tessel.pipeline.stage import interleave_units
from tessel.spark_exec import SparkExecutor, barriers, executor, placement, running_flows
from tessel.spark_exec.placement import placed_stages
from tessel.testing.parity import Failure, assert_parity, assert_same
from tests.spark_exec.queries import many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("placement"))


def _other(query: QueryBuilder, symbol: str = "b") -> SubQuery:
    return SubQuery(symbol, None, query.clauses)


GROUPS = Q.groupby("s").agg(i=("i", "max"))
SORTED = Q.sort("t", "i").select("t", "i", "s")
QUERIES = {
    "rows": Q.filter("i > 3").apply("z", "i + 1"),
    "groups": GROUPS.filter("i > 3").sort("i"),
    "medians": Q.groupby("k").agg(v=("v", "median")),
    "first rows": Q.filter("b").head(9).cum_sum("i"),
    "first rows of a sort": Q.sort("i").head(9),
    "many first rows": Q.filter("b").head(200_000).cum_sum("i"),
    "many first rows and no more": Q.filter("b").head(200_000),
    "last rows": Q.tail(5).apply("z", "i + 1"),
    "carried": Q.cum_sum("i").rolling(3).agg(m=("i", "mean")),
    "resample": Q.resample("6h").agg(v=("v", "median"), i=("i", "sum")),
    "concat": Q.select("s", "i").concat(_other(GROUPS)).tail(9),
    "concat of groups": GROUPS.concat(_other(GROUPS)).sort("i"),
    "merge": Q.select("t", "i").merge(_other(Q.select("t", "i"))).filter("i > 3"),
    "as-of": Q.join_asof("b"),
    "as-of behind sorts": SORTED.join_asof(_other(SORTED), on="t"),
    "as-of of first rows": Q.head(9).join_asof(_other(Q.head(5))),
    "nothing with something": Q.join_asof("empty"),
    "join": Q.join(_other(GROUPS), "s", "outer").sort("i"),
    "join with few": Q.join(_other(Q.select("k").concat(_other(GROUPS, "one")), "one"), "k"),
    "nothing": Q.sort("i").head(3),
}


def _clauses(plan: Plan) -> Iterator[str]:
    yield from (clause.name for stage in plan.stages for clause in stage.clauses)
    for part in plan.inputs:
        if isinstance(part, Plan):
            yield from _clauses(part)


FEW = {"groups", "first rows", "concat", "merge", "as-of behind sorts", "join", "join with few"}
FEW |= {"many first rows", "many first rows and no more"}
MANY = [
    pytest.param(name, size, marks=[] if size == 64 and name in FEW else pytest.mark.slow)
    for name in QUERIES
    for size in (64, 256 << 20)
]


def _noted_stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the clauses of the stages that barriers run in the driver."""
    ran: list[str] = []

    def noting(
        stages: Sequence[Stage], units: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        ran.extend(clause.name for stage in stages for clause in stage.clauses)
        return run_stages(stages, units)

    monkeypatch.setattr(barriers, "run_stages", noting)
    return ran


@pytest.mark.parametrize(("name", "live_bytes"), MANY)
def test_what_runs_here_is_told(
    store: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    live_bytes: int,
) -> None:
    ran = _noted_stages(monkeypatch)

    def noting_inputs(
        stage: Stage, inputs: Sequence[Iterator[ProcessingUnit]]
    ) -> Iterator[ProcessingUnit]:
        ran.extend(clause.name for clause in stage.clauses)
        return interleave_units(stage, inputs)

    def noting_plan(plan: Plan) -> Iterator[ProcessingUnit]:
        ran.extend(_clauses(plan))
        return run_units(plan)

    monkeypatch.setattr(placement, "_MOST_BYTES_READ_HERE", 1_500)
    monkeypatch.setattr(executor, "run_units", noting_plan)
    monkeypatch.setattr(executor, "interleave_units", noting_inputs)
    on_spark = SparkExecutor(spark)
    symbol = "empty" if name == "nothing" else "a"
    with options(live_bytes=live_bytes, hash_bucket_bytes=4_000):
        explained = store.explain(symbol, QUERIES[name], executor=on_spark)
        store.read(symbol, query=QUERIES[name], executor=on_spark)
    here = [placed for placed in placed_stages(explained.plan) if placed.is_here]
    assert sorted(clause.name for placed in here for clause in placed.clauses) == sorted(ran)
    shown = str(explained).partition("on Spark")[2]
    assert ("│ driver " in shown) is bool(here)


@pytest.mark.parametrize("on", [None, "n"])
def test_what_stands_behind_a_merge_runs_in_tasks(
    on: str | None, tmp_path: Path, spark: SparkSession
) -> None:
    own = open_store(str(tmp_path))
    times = list(range(0, 1_000, 2))
    with options(segment_rows=100, fsync=False):
        own.write("x", {"t": times, "n": [t // 3 for t in times]}, index="t")
        own.write("y", {"t": [5] * 300 + [999], "n": list(range(301))}, index=on or "t")
    merged = own.scan("x").merge(own.scan("y"), on=on).filter("n % 5 == 0")
    in_tasks = SparkExecutor(spark)
    explained = merged.explain(executor=in_tasks)
    assert "merge_range" in str(explained)
    assert ("in_order" in str(explained)) is bool(on)
    assert not any(placed.is_here for placed in placed_stages(explained.plan))
    assert_same(merged.collect().to_arrow(), merged.collect(executor=in_tasks).to_arrow())


@pytest.mark.parametrize(
    ("at", "value"), [(150, 3), (200, 3), (150, None), (199, None), (0, 10_000)]
)
def test_a_merge_by_a_column_that_is_not_in_order_fails_alike(
    at: int, value: int | None, tmp_path: Path, spark: SparkSession
) -> None:
    own = open_store(str(tmp_path))
    numbers: list[int | None] = list(range(400))
    numbers[at] = value
    with options(segment_rows=100, fsync=False):
        own.write("x", {"t": list(range(400)), "n": list(range(400))}, index="t")
        own.write("y", {"t": list(range(400)), "n": numbers}, index="t")
    query = Q.merge(_other(Q, "y"), on="n")
    failed = assert_parity(own, "x", query, SparkExecutor(spark))
    assert isinstance(failed, Failure)
    assert failed.told["attributes"]["row"] == (at if value != 10_000 else 1)


def test_what_stands_behind_many_bytes_of_first_rows_runs_in_tasks(
    store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = _noted_stages(monkeypatch)
    monkeypatch.setattr(barriers, "MOST_SENT_BYTES", 600)
    monkeypatch.setattr(running_flows, "MOST_SENT_BYTES", 600)
    query = Q.filter("b").head(25).apply("z", "i + 1").rolling(3).agg(m=("i", "mean"))
    with options(live_bytes=64):
        found = assert_parity(store, "a", query, SparkExecutor(spark))
    assert isinstance(found, pa.Table)
    assert not ran

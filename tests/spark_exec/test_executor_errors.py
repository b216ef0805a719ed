"""Both engines end a query with the same typed error, whatever fails and however often."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel import options, telemetry
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.errors import (
    ClauseFailedError,
    CorruptSegmentError,
    CorruptStoreError,
    IntegerOverflowError,
    SchemaPromiseError,
    StoreAccessError,
    StoreNotVisibleError,
    TesselError,
)
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Plan
from tessel.spark_exec import SparkExecutor
from tessel.spark_exec.chains import RUN
from tessel.spark_exec.errors_wire import WorkerError, error_row
from tessel.spark_exec.routing import facts_task, route_task, routed
from tessel.spark_exec.tasks import reduce_task, source_task
from tessel.spark_exec.wire import ERROR_ROWS, WireRow, received, sequence, wire_batch
from tessel.testing.parity import Failure, assert_same, outcome
from tests.spark_exec.queries import BreakPromise, RaiseAt
from tests.store.objects.servers import CREDENTIALS, moto_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
MOST = 2**63 - 1
RAISES_LATE = SubQuery("a", None, Q.then(RaiseAt((35,))).clauses)


@pytest.fixture(scope="module", params=[5, 1], ids=["some segments", "small ones read as one"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(str(tmp_path_factory.mktemp("errors") / "store"))
    table = pa.table(
        {
            "t": pa.array([i * 600 for i in range(40)], pa.timestamp("s")),
            "i": pa.array(range(40), pa.int64()),
            "k": pa.array([i % 4 for i in range(40)]),
            "big": pa.array([MOST if i in (23, 31) else i for i in range(40)], pa.int64()),
        }
    )
    with options(segment_rows=request.param, segment_columns=2, fsync=False):
        store.write("a", table, index="t")
    return store


@pytest.fixture(scope="module")
def executor(spark: SparkSession) -> SparkExecutor:
    return SparkExecutor(spark)


@dataclass(frozen=True)
class Case:
    name: str
    query: QueryBuilder
    error: type[TesselError] | None

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("overflow in apply", Q.apply("x", "big + 1"), IntegerOverflowError),
    Case("overflow in a filter", Q.filter("big * 2 > 7"), IntegerOverflowError),
    Case("overflow in a sum", Q.agg(x=("big", "sum")), IntegerOverflowError),
    Case("overflow in a sum of groups", Q.apply("k", "i * 0").groupby("k").agg(x=("big", "sum")),
         IntegerOverflowError),
    Case("overflow in a bucket", Q.apply("k", "i * 0").groupby("k").agg(
        x=("big", "sum"), n=("i", "nunique")), IntegerOverflowError),
    Case("overflow in a time bucket", Q.resample("1D").agg(x=("big", "sum"), n=("i", "median")),
         IntegerOverflowError),
    Case("overflow after a limit", Q.filter("i > 2").tail(20).apply("x", "big + 1"),
         IntegerOverflowError),
    Case("overflow after a concat", Q.concat("a").apply("x", "big + 1"), IntegerOverflowError),
    Case("overflow before a concat", Q.concat(SubQuery("a", None, Q.apply("x", "big + 1").clauses)),
         IntegerOverflowError),
    Case("a clause raises", Q.then(RaiseAt((23,))), ClauseFailedError),
    Case("a clause raises twice", Q.then(RaiseAt((38, 12))), ClauseFailedError),
    Case("a clause raises before buckets", Q.then(RaiseAt((38, 12))).groupby("k").agg(
        n=("i", "nunique")), ClauseFailedError),
    Case("a clause raises in a bucket", Q.resample("2h").agg(i=("i", "median")).apply(
        "i", "i + 0.5").then(RaiseAt((38, 18))), ClauseFailedError),
    Case("a clause raises before and behind a barrier", Q.then(RaiseAt((38,))).resample("2h").agg(
        n=("i", "nunique"), i=("i", "min")).then(RaiseAt((0,))), ClauseFailedError),
    Case("a clause raises behind a limit", Q.then(RaiseAt((38,))).filter("k < 9").head(9), None),
    Case("a clause raises before a limit is met", Q.then(RaiseAt((8,))).head(9),
         ClauseFailedError),
    Case("a clause raises before the last rows", Q.then(RaiseAt((8,))).tail(2),
         ClauseFailedError),
    Case("the first symbol raises", Q.then(RaiseAt((38,))).concat(RAISES_LATE),
         ClauseFailedError),
    Case("the second symbol raises", Q.concat(RAISES_LATE), ClauseFailedError),
    Case("an earlier unit raises in a later stage", Q.head(5).concat(
        SubQuery("a", None, Q.then(RaiseAt((3,))).clauses)).then(RaiseAt((2,))),
        ClauseFailedError),
    Case("a limit before the second symbol", Q.concat(RAISES_LATE).head(40), None),
    Case("a limit inside the second symbol", Q.concat(RAISES_LATE).head(78), ClauseFailedError),
    Case("a counted symbol raises, an earlier one first", Q.then(RaiseAt((38,))).concat(
        SubQuery("a", None, Q.then(RaiseAt((3,))).tail(2).clauses)), ClauseFailedError),
    Case("a counted symbol behind a limit", Q.concat(
        SubQuery("a", None, Q.then(RaiseAt((3,))).tail(2).clauses)).head(12), None),
    Case("raised in its time bucket, behind a limit", Q.filter("k < 9").resample("2h").agg(
        i=("i", "max"), n=("i", "median")).then(RaiseAt((35,))).head(2), None),
    Case("a promise is broken", Q.then(BreakPromise()), SchemaPromiseError),
    Case("a promise is broken behind a barrier", Q.filter("i > 3").head(30).then(BreakPromise()),
         SchemaPromiseError),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_error(store: Store, executor: SparkExecutor, case: Case) -> None:
    for workers in (1, 3):
        with options(workers=workers, inline_bytes=0):
            expected = outcome(store, "a", case.query, "local")
        if case.error is None:
            assert isinstance(expected, pa.Table), str(expected)
        else:
            assert isinstance(expected, Failure)
            assert expected.error is case.error
        assert_same(expected, outcome(store, "a", case.query, executor))


def _damaged(store: Store, how: str, positions: tuple[int, ...]) -> None:
    """Damage some segments, each in its first bytes, or lose the object from there on."""
    for position in positions:
        key = store.view("a").index().source(position).key
        path = Path(store.uri) / key.object
        if how == "missing":
            path.unlink(missing_ok=True)
            continue
        data = bytearray(path.read_bytes())
        path.unlink()  # written anew: the old file may be mapped
        if how == "cut":
            del data[key.offset + key.length - 3 :]
        else:
            data[key.offset + key.length - 9] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["bit", "cut", "missing"])
@pytest.mark.parametrize(
    "query", [Q, Q.groupby("x").agg(n=("y", "nunique")), Q.filter("x > 1").head(30)], ids=str
)
def test_a_damaged_segment(
    tmp_path: Path, executor: SparkExecutor, how: str, query: QueryBuilder
) -> None:
    """Two segments are damaged; the earlier one is named."""
    table = pa.table({"x": range(40), "y": [i % 3 for i in range(40)]})
    writer = open_store(str(tmp_path / "store"))
    with options(segment_rows=5, fsync=False):
        writer.write("a", table)
    _damaged(writer, how, (6, 3))
    store = open_store(writer.uri)
    expected = outcome(store, "a", query, "local")
    assert isinstance(expected, Failure)
    assert expected.error is CorruptSegmentError
    assert set(expected.told["context"]) == {"segment", "symbol"}
    assert_same(expected, outcome(store, "a", query, executor))


# --- where the store is ---------------------------------------------------------------------------


def test_a_store_in_memory_is_refused_before_a_job_starts(executor: SparkExecutor) -> None:
    store = open_store("memory://spark-cannot-see")
    store.write("a", {"x": [1, 2]})
    events: list[str] = []
    with (
        telemetry.subscribe(lambda event: events.append(event.name)),
        pytest.raises(StoreNotVisibleError, match="in the memory of this process") as caught,
    ):
        store.read("a", query=Q.concat("a").head(1), executor=executor)
    assert caught.value.attributes["uri"] == store.uri
    assert "spark.job" not in events


def test_options_of_a_cloud_reach_workers_and_credentials_do_not(executor: SparkExecutor) -> None:
    with moto_server() as moto:
        bucket = moto.new_bucket()
        uri = f"s3://{bucket}/store"
        ours = open_store(uri, credentials=CREDENTIALS, options=moto.options)
        with options(segment_rows=5):
            ours.write("a", {"x": range(40)})
        events: list[str] = []
        with (
            telemetry.subscribe(lambda event: events.append(event.name)),
            pytest.raises(StoreAccessError, match="no plan holds a secret") as caught,
        ):
            ours.read("a", query=Q.filter("x > 30"), executor=executor)
        assert "spark.job" not in events
        assert "environment" in str(caught.value.hint)
        # The endpoint is an option; whoever needs no credentials, or has them, gets there.
        moto.publish(bucket)
        anyone = dataclasses.replace(moto.options, anonymous=True)
        theirs = open_store(uri, options=anyone)
        found = theirs.read("a", query=Q.filter("x > 30"), executor=executor).to_arrow()
        assert found.column("x").to_pylist() == list(range(31, 40))


@pytest.mark.parametrize("query", [Q, Q.filter("x > 0").tail(1), Q.concat("a")], ids=str)
def test_a_store_that_workers_do_not_see(
    tmp_path: Path, executor: SparkExecutor, query: QueryBuilder
) -> None:
    store = open_store(str(tmp_path / "here"))
    store.write("a", {"x": [1, 2]})

    class Elsewhere:
        """Plans here, and runs where the folder has another name."""

        name = "spark"
        slots = executor.slots

        def run(self, plan: Plan) -> object:
            (tmp_path / "here").rename(tmp_path / "there")
            return executor.run(plan)

    with pytest.raises(StoreNotVisibleError, match="finds no store at") as caught:
        store.read("a", query=query, executor=Elsewhere())  # type: ignore[arg-type]
    assert caught.value.attributes["uri"] == str(tmp_path / "here")
    assert "local" in str(caught.value.hint)


# --- tasks, without Spark -------------------------------------------------------------------------


def _run(task: Callable[..., object], rows: list[WireRow]) -> list[WireRow]:
    return list(received(task(iter([wire_batch(rows)] if rows else []))))  # type: ignore[arg-type]


def test_errors_pass_every_task_and_stop_what_would_be_computed_with_holes() -> None:
    failed = error_row(IntegerOverflowError("too much"), seq=sequence(0, 3), bucket=0)
    chain = json.dumps({"clauses": [], "schemas": [_NO_COLUMNS]})
    reduce = reduce_task([(RUN, chain)], False, 1, b"", 1 << 20)
    marker = WireRow(2, 0, -2, b"")
    assert _run(reduce, [marker]) == []
    assert _run(reduce, [marker, failed]) == [failed]
    assert _run(facts_task(), [failed, marker]) == [failed, marker]
    _, routes = routed((), {}, lambda parts: [])
    assert _run(route_task(routes.blob), [failed, marker]) == [failed, marker]
    assert failed.rows == ERROR_ROWS


_NO_COLUMNS = TableSchema(pa.schema([])).to_json()


def test_damage_on_the_wire_is_told_as_what_it_is() -> None:
    damaged = WireRow(0, sequence(0, 1), 3, b"no blob")
    with pytest.raises(WorkerError, match="damaged") as caught:
        _run(facts_task(), [damaged])
    assert isinstance(caught.value.__cause__, CorruptStoreError)


def test_a_task_of_no_partition_sends_nothing() -> None:
    empty = [wire_batch([])]
    assert list(source_task('{"tracks": [], "chains": []}', b"", 1)(iter(empty))) == []

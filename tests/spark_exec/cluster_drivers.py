"""What drivers do on a cluster: each function runs in a process of its own, and asserts."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import SparkError
from tessel.spark_exec import SparkExecutor, register_source, spark_session
from tessel.testing.parity import assert_parity
from tests.spark_exec.cluster import Cluster, victims
from tests.spark_exec.queries import Whole

Q = ts.QueryBuilder()
ROWS = 2_000
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}
QUERIES = [
    Q.filter("k != 'b'").groupby("k").agg(n=("x", "count"), m=("x", "mean")),
    Q.groupby("k").agg(n=("x", "nunique"), m=("x", "median")),  # through a shuffle
    Q.resample("100s").agg(m=("x", "max")).tail(7),
    Q.sort("x", descending=True).head(30),
]


@dataclass(frozen=True)
class Takes(Whole):
    """Takes a while for each unit; the first attempt of the first task takes very long.

    With a path, tasks but the first wait until something is there.
    """

    name: ClassVar[str] = "test_takes"
    seconds: float
    straggles: bool = False
    until: str | None = None

    @property
    def structure(self) -> ts.ClauseInfo:
        return ts.ClauseInfo(ts.Structure.ROW_SLICE, ts.Structure.ROW_SLICE)

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        _wait(self.seconds, self.straggles, self.until)
        return unit


def _wait(seconds: float, straggles: bool, until: str | None = None) -> None:
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return  # on threads
    first = task.partitionId() == 0 and task.attemptNumber() == 0
    time.sleep(60 if straggles and first else seconds)
    if until is not None and task.partitionId() > 0:
        _until(Path(until).exists)


def _slow_rows(
    seconds: float, straggles: bool = False, until: str | None = None
) -> Callable[..., Iterator[pa.RecordBatch]]:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tests.spark_exec.cluster_drivers import _wait

        for batch in batches:
            _wait(seconds, straggles, until)
            yield batch

    return slow


def _store(folder: Path) -> ts.Store:
    store = ts.open(str(folder / "store"))
    times = pa.array(range(ROWS), pa.timestamp("s"))
    table = {
        "t": times,
        "k": ["abcd"[n % 4] for n in range(ROWS)],
        "x": [n * 7919 % 1009 for n in range(ROWS)],
    }
    with ts.options(segment_rows=ROWS // 20, fsync=False):
        store.write("a", table, index="t")
    return store


def _write(
    store: ts.Store,
    name: str,
    seconds: float,
    straggles: bool = False,
    until: str | None = None,
) -> None:
    frame = spark_session().range(0, ROWS, 1, 12).withColumnRenamed("id", "t")
    slow = frame.mapInArrow(_slow_rows(seconds, straggles, until), "t long")
    writer = slow.write.format("tessel").options(store=store.uri, symbol=name, index="t")
    writer.mode("append").save()


def _check_written(store: ts.Store, name: str) -> None:
    assert store.read(name).to_arrow()["t"].to_pylist() == list(range(ROWS)), name


def _session(master: str, settings: Mapping[str, str] | None = None) -> None:
    with ts.options(spark_start_timeout=600):  # other work may hold a start up
        register_source(spark_session(master, configuration={**SETTINGS, **(settings or {})}))


def answers(master: str, folder: Path) -> None:
    """Check queries, shuffles, the data source both ways, a job, and a parallel write."""
    _session(master)
    spark = spark_session()
    store, executor = _store(folder), SparkExecutor(spark)
    assert spark.sparkContext.defaultParallelism == 4
    for query in QUERIES:
        assert_parity(store, "a", query, executor)
    frame = spark.read.format("tessel").options(store=store.uri, symbol="a", query="x < 500").load()
    found = sorted(row.x for row in frame.select("x").collect())
    assert found == sorted(store.read("a", query=Q.filter("x < 500")).to_arrow()["x"].to_pylist())
    _write(store, "written", 0)
    _check_written(store, "written")
    _stream(store, folder)
    job = store.scan("a").then(Takes(600.0)).submit(executor=executor)
    while not job.progress.total:
        assert not job.done(), job.error
        time.sleep(0.1)
    job.cancel()
    with contextlib.suppress(ts.TesselError):
        job.result()
    assert job.state == ts.JobState.CANCELLED, job.error
    assert_parity(store, "a", QUERIES[0], executor)


def _stream(store: ts.Store, folder: Path) -> None:
    """Let one symbol stream into another, and go on from the checkpoint."""
    where = {"store": store.uri, "checkpointLocation": str(folder / "checkpoint")}
    store.write("from", {"t": range(500)}, index="t")
    for first in (500, 700):
        coming = spark_session().readStream.format("tessel").options(store=store.uri, symbol="from")
        going = coming.load().writeStream.format("tessel").trigger(availableNow=True)
        going = going.options(**where, symbol="to", stream_id="copy", index="t")
        going.start().awaitTermination()
        assert store.read("to").to_arrow()["t"].to_pylist() == list(range(first))
        store.append("from", {"t": range(first, first + 200)})


def refused(master: str, folder: Path, settings: Mapping[str, str], message: str) -> None:
    """Check the one error of workers that cannot run tasks."""
    _session(master, settings)
    store = _store(folder)
    with pytest.raises(SparkError) as caught:
        store.read("a", query=QUERIES[0], executor=SparkExecutor())
    assert message in caught.value.message, caught.value
    assert caught.value.hint, caught.value
    assert "\tat " not in str(caught.value), caught.value


def grows(master: str, folder: Path) -> None:
    """Check answers while executors come as tasks wait, and go when they are idle."""
    dynamic = {
        "enabled": "true",
        "shuffleTracking.enabled": "true",
        "shuffleTracking.timeout": "3s",
        "minExecutors": "0",
        "initialExecutors": "1",
        "maxExecutors": "2",
        "executorIdleTimeout": "3s",
        "schedulerBacklogTimeout": "1s",
    }
    settings = {f"spark.dynamicAllocation.{name}": value for name, value in dynamic.items()}
    _session(master, {**settings, "spark.executor.cores": "1"})
    status = spark_session().sparkContext._jsc.sc().getExecutorMemoryStatus
    store, executor = _store(folder), SparkExecutor()
    shuffled = Q.then(Takes(0.3)).groupby("k").agg(n=("x", "nunique"), m=("x", "sum"))
    for query in (shuffled, Q.then(Takes(0.3)).sort("x").filter("k != 'b'")):
        numbers = _numbers_meanwhile(
            lambda: status().size() - 1, partial(assert_parity, store, "a", query, executor)
        )
        assert max(numbers) == 2, numbers
        _until(lambda: status().size() - 1 == 0)  # each has gone, and what it held
    _write(store, "written", 0.2)
    _check_written(store, "written")


def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # against hangs the process has its time
        time.sleep(0.1)


def _numbers_meanwhile(count: Callable[[], int], work: Callable[[], object]) -> list[int]:
    """Return what is counted again and again while something runs."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        numbers = [count()]
        while not running.done():
            time.sleep(0.1)
            numbers.append(count())
        running.result()
    return numbers


def failures(cluster: Cluster, folder: Path) -> None:
    """Check queries and writes of which a process is killed, or a task runs twice."""
    _session(cluster.master)
    store, executor = _store(folder), SparkExecutor()
    for what in ("python", "executor", "worker"):
        with _killed(cluster, what, folder / f"{what} read") as until:
            shuffled = Q.then(Takes(0.3, until=until)).groupby("k")
            query = shuffled.agg(n=("x", "nunique"), m=("x", "sum"))
            assert_parity(store, "a", query, executor)
        with _killed(cluster, what, folder / f"{what} written") as until:
            _write(store, what, 0.6, until=until)
        _check_written(store, what)
    assert_parity(store, "a", Q.then(Takes(0.1, True)).tail(900), executor)
    _write(store, "twice", 0.1, True)
    _check_written(store, "twice")


@contextlib.contextmanager
def _killed(cluster: Cluster, what: str, told: Path) -> Iterator[str]:
    """Kill a process of the youngest worker's machine while tasks of the block run.

    They wait for the path that is given, which is there once something is killed.
    """
    killed: list[int] = []
    tracker = spark_session().sparkContext.statusTracker()

    def kill() -> None:
        while not killed:
            time.sleep(0.05)
            stages = map(tracker.getStageInfo, list(tracker.getActiveStageIds()))
            if any(stage is not None and stage.numCompletedTasks for stage in stages):
                for pid in victims(cluster.workers[-1], what)[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    told.touch()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield str(told)
    assert killed, what
    if what == "worker":
        cluster.add_worker()

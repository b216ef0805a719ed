"""Jobs: a query in the background, its answer, its errors and its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest

import tessel as ts
from tessel.cancelling import CancelFlag, check_cancelled, current_flag
from tessel.clauses import Clause, ClauseInfo, QueryBuilder, Structure, register
from tessel.ecs import ProcessingUnit
from tessel.errors import (
    CancelledError,
    ClauseFailedError,
    ForkUnsafeError,
    JobTimeoutError,
    NameNotFoundError,
)
from tessel.expression.schema import TableSchema
from tessel.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

begun, may_end = threading.Event(), threading.Event()


@register
@dataclass(frozen=True)
class Waits(Clause):
    """Runs until it is let go or cancelled; ``structure`` says with how many rows."""

    name: ClassVar[str] = "waits"
    needs: str = "row_slice"
    looks: bool = field(default=True)

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure(self.needs), Structure.ROW_SLICE)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        begun.set()
        while not may_end.wait(0.01):
            unit.check_cancelled()
        return unit


@pytest.fixture(autouse=True)
def events() -> Iterator[None]:
    begun.clear()
    may_end.clear()
    yield
    may_end.set()


@pytest.fixture
def store() -> ts.Store:
    store = ts.open("memory://")
    with ts.options(segment_rows=3):
        store.write("s", pa.table({"v": list(range(12))}))
    return store


def test_a_job_gives_the_answer_of_collect(store: ts.Store) -> None:
    table = store.scan("s").filter("v > 3")
    job = table.submit()
    assert job.result().to_arrow().equals(table.collect().to_arrow())
    assert (job.done(), job.state, job.error) == (True, ts.JobState.SUCCEEDED, None)
    assert not job.cancel()
    assert job.result(timeout=0).to_arrow().num_rows == 8
    assert table.submit(limit=2).result().to_arrow().num_rows == 2
    assert job.id in repr(job)
    assert job.progress.done == job.progress.total > 0


@pytest.mark.parametrize("needs", ["row_slice", "all"])
@pytest.mark.parametrize("workers", [1, 3])
def test_cancelling_ends_a_job(store: ts.Store, needs: str, workers: int) -> None:
    with ts.options(workers=workers, inline_bytes=0):
        job = store.scan("s").then(Waits(needs)).submit()
    assert begun.wait(60)
    assert (job.done(), job.state, job.error) == (False, ts.JobState.RUNNING, None)
    with pytest.raises(JobTimeoutError, match="still runs") as late:
        job.result(timeout=0)
    assert isinstance(late.value, TimeoutError)
    assert job.cancel()
    with pytest.raises(CancelledError):
        job.result(timeout=60)
    assert job.state == ts.JobState.CANCELLED
    assert isinstance(job.error, CancelledError)
    assert not [each for each in threading.enumerate() if each.name.startswith("tessel-pool")]
    assert store.scan("s").collect().to_arrow().num_rows == 12  # others go on


def test_one_job_is_cancelled_and_no_other(store: ts.Store) -> None:
    first, second = (store.scan("s").then(Waits()).submit() for _ in range(2))
    first.cancel()
    with pytest.raises(CancelledError):
        first.result(timeout=60)
    assert not second.done()
    may_end.set()
    assert len(second.result(timeout=60)) == 12


def test_what_a_cancelled_job_wrote_does_not_land(store: ts.Store) -> None:
    version = store.version

    def work() -> None:
        with store.transaction() as transaction:
            transaction.write("other", pa.table({"v": [1]}))
            begun.set()
            may_end.wait(60)

    job = Job(work, "a write")
    assert begun.wait(60)
    assert job.cancel()
    may_end.set()
    with pytest.raises(CancelledError):
        job.result(timeout=60)
    assert (store.version, store.symbols()) == (version, ["s"])


def test_leaving_the_block_cancels(store: ts.Store) -> None:
    with store.scan("s").then(Waits()).submit() as job:
        assert begun.wait(60)
    assert job.state == ts.JobState.CANCELLED
    with store.scan("s").submit() as job:
        assert len(job.result()) == 12
    assert job.state == ts.JobState.SUCCEEDED


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the system has no such signals")
def test_ctrl_c_while_waiting_cancels(store: ts.Store) -> None:
    job = store.scan("s").then(Waits()).submit()
    assert begun.wait(60)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            job.result()
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(CancelledError):
        job.result(timeout=60)


def test_a_job_fails_with_the_error_of_its_query(store: ts.Store) -> None:
    from tests.clauses.custom import FailsAbove

    job = store.scan("s").then(FailsAbove("v", 7)).submit()
    with pytest.raises(ClauseFailedError, match="value 8"):
        job.result()
    assert job.state == ts.JobState.FAILED
    assert isinstance(job.error, ClauseFailedError)
    with pytest.raises(NameNotFoundError, match="executor"):
        store.scan("s").submit(executor="sprak")


def test_closing_batches_ends_the_tasks_under_way(store: ts.Store) -> None:
    """A consumer that wants no more does not wait for units that it will not see."""
    with ts.options(workers=3, inline_bytes=0):
        batches = store.scan("s").then(Slow()).iter_batches()
        next(batches)
        batches.close()  # type: ignore[attr-defined]
    assert not [each for each in threading.enumerate() if each.name.startswith("tessel-pool")]


@register
@dataclass(frozen=True)
class Slow(Waits):
    """Waits in all units but the first."""

    name: ClassVar[str] = "waits_later"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit if unit.ordinal == 0 else super().process(unit)


def test_flags() -> None:
    assert current_flag() is None
    check_cancelled()
    outer = CancelFlag()
    inner = CancelFlag(outer)
    with inner.watched():
        check_cancelled()
        outer.set()
        assert inner.is_set
        with pytest.raises(CancelledError):
            check_cancelled()
    check_cancelled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_does_not_wait_for_a_job_of_its_parent(store: ts.Store) -> None:
    job = store.scan("s").then(Waits()).submit()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        try:
            job.result()
        except ForkUnsafeError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    may_end.set()
    job.result()


@pytest.mark.spark
def test_a_job_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    from tessel.spark_exec import SparkExecutor
    from tests.clauses.custom import Slow as Sleeps

    store = ts.open(tmp_path / "store")
    store.write("s", pa.table({"v": list(range(12))}))
    executor = SparkExecutor(spark)
    job = store.scan("s").filter("v > 3").submit(executor=executor)
    assert len(job.result()) == 8
    assert job.progress.done <= job.progress.total
    query = QueryBuilder().then(Sleeps("v", seconds=600.0))
    job = store.scan("s").then(*query.clauses).submit(executor=executor)
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds() or not job.progress.total:
        assert not job.done()
    assert job.progress.done == 0
    assert job.cancel()
    with pytest.raises(CancelledError):
        job.result()
    assert job.state == ts.JobState.CANCELLED
    assert len(store.read("s", executor=executor)) == 12  # the session goes on

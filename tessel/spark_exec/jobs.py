"""One query's jobs in a Spark session: frames of wire rows, made, kept, run, cancelled."""

from __future__ import annotations

import contextlib
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel import telemetry
from tessel.cancelling import check_cancelled, current_flag
from tessel.closing import Closing
from tessel.lazy import dataclass
from tessel.spark_exec.driver import DeadExecutors, DriverLog, EndedExecutors
from tessel.spark_exec.errors_wire import spark_errors
from tessel.spark_exec.runtime import ignore_pandas_notice, is_own_session, log_of_executors
from tessel.spark_exec.shipping import of_streams, shipped
from tessel.spark_exec.task_events import EventsOfTasks, told_by_task, without_events
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.versions import collected, inheriting_thread, partitioned, read_again, sent
from tessel.spark_exec.wire import (
    ERROR_ROWS,
    MOST_UNITS,
    UNIT_SHIFT,
    WIRE_DDL,
    WireRow,
    received,
    wire_batch,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

_connect_slots: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_CANCEL_SECONDS, _CANCEL_TRIES = 5.0, 20
_LOOK_SECONDS, _NOTED_MS = 0.1, 1_000


def slots_of_session(session: SparkSession) -> int:
    """Return how many tasks a session runs at a time.

    Spark Connect does not tell, so one small job asks the server, once a session: a range is cut
    into as many partitions as there are slots.

    Raises
    ------
    SparkError
        If the session is stopped.
    """
    from pyspark.sql import functions

    with spark_errors():
        context = _context(session)
        if context is not None:
            return max(1, int(context.defaultParallelism))
        with _lock:
            if session not in _connect_slots:
                partitions = session.range(1 << 20).select(
                    functions.spark_partition_id().alias("p")
                )
                (row,) = partitions.agg(functions.max("p")).collect()
                _connect_slots[session] = int(row[0]) + 1
            return _connect_slots[session]


class Jobs(Closing):
    """Makes and runs the frames of one query; use as a context manager, or close it.

    Nothing of the session is configured. Frames that were kept are given up at the end.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._kept: list[DataFrame] = []
        self._events = EventsOfTasks() if telemetry.is_followed() else None

    def close(self) -> None:
        """Give up the frames that were kept."""
        for frame in self._kept:
            with contextlib.suppress(Exception):  # the session may be what failed
                frame.unpersist()

    def sent(self, table: pa.Table) -> DataFrame:
        """Return a frame of rows of this process, in at most as many partitions as there are slots.

        They go to tasks as data, each to one, where what a function holds goes to all.
        """
        with spark_errors():
            return sent(self._session, table)

    def sent_rows(self, rows: Sequence[WireRow]) -> DataFrame:
        """Return a frame of wire rows of this process."""
        return self.sent(pa.Table.from_batches([wire_batch(rows)]))

    def mapped(
        self, frame: DataFrame, task: TaskFunction, schema: StructType | str = WIRE_DDL
    ) -> DataFrame:
        """Return a frame with a task run on each partition, which makes rows of a schema."""
        ignore_pandas_notice()
        if self._events is not None:
            task = told_by_task(task) if schema == WIRE_DDL else without_events(task)
        with spark_errors():
            return frame.mapInArrow(shipped(task), schema)

    def grouped(self, frame: DataFrame, partitions: int) -> DataFrame:
        """Return a frame with all rows of a bucket in one of so many partitions."""
        from pyspark.sql import functions

        with spark_errors():
            number = functions.col("bucket") % functions.lit(partitions)
            return partitioned(frame, number, partitions)

    def by_unit(self, frame: DataFrame) -> DataFrame:
        """Return wire rows, each in the bucket of the unit that its ``seq`` is of; errors stay."""
        from pyspark.sql import functions as f

        with spark_errors():
            number = f.shiftright("seq", UNIT_SHIFT).bitwiseAND(MOST_UNITS).cast("int")
            kept = f.when(f.col("rows") == ERROR_ROWS, f.col("bucket")).otherwise(number)
            return frame.select(kept.alias("bucket"), "seq", "rows", "blob")

    def sent_on(
        self,
        frame: DataFrame,
        stops: Sequence[int],
        units: NDArray[np.int64],
        seqs: NDArray[np.int64],
        number: int,
    ) -> DataFrame:
        """Return wire rows in the buckets of the tasks that have their units, numbers added.

        Parameters
        ----------
        frame
            Rows of units by their ``seq``, which gets ``number`` added.
        stops
            Behind which unit each task ends.
        units, seqs
            The units that rows are for, and the ``seq`` of each, both ascending.
        """
        from pyspark.sql import functions as f

        tasks, first = np.unique(np.searchsorted(stops, units, "right"), return_index=True)
        with spark_errors():
            seq = f.col("seq")
            firsts = f.array(*map(f.lit, seqs[first].tolist()))
            passed = f.size(f.filter(firsts, lambda begin: begin <= seq))
            bucket = (passed + int(tasks[0]) - 1).cast("int").alias("bucket")
            wanted = frame.where(seq.between(int(seqs[0]), int(seqs[-1])))
            return wanted.select(bucket, (seq + number).alias("seq"), "rows", "blob")

    def of_kind(self, frame: DataFrame, kind: int) -> DataFrame:
        """Return the wire rows whose ``rows`` are a sign, such as that of errors."""
        with spark_errors():
            return frame.where(f"rows = {kind}")

    def between(self, frame: DataFrame, first: int, stop: int) -> DataFrame:
        """Return the wire rows whose ``seq`` is in ``[first, stop)``."""
        with spark_errors():
            return frame.where(f"seq >= {first} and seq < {stop}")

    def exchanged(self, frame: DataFrame) -> DataFrame:
        """Return the frame; no job makes the exchange that its rows come of a second time."""
        if not self.takes_rows:
            return self.kept(frame)
        with spark_errors():
            return _interruptible(lambda: read_again(frame), self._session)

    def kept(self, frame: DataFrame) -> DataFrame:
        """Return the frame; what it computes is kept until the query ends."""
        with spark_errors():
            frame = frame.persist()
        self._kept.append(frame)
        return frame

    def rows(self, frame: DataFrame) -> list[WireRow]:
        """Run a frame and return its rows, error rows among them; emit what its tasks did.

        Ctrl-C cancels the job, and no other; the session stays usable.

        Raises
        ------
        TesselError
            The worker's own error for storage that does not answer; SparkError for failures of
            Spark itself.
        """
        return self._ran(lambda: collected(frame).to_batches())

    @property
    def takes_rows(self) -> bool:
        """Whether :meth:`rows_of` is there: not on Spark Connect, which has no RDDs."""
        return _context(self._session) is not None

    def rows_of(self, told: list[list[WireRow]], task: TaskFunction) -> list[WireRow]:
        """Return what one stage of tasks makes of wire rows of this process, as :meth:`rows`.

        Each of ``told`` is for one task, and goes to it alone. The list is given up: that of a
        million segments takes 20 MB. The job is of an RDD: to plan a DataFrame, and to compile the
        JVM's code for it, takes more processor time than a small query.
        """
        streams = []
        told.reverse()
        while told:
            batch = wire_batch(told.pop())
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            streams.append(sink.getvalue().to_pybytes())
        run = of_streams(shipped(task if self._events is None else told_by_task(task)))
        context = _context(self._session)
        assert context is not None

        def work() -> list[pa.RecordBatch]:
            made = context.parallelize(streams, len(streams)).mapPartitions(run).collect()
            return [batch for stream in made for batch in pa.ipc.open_stream(stream)]

        return self._ran(work)

    def _ran(self, work: Callable[[], list[pa.RecordBatch]]) -> list[WireRow]:
        with telemetry.span("spark.job"), spark_errors():
            batches = _interruptible(work, self._session)
        rows = received(batches)
        return list(rows) if self._events is None else self._events.taken(rows)


@dataclass
class _Tag:
    """A tag on jobs, by which they can be cancelled, and their tasks counted.

    Spark Connect has tags of a session. Those of a Classic session can be used by the very thread
    alone that set them; its context has tags that others can cancel by.
    """

    session: SparkSession
    name: str = field(default_factory=lambda: f"tessel-{uuid.uuid4().hex}")
    _heard: tuple[int, int] = (0, 0)

    @contextlib.contextmanager
    def on_jobs_of_this_thread(self) -> Iterator[None]:
        """Tag the jobs that this block starts in this thread, and no later ones."""
        of: Any = self.session
        context = _context(self.session)
        add = of.addTag if context is None else context.addJobTag
        remove = of.removeTag if context is None else context.removeJobTag
        # A server tells of tasks from time to time, to handlers in the thread that asked for them.
        hears = context is None and hasattr(of, "registerProgressHandler")
        thread = threading.get_ident()

        def hear(stages: Sequence[Any] | None, **_: Any) -> None:
            if threading.get_ident() == thread and stages:
                done = sum(stage.num_completed_tasks for stage in stages)
                self._heard = (done, sum(stage.num_tasks for stage in stages))

        add(self.name)
        if hears:
            of.registerProgressHandler(hear)
        try:
            yield
            self._heard = (self._heard[1], self._heard[1])  # nothing failed: all of them have ended
        finally:
            with contextlib.suppress(Exception):  # the session may be what failed
                if hears:
                    of.removeProgressHandler(hear)
                remove(self.name)

    def cancel(self) -> None:
        """Cancel the jobs that have the tag."""
        context = _context(self.session)
        if context is None:
            self.session.interruptTag(self.name)
        else:
            context.cancelJobsWithTag(self.name)

    def tasks(self, *, have_ended: bool = False) -> tuple[int, int]:
        """Return how many tasks of the jobs that have the tag are done, and how many there are.

        Tasks of a stage that Spark has forgotten are not among them.
        """
        context: Any = _context(self.session)
        if context is None:
            return self._heard
        tracker, scala = context.statusTracker(), context._jsc.sc()
        if have_ended:  # which Spark notes a little later
            scala.listenerBus().waitUntilEmpty(_NOTED_MS)
        done = total = 0
        for number in scala.statusTracker().getJobIdsForTag(self.name):  # pyspark's knows no tags
            job = tracker.getJobInfo(number)
            for stage in [] if job is None else map(tracker.getStageInfo, job.stageIds):
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return done, total


def _executors(session: SparkSession) -> DriverLog | DeadExecutors | None:
    """Return what counts executors that end, of a standalone cluster that Classic runs on."""
    log, context = log_of_executors(session), _context(session)
    if log is not None or context is None or is_own_session(session):
        return log
    return DeadExecutors(context) if str(context.master).startswith("spark://") else None


def _context(session: SparkSession) -> SparkContext | None:
    """Return the context of a Classic session; None for Spark Connect, which has none."""
    from pyspark.errors import PySparkException

    try:
        return session.sparkContext
    except PySparkException:
        return None


def _interruptible(work: Callable[[], T], session: SparkSession) -> T:
    """Run a job so that Ctrl-C cancels it, and the flag of its run; tell how far it is.

    pyspark waits for the end of a job also when it is interrupted, and then raises the error of the
    connection. So the main thread, the only one that signals reach, lets another one do the work,
    and so does a thread that has something to look at meanwhile.
    """
    log = _executors(session)
    is_told = telemetry.is_watched()
    looks = is_told or current_flag() is not None or log is not None
    if threading.current_thread() is not threading.main_thread() and not looks:
        return work()
    check_cancelled()
    tag = _Tag(session)
    ended = EndedExecutors(log, tag.tasks)
    result: Future[T] = Future()

    def run() -> None:
        try:
            with tag.on_jobs_of_this_thread():
                result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    thread = inheriting_thread(session, run)
    thread.start()
    told = (0, 0)
    try:
        while not wait([result], _LOOK_SECONDS if looks else None).done:
            check_cancelled()
            ended.check()
            if is_told:
                told = _tell_tasks(tag, told)
        if is_told and result.exception() is None:
            _tell_tasks(tag, told, have_ended=True)
    except BaseException:
        with contextlib.suppress(Exception):  # the session may be what failed
            for _ in range(_CANCEL_TRIES):  # it may be about to begin
                tag.cancel()
                if wait([result], _CANCEL_SECONDS / _CANCEL_TRIES).done:
                    break
        raise
    return result.result()


def _tell_tasks(tag: _Tag, told: tuple[int, int], *, have_ended: bool = False) -> tuple[int, int]:
    """Tell the owner of the run what tasks have ended since, and are wanted since."""
    try:
        done, total = tag.tasks(have_ended=have_ended)
    except Exception:  # the session may be what failed, which the job tells
        return told
    if (done, total) != told:
        telemetry.emit("spark.tasks", of=tag.name, done=done, total=total)
    return done, total

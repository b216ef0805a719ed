"""One query's jobs in a Spark session: frames of wire rows, made, kept, run, cancelled."""

from __future__ import annotations

import contextlib
import threading
import uuid
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from tessel import telemetry
from tessel.errors import TesselError
from tessel.spark_exec.errors_wire import from_driver_exception
from tessel.spark_exec.runtime import ignore_pandas_notice
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.wire import WIRE_DDL, WireRow, received

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Jobs", "slots_of_session"]

_connect_slots: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def slots_of_session(session: SparkSession) -> int:
    """Return how many tasks a session runs at a time.

    Spark Connect does not tell, so one small job asks the server, once a session: a range is cut
    into as many partitions as there are slots.

    Raises
    ------
    SparkError
        If the session is stopped.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    with _spark_errors():
        try:
            return max(1, int(session.sparkContext.defaultParallelism))
        except PySparkException:
            pass  # Connect has no context
        with _lock:
            if session not in _connect_slots:
                last = functions.max(functions.spark_partition_id())
                (row,) = session.range(1 << 20).select(last).collect()
                _connect_slots[session] = int(row[0]) + 1
            return _connect_slots[session]


class Jobs:
    """Makes and runs the frames of one query; use as a context manager.

    Nothing of the session is configured. Frames that were kept are given up at the end.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for frame in self._kept:
            with contextlib.suppress(Exception):  # the session may be what failed
                frame.unpersist()

    def numbers(self, count: int, task: TaskFunction) -> DataFrame:
        """Return a frame of ``count`` partitions that each run a task on their own number."""
        with _spark_errors():
            return self.mapped(self._session.range(0, count, 1, max(1, count)), task)

    def mapped(self, frame: DataFrame, task: TaskFunction) -> DataFrame:
        """Return a frame with a task run on each partition."""
        ignore_pandas_notice()
        with _spark_errors():
            return frame.mapInArrow(task, WIRE_DDL)

    def grouped(self, frame: DataFrame, partitions: int) -> DataFrame:
        """Return a frame with all rows of a bucket in one of so many partitions."""
        from pyspark.sql import functions

        with _spark_errors():
            number = functions.col("bucket") % functions.lit(partitions)
            return frame.repartitionById(partitions, number)

    def kept(self, frame: DataFrame) -> DataFrame:
        """Return the frame; what it computes is kept until the query ends."""
        with _spark_errors():
            frame = frame.persist()
        self._kept.append(frame)
        return frame

    def rows(self, frame: DataFrame) -> list[WireRow]:
        """Run a frame and return its rows, error rows among them.

        Ctrl-C cancels the job; the session stays usable.

        Raises
        ------
        TesselError
            The worker's own error for storage that does not answer; SparkError for failures of
            Spark itself.
        """
        with telemetry.span("spark.job"), _spark_errors(), _cancellable(self._session):
            batches = frame.toArrow().to_batches()
        return list(received(batches))


@contextlib.contextmanager
def _spark_errors() -> Iterator[None]:
    try:
        yield
    except TesselError:
        raise
    except Exception as error:
        raise from_driver_exception(error) from error


@contextlib.contextmanager
def _cancellable(session: SparkSession) -> Iterator[None]:
    """Cancel the jobs that this block started in this thread when it is left by an error.

    The tag lives around each job alone: tags are a thread's, and the iterator of a result may be
    taken further by another thread than the one that began.
    """
    tag = f"tessel-{uuid.uuid4().hex}"
    session.addTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the session may be what failed
            session.interruptTag(tag)
        raise
    finally:
        with contextlib.suppress(Exception):
            session.removeTag(tag)

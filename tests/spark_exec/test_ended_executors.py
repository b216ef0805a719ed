"""Executors that end again and again end the job, with one error that says why they ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tessel.errors import SparkError
from tessel.spark_exec.driver import DeadExecutors, DriverLog, EndedExecutors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINE = "26/11/26 21:12:52 INFO StandaloneAppClient$ClientEndpoint: Executor {}\n"
_ENDED = _LINE.format("updated: app-1/450 is now EXITED (Command exited with code 1)")
_OTHERS = (
    _LINE.format("added: app-1/451 on worker-1 (127.0.0.3:38423) with 2 core(s)")
    + _LINE.format("updated: app-1/451 is now RUNNING")
    + _LINE.format("updated: app-1/452 is now KILLED (Worker shutting down)")
)


def _log(text: str) -> DriverLog:
    reading, writing = os.pipe()
    log = DriverLog(reading)
    os.write(writing, text.encode())
    os.close(writing)
    log.join()
    return log


class _Tag:
    def __init__(self) -> None:
        self.done = 0

    def tasks(self) -> tuple[int, int]:
        return self.done, 9


def test_the_log_counts_executors_that_end_by_themselves(capfd: pytest.CaptureFixture[str]) -> None:
    log = _log(f"hello\n{_OTHERS}{_ENDED}{_ENDED}" + _LINE.format("updated: app-1/9 is now LOST"))
    assert log.executors_ended == 3
    assert log.last_end == "is now LOST"
    assert log.tail() == "hello"
    assert _log(_ENDED).last_end == "Command exited with code 1"


def test_a_job_ends_once_too_many_have_ended_before_a_task_did() -> None:
    log, tag = _log(_ENDED * 3), _Tag()
    watched: Any = EndedExecutors(log, tag.tasks)
    log.executors_ended = 12
    watched.check()
    tag.done = 1
    log.executors_ended = 14
    watched.check()  # a task has ended: it counts from here
    log.executors_ended = 23
    watched.check()
    log.executors_ended = 24
    with pytest.raises(SparkError, match=r"ended 10 times before a task did.*code 1") as caught:
        watched.check()
    assert "folder of the application on a worker" in str(caught.value.hint)
    EndedExecutors(None, tag.tasks).check()


class _Executor:
    def __init__(self, reason: str | None) -> None:
        self._reason = reason

    def isActive(self) -> bool:  # as Spark calls it
        return self._reason is None

    def removeReason(self) -> _Executor:
        return self

    def get(self) -> str | None:
        return self._reason


class _Session:
    """The way to the executors that the JVM of a session of somebody else's tells of."""

    def __init__(self, *reasons: str | None) -> None:
        self._jsc, self.executors = self, list(map(_Executor, reasons))

    def sc(self) -> _Session:
        return self

    statusStore = sc  # noqa: N815

    def executorList(self, active: bool) -> _Session:
        return self

    def size(self) -> int:
        return len(self.executors)

    def apply(self, at: int) -> _Executor:
        return self.executors[at]


def test_executors_of_a_session_of_somebody_else_are_counted() -> None:
    session, tag = _Session(None, "Executor killed by driver.", "exited with code 134"), _Tag()
    dead: Any = DeadExecutors(session)
    watched: Any = EndedExecutors(dead, tag.tasks)
    assert (dead.executors_ended, dead.last_end) == (1, "exited with code 134")
    session.executors += [_Executor("exited with code 137")] * 10
    watched.check()  # it looks once a second
    dead._next = 0
    with pytest.raises(SparkError, match=r"ended 10 times before a task did.*code 137"):
        watched.check()


@pytest.mark.spark
def test_spark_tells_of_executors(spark: SparkSession) -> None:
    dead = DeadExecutors(spark.sparkContext)
    assert dead.executors_ended == 0
    told = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    assert [told.apply(at).isActive() for at in range(told.size())] == [True]
    assert not told.apply(0).removeReason().isDefined()

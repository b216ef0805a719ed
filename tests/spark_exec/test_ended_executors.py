"""Executors that end again and again end the job, with one error that says why they ended."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tessel.errors import SparkError
from tessel.spark_exec.driver import DriverLog
from tessel.spark_exec.jobs import _EndedExecutors

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
    watched: Any = _EndedExecutors(log, tag)  # type: ignore[arg-type]
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
    _EndedExecutors(None, tag).check()  # type: ignore[arg-type]

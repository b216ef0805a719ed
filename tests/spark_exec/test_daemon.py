"""The worker daemon: when it freezes, and that real workers run under it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel.spark_exec.daemon import FREEZE_AFTER_TASKS, freezing
from tessel.spark_exec.runtime import ignore_pandas_notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_freezes_what_is_left_after_the_first_tasks_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))

    def worker(socket: str, authenticated: bool) -> int:
        calls.append(f"{socket} {authenticated}")
        return 7

    run = freezing(worker)
    for number in range(1, 7):
        assert run("socket", number > 1) == 7
        after = ["collect", "freeze"] if number in FREEZE_AFTER_TASKS else []
        assert calls == [f"socket {number > 1}", *after]
        calls.clear()


def _frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.record_batch({"frozen": pa.array([gc.get_freeze_count()], pa.int64())})


@pytest.mark.spark
def test_workers_of_our_sessions_have_frozen_imports(spark: SparkSession) -> None:
    ignore_pandas_notice()
    answer = spark.range(0, 4, 1, 4).mapInArrow(_frozen, "frozen long").toArrow()
    # The imports of pyspark and pyarrow alone are tens of thousands of objects.
    assert answer.num_rows == 4
    assert min(answer.column("frozen").to_pylist()) > 10_000

"""What tasks do reaches those who follow a run in the driver, as what threads do does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tessel as ts
from tessel import telemetry
from tessel.spark_exec import SparkExecutor
from tessel.spark_exec.task_events import (
    EventsOfTasks,
    told_by_task,
    without_events,
)
from tessel.spark_exec.wire import EVENT_ROWS, WireRow, received, wire_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Q = ts.QueryBuilder()
ROWS = 1_200
X = [n * 7919 % 1009 * 1.0 for n in range(ROWS)]
DATA = [WireRow(3, 1, 1, b"data")]


def _reads(count: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            telemetry.emit("segment.read", duration_ns=5, object=f"seg/{number}", rows=7, bytes=11)
            telemetry.emit("memory.alive", bytes=1)
        yield from batches

    return task


def _run(task: Callable[..., Iterator[pa.RecordBatch]], rows: list[WireRow]) -> list[WireRow]:
    return list(received(task(iter([wire_batch(rows)]))))


def _emitted(
    rows: list[WireRow], told: EventsOfTasks
) -> tuple[list[WireRow], list[dict[str, Any]]]:
    heard: list[telemetry.Event] = []
    with telemetry.follow(heard.append):
        left = told.taken(rows)
    tasks = [event for event in heard if event.name == "spark.task"]
    assert all(0 <= task.duration_ns < 60 * 10**9 for task in tasks)
    told = [event for event in heard if event.name != "spark.task"]
    assert {e.attributes["task"] for e in told} == {t.attributes["task"] for t in tasks}
    return left, [{"name": e.name, "ns": e.duration_ns, **e.attributes} for e in told]


def test_a_task_sends_the_sums_of_its_events_and_passes_those_before_it_on() -> None:
    first = _run(told_by_task(_reads(3)), DATA)
    assert [row.rows for row in first] == [1, EVENT_ROWS]
    second = _run(told_by_task(_reads(2)), first)
    assert sorted(row.rows for row in second) == [EVENT_ROWS, EVENT_ROWS, 1]
    told = EventsOfTasks()
    left, heard = _emitted(second, told)
    assert left == DATA
    assert [(each["name"], each["ns"], each["rows"], each["count"]) for each in heard] == [
        ("segment.read", 15, 21, 3),
        ("segment.read", 10, 14, 2),
    ]
    assert _emitted(second, told) == (DATA, [])  # rows that were kept are told of once
    assert not telemetry.is_followed()


def test_a_task_that_does_nothing_sends_nothing() -> None:
    assert _run(told_by_task(_reads(0)), DATA) == DATA
    seen: list[WireRow] = []

    def see(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.extend(received(batches))
        yield wire_batch([])

    _run(without_events(see), _run(told_by_task(_reads(1)), DATA))
    assert seen == DATA


@pytest.mark.parametrize("clauses", [1, 30])
def test_a_task_tells_a_kilobyte_at_most(clauses: int) -> None:
    columns = {f"column {number}": "values" for number in range(200)}

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in range(clauses):
            with telemetry.span("clause.process", clause=f"clause {number}", unit=1) as facts:
                facts.update(rows_in=2, rows_out=1, columns=columns)
        yield from batches

    *_, told = _run(told_by_task(task), DATA)
    assert len(told.blob) <= 1_024
    _, sums = json.loads(told.blob)
    assert sums[0]["sums"] == {"rows_in": 2, "rows_out": 1}
    assert len({each["same"]["clause"] for each in sums}) >= min(clauses, 4)


# --- on Spark -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ts.Store:
    store = ts.open(str(tmp_path_factory.mktemp("told") / "store"))
    table = {
        "t": list(range(ROWS)),
        "k": ["abcd"[n % 4] for n in range(ROWS)],
        "x": X,
    }
    with ts.options(segment_rows=100, fsync=False):
        store.write("a", table, index="t")
    return store


def _rows_of_clauses(store: ts.Store, query: ts.QueryBuilder, executor: object) -> Counter[str]:
    """Return the rows that went into each clause, and those that were read."""
    heard: list[telemetry.Event] = []
    with telemetry.follow(heard.append):
        store.read("a", query=query, executor=executor)
    found: Counter[str] = Counter()
    for event in heard:
        told = event.attributes
        if event.name == "clause.process":
            found[told["clause"]] += told["rows_in"]
        elif event.name == "segment.read":
            found["read"] += told["rows"]
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Q.filter("x > 300").groupby("k").agg(n=("x", "sum")), {"partial_aggregation": ROWS}),
        # Through an exchange: what the tasks before it did is passed on.
        (Q.groupby("k").agg(n=("x", "median")), {"partition": ROWS, "aggregation": ROWS}),
        (Q.filter("x > 300").select("t", "x"), {"read": sum(x > 300 for x in X)}),
    ],
    ids=["stored", "exchange", "narrow"],
)
def test_rows_that_tasks_read_and_process_are_told(
    query: ts.QueryBuilder, expected: dict[str, int], store: ts.Store, spark: SparkSession
) -> None:
    found = _rows_of_clauses(store, query, SparkExecutor(spark))
    assert {name: found[name] for name in expected} == expected
    assert found["x"] == 0


@pytest.mark.spark
@pytest.mark.parametrize("gathered_bytes", [0, 1 << 26])
def test_who_follows_a_run_changes_no_answer(
    gathered_bytes: int, store: ts.Store, spark: SparkSession
) -> None:
    """What is carried to units and what tasks tell travel as wire rows, both."""
    executor = SparkExecutor(spark)
    executor.gathered_bytes = gathered_bytes
    query = Q.rolling(20, by="k").agg(m=("x", "mean"))
    heard: list[telemetry.Event] = []
    with telemetry.follow(heard.append):
        found = store.read("a", query=query, executor=executor)
    assert found.to_arrow() == store.read("a", query=query).to_arrow()
    assert any(event.name == "clause.process" for event in heard)


@pytest.mark.spark
def test_tasks_are_told_while_they_run(store: ts.Store, spark: SparkSession) -> None:
    heard: list[telemetry.Event] = []
    with telemetry.follow(heard.append):
        store.read("a", query=Q.groupby("k").agg(n=("x", "median")), executor=SparkExecutor(spark))
    told = [event.attributes for event in heard if event.name == "spark.tasks"]
    assert told[-1]["done"] == told[-1]["total"] > 1


@pytest.mark.spark
def test_a_frame_is_none_of_what_tasks_tell(store: ts.Store, spark: SparkSession) -> None:
    with telemetry.follow(lambda event: None):
        frame = store.scan("a").groupby("k").agg(n=("x", "median")).to_spark(spark)
        assert frame.count() == 4


@pytest.mark.spark
def test_explain_tells_of_a_run_in_tasks(store: ts.Store, spark: SparkSession) -> None:
    query = Q.groupby("k").agg(n=("x", "median"))
    told = store.explain("a", query, analyze=True, executor=SparkExecutor(spark))
    parts = {part.title: part for part in told.document.parts if hasattr(part, "rows")}
    lines = {row[0]: row for row in parts["clauses as they ran"].rows}
    assert lines["partition"][2:4] == ("12", "1,200 → 1,200")
    assert "read for the result" in str(told)


def test_where_nobody_follows_nothing_is_sent(tmp_path: Path) -> None:
    from tessel.spark_exec.jobs import Jobs

    assert Jobs(None)._events is None  # type: ignore[arg-type]

"""What a task does, as events of the driver: summed in the task, sent behind its rows.

A worker's events (:mod:`tessel.telemetry`) happen in another process. While somebody in the driver
follows them, each task sends one more wire row behind its own. Tasks behind it in a job pass such
rows on; the driver takes them out of what a job returns and emits what they tell, once for each
task that ran, however many jobs return it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import compute

from tessel import telemetry
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.wire import EVENT_ROWS, LAST_SEQ, WIRE_SCHEMA, WireRow, wire_batch

_SENT = frozenset(
    {
        "segment.read",
        "segment.write",
        "storage.fetch",
        "clause.process",
        "clause.choose",
        "clause.read",
        "clause.summary",
        "spill.write",
        "spill.read",
    }
)
_MOST_BYTES = 1_024


def told_by_task(task: TaskFunction) -> TaskFunction:
    """Return the task that passes on what tasks before it tell, and tells what it does."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        began_ns, sums = time.time_ns(), telemetry.EventSums()

        def add(event: telemetry.Event) -> None:
            if event.name in _SENT:
                sums.add(event)

        with telemetry.subscribe(add):
            yield from task(_without_events(batches, passed))
        yield from passed
        told = _told(sums.sums, began_ns, time.time_ns())
        if told is not None:
            yield wire_batch([WireRow(0, LAST_SEQ, EVENT_ROWS, told)])

    return run


def without_events(task: TaskFunction) -> TaskFunction:
    """Return the task that does not get what tasks before it tell: its rows are not wire rows."""
    return lambda batches: task(_without_events(batches, []))


def _without_events(
    batches: Iterable[pa.RecordBatch], passed: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.schema.names == WIRE_SCHEMA.names:
            told = compute.equal(batch.column("rows"), EVENT_ROWS)
            if told.true_count:
                passed.append(batch.filter(told))
                batch = batch.filter(compute.invert(told))
        if batch.num_rows:
            yield batch


def _told(sums: list[dict[str, Any]], began_ns: int, ended_ns: int) -> bytes | None:
    """Return sums as JSON of at most 1 KB, or None; forms of columns go where it is more.

    Of still more only the sums that took longest are told. The task is told of by the clock of the
    day, which processes share.
    """
    if not sums:
        return None
    task = {"name": uuid.uuid4().hex, "began": began_ns, "ended": ended_ns}
    short = [
        {**each, "same": {k: v for k, v in each["same"].items() if k != "columns"}} for each in sums
    ]
    for left in (sums, *(short[:count] for count in range(len(short), 0, -1))):
        told = json.dumps([task, left], default=str, separators=(",", ":")).encode()
        if len(told) <= _MOST_BYTES:
            break
    return told


class EventsOfTasks:
    """Emits in the driver what tasks tell, each task once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def taken(self, rows: Iterable[WireRow]) -> list[WireRow]:
        """Return the rows that tell of no task; emit what the others tell."""
        left = []
        for row in rows:
            if row.rows == EVENT_ROWS:
                self._emit(row.blob)
            else:
                left.append(row)
        return left

    def _emit(self, blob: bytes) -> None:
        task, sums = json.loads(blob)
        name = task["name"]
        if name in self._told:
            return
        self._told.add(name)
        ago_ns = max(0, time.time_ns() - task["ended"])
        at_ns, took_ns = time.monotonic_ns() - ago_ns, max(0, task["ended"] - task["began"])
        telemetry.emit_at("spark.task", at_ns, took_ns, task=name)
        for each in sums:
            event = telemetry.EventSums.as_event(each, task=name)
            telemetry.emit_at(event.name, at_ns, event.duration_ns, **event.attributes)

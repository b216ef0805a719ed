"""What a task does, as events of the driver: summed in the task, sent behind its rows.

A worker's events (:mod:`tessel.telemetry`) happen in another process. While somebody in the driver
follows them, each task sends one more wire row behind its own. Tasks behind it in a job pass such
rows on; the driver takes them out of what a job returns and emits what they tell, once for each
task that ran, however many jobs return it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import compute

from tessel import telemetry
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.wire import EVENT_ROWS, LAST_SEQ, WIRE_SCHEMA, WireRow, wire_batch

__all__ = ["EventsOfTasks", "told_by_task", "without_events"]

_SENT = frozenset(
    {
        "segment.read",
        "clause.process",
        "clause.choose",
        "clause.read",
        "clause.summary",
        "spill.write",
        "spill.read",
    }
)
_SUMS = ("rows", "rows_in", "rows_out", "bytes", "file_bytes")
_SINGLE = ("object", "unit")
"""Facts that differ from event to event, and do not add up."""
_MOST_BYTES = 1_024


def told_by_task(task: TaskFunction) -> TaskFunction:
    """Return the task that passes on what tasks before it tell, and tells what it does."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        sums = _Sums()
        with telemetry.subscribe(sums.add):
            yield from task(_without_events(batches, passed))
        yield from passed
        told = sums.told()
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


class _Sums:
    """Sums of the events of one task, by name and by what does not add up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, dict[str, Any]] = {}

    def add(self, event: telemetry.Event) -> None:
        if event.name not in _SENT:
            return
        facts = event.attributes
        same = {k: v for k, v in facts.items() if k not in _SUMS and k not in _SINGLE}
        key = json.dumps([event.name, same], default=str, sort_keys=True)
        with self._lock:
            told = self._sums.setdefault(
                key, {"name": event.name, "ns": 0, "count": 0, "sums": {}, "same": same}
            )
            told["ns"] += event.duration_ns
            told["count"] += 1
            for name in _SUMS:
                if name in facts:
                    told["sums"][name] = told["sums"].get(name, 0) + int(facts[name])

    def told(self) -> bytes | None:
        """Return the sums as JSON of at most 1 KB, or None; forms of columns go where it is more.

        Of still more only the sums that took longest are told.
        """
        sums = sorted(self._sums.values(), key=lambda told: told["ns"], reverse=True)
        if not sums:
            return None
        name = uuid.uuid4().hex
        told = _json(name, sums)
        if len(told) > _MOST_BYTES:
            sums = [
                {**each, "same": {k: v for k, v in each["same"].items() if k != "columns"}}
                for each in sums
            ]
            told = _json(name, sums)
        while len(told) > _MOST_BYTES and len(sums) > 1:
            sums = sums[:-1]
            told = _json(name, sums)
        return told


def _json(name: str, sums: list[dict[str, Any]]) -> bytes:
    return json.dumps([name, sums], default=str, separators=(",", ":")).encode()


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
        name, sums = json.loads(blob)
        if name in self._told:
            return
        self._told.add(name)
        for each in sums:
            telemetry.emit(
                each["name"],
                duration_ns=each["ns"],
                **each["same"],
                **each["sums"],
                count=each["count"],
                task=name,
            )

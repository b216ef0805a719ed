"""The profile of a run: which form each clause and column had, and what took how long.

It is made of the events of the run (:mod:`tessel.telemetry`), which its code emitted: so it says
what ran, not what was planned. `Result.profile` and `LazyTable.explain(analyze=True)` enter here.
A clause that is bound to batches has no event of its own where a later clause runs it in its
kernel; the event of that clause names it. Clauses of one name share their lines. The time of those
that take units as a stream includes that of the units that they waited for. A task of Spark sums
its events: those that differ in nothing else come as one, with their ``count``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tessel.arrays import table_of_rows
from tessel.cached import cached
from tessel.display.documents import Document, Table
from tessel.display.shown import Shown
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass
from tessel.pipeline.plan import Plan
from tessel.telemetry import Event, Recording

_NS_PER_MS, _NS_PER_US = 1_000_000, 1_000
_KERNEL = "kernel on stored columns"
_VALUES = ("values", "dictionary")
"""Forms of columns that are decoded: Arrow arrays."""

_CLAUSES = ("clause.process", "clause.choose", "clause.read", "clause.summary", "clause.stream")


@dataclass
class _Clause:
    """What events say of one clause in one form."""

    units: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    duration_ns: int = 0

    @property
    def moved(self) -> str:
        """Rows in and out; a stream knows the latter alone."""
        if not self.rows_in:
            return f"→ {self.rows_out:,}" if self.rows_out else ""
        return f"{self.rows_in:,} → {self.rows_out:,}"


@checks_arguments
@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """What a run did, by clause and by column; prints as tables.

    Attributes
    ----------
    asked
        The plan of the query; its question was asked first.
    """

    asked: Plan
    recording: Recording
    rows: int
    executor: str

    @cached
    def plan(self) -> Plan:
        """The plan that ran, with what was asked first worked in."""
        plans = [e.attributes["plan"] for e in self.recording.events if e.name == "query.run"]
        return plans[-1] if plans else self.asked

    @cached
    def events(self) -> list[Event]:
        """The events of the run, without those of what was asked first."""
        found = self.recording.events
        begins = [at for at, event in enumerate(found) if event.name == "query.run"]
        return found[begins[-1] + 1 if begins else 0 :]

    @property
    def seconds(self) -> float:
        """How long it took: what was asked first, reading and processing."""
        return (self.recording.ended_ns - self.recording.began_ns) / 1e9

    @cached
    def tables(self) -> tuple[Table, ...]:
        """The clauses as they ran, and the columns as they were read."""
        asked = self.asked.question
        first = [] if asked is None or not asked.purpose else [asked.purpose]
        told = (self._clauses(), _columns(self.events))
        return (*[Table("asked first", ("what",), ((each,),)) for each in first], *told)

    @property
    def document(self) -> Document:
        """The profile as plain parts."""
        return Document("run", self.tables)

    def to_arrow(self) -> pa.Table:
        """Return a row for each clause and form: its units, rows, bytes, and nanoseconds.

        Columns: ``clause``, ``form``, ``units``, ``rows_in``, ``rows_out``, ``bytes`` (of the
        tables that it made), ``busy_ns`` (of all threads together).

        Examples
        --------
        >>> import pyarrow as pa, tessel as ts
        >>> store = ts.open("memory://")
        >>> version = store.write("x", pa.table({"n": [1, 2, 3]}))
        >>> found = store.scan("x").filter("n > 1").collect().profile().to_arrow()
        >>> found.select(["clause", "rows_in", "rows_out"]).to_pylist()
        [{'clause': 'filter', 'rows_in': 3, 'rows_out': 2}]
        """
        lines = clause_events(self.events).items()
        rows = [
            (name, form, each.units, each.rows_in, each.rows_out, each.bytes, each.duration_ns)
            for (name, form), each in lines
        ]
        numbers = ("units", "rows_in", "rows_out", "bytes", "busy_ns")
        fields = [(name, pa.string()) for name in ("clause", "form")]
        fields += [(name, pa.int64()) for name in numbers]
        return table_of_rows(rows, pa.schema(fields))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a trace, for https://ui.perfetto.dev or ``chrome://tracing``.

        Each thread is a track, and each task of Spark that ran beside others. The format is the
        Trace Event Format, its JSON array form.

        Raises InvalidInputError where no file can be written; the result is there all the same.
        """
        began, events = self.recording.began_ns, self.recording.events
        tracks = _tracks(events)
        lines = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": name}}
            for number, name in enumerate(dict.fromkeys(tracks.values()), 1)
        ]
        numbers = {line["args"]["name"]: line["tid"] for line in lines}  # type: ignore[index]
        for event in events:
            if id(event) in tracks:
                told = {
                    "name": event.attributes.get("clause", event.name),
                    "cat": event.name,
                    "ph": "X" if event.duration_ns else "i",
                    "ts": (event.at_ns - event.duration_ns - began) / _NS_PER_US,
                    "dur": event.duration_ns / _NS_PER_US,
                    "pid": 1,
                    "tid": numbers[tracks[id(event)]],
                    "args": {k: v for k, v in event.attributes.items() if k != "plan"},
                }
                lines.append(told)
        write_text(path, json.dumps(lines, default=str))

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page of the run: plan, timeline, what was pruned, clauses and columns.

        The page needs nothing from elsewhere.

        Raises InvalidInputError where no file can be written; the result is there all the same.
        """
        from tessel.display.html import render_page
        from tessel.pipeline.run_page import page_of

        write_text(path, render_page(page_of(self)))

    def _clauses(self) -> Table:
        lines = tuple(
            (
                name,
                form,
                f"{each.units:,}",
                each.moved,
                f"{each.bytes:,}" if each.bytes else "",
                f"{each.duration_ns / _NS_PER_MS:,.1f}" if each.duration_ns else "",
            )
            for (name, form), each in clause_events(self.events).items()
        )
        read, reads = _sum(self.events, "segment.read", "bytes"), _sum(self.events, "segment.read")
        notes = [
            f"result: {self.rows:,} rows",
            f"read for the result: {read:,} bytes in {reads:,} reads",
        ]
        written = _sum(self.events, "spill.write", "file_bytes")
        notes += [f"spilled: {written:,} bytes"] if written else []
        names = ("clause", "form", "units", "rows", "bytes made", "ms in all threads")
        return Table("clauses as they ran", names, lines, tuple(notes))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of text.

    Raises InvalidInputError where it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInputError.not_writable(path, error) from error


def clause_events(events: Iterable[Event]) -> dict[tuple[str, str], _Clause]:
    """Return sums of what events say of clauses, by clause and form."""
    found: dict[tuple[str, str], _Clause] = {}
    for event in events:
        if event.name not in _CLAUSES:
            continue
        told = event.attributes
        for name in told.get("bound", ()):
            inside = found.setdefault(
                (name, f"bound, in the kernel of {told['clause']}"), _Clause()
            )
            inside.units += _count(event)
        line = found.setdefault((told["clause"], _form(event)), _Clause())
        line.units += _count(event)
        line.rows_in += told.get("rows_in", 0)
        line.rows_out += told.get("rows_out", 0)
        line.bytes += told.get("bytes", 0)
        line.duration_ns += event.duration_ns
    return found


def _form(event: Event) -> str:
    """Return the form in which a clause ran on one unit."""
    told = event.attributes
    if event.name == "clause.summary":
        return "summary for its neighbours"
    if event.name == "clause.stream":
        return "stream, with what it waited for"
    if event.name == "clause.read":
        return "values, and bound"
    columns: Mapping[str, str] | None = told.get("columns")
    if event.name == "clause.choose":
        if "rows_out" not in told:
            return "cannot choose rows"
        return f"chooses rows, {_KERNEL if told['stored'] else 'values of keys'}"
    if told.get("stored"):
        return _KERNEL
    if columns is None or told.get("stored") is False:
        return "values"
    if not columns:
        return "zone maps"
    return "values" if any(form in _VALUES for form in columns.values()) else _KERNEL


def _columns(events: list[Event]) -> Table:
    found: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        reader = event.attributes.get("clause", "result of the scan")
        for name, form in event.attributes.get("columns", {}).items():
            found[name, form, reader] += _count(event)
    lines = tuple(
        (name, form, reader, f"{count:,}") for (name, form, reader), count in sorted(found.items())
    )
    return Table("columns as they were read", ("column", "form", "for", "reads"), lines)


def _count(event: Event) -> int:
    return int(event.attributes.get("count", 1))


def _sum(events: list[Event], name: str, fact: str | None = None) -> int:
    own = [event for event in events if event.name == name]
    if fact is None:
        return sum(map(_count, own))
    return sum(int(event.attributes.get(fact, 0)) for event in own)


def _tracks(events: Iterable[Event]) -> dict[int, str]:
    """Return the track of each event that has a place in time, by its identity.

    Tasks of Spark that ran beside one another have tracks of their own; the sums of what they did,
    and of events that were too many, have no place.
    """
    found: dict[int, str] = {}
    threads: dict[int, str] = {}
    ends: list[int] = []  # of the last task on each track
    placed = [event for event in events if "count" not in event.attributes]
    for event in sorted(placed, key=lambda event: event.at_ns - event.duration_ns):
        if event.name == "spark.task":
            began = event.at_ns - event.duration_ns
            free = next((at for at, end in enumerate(ends) if end <= began), len(ends))
            ends[free : free + 1] = [event.at_ns]
            found[id(event)] = f"task {free + 1}"
        else:
            name = threads.setdefault(event.thread, f"thread {len(threads) + 1}")
            found[id(event)] = name
    return found


def tracked(profile: Profile) -> Iterator[tuple[str, Event]]:
    """Give the events of a run that lasted, each with its track, in the order of their tracks."""
    events = profile.recording.events
    tracks = _tracks(events)
    lasting: list[tuple[str, Any]] = [
        (tracks[id(event)], event) for event in events if id(event) in tracks and event.duration_ns
    ]
    yield from sorted(lasting, key=lambda each: (each[0], each[1].at_ns))

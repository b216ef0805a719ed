"""explain of a run: which form each clause and each column had, told by the code that ran.

`LazyTable.explain(analyze=True)` enters here: it runs the query, follows its events
(:func:`tessel.telemetry.follow`), and shows what they say. A clause that is bound to batches has no
event of its own where a later clause runs it in its kernel; the event of that clause names it.
Clauses of one name share their lines; those that take units as a stream have no events. A task of
Spark sums its events: those that differ in nothing else come as one, with their ``count``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tessel.display.documents import Table
from tessel.lazy import dataclass
from tessel.pipeline.plan import Plan, answered
from tessel.telemetry import Event, follow

_NS_PER_MS = 1_000_000
_KERNEL = "kernel on stored columns"
_VALUES = ("values", "dictionary")
"""Forms of columns that are decoded: Arrow arrays."""


@dataclass
class _Clause:
    """What events say of one clause in one form."""

    units: int = 0
    rows_in: int = 0
    rows_out: int = 0
    duration_ns: int = 0


def told_run(
    plan: Plan, run: Callable[[Plan], Iterator[pa.Table]]
) -> tuple[Plan, tuple[Table, ...]]:
    """Run a plan to its end, and return the plan that ran and what its events say.

    Parameters
    ----------
    plan
        Of a query.
    run
        Gives the parts of its result, which are dropped.

    Returns
    -------
    plan : Plan
        Without questions: these are asked first, and not followed.
    tables : tuple of Table
        The clauses as they ran, and the columns as they were read.
    """
    asked = plan.question
    plan = answered(plan, run)
    events: list[Event] = []
    lock = threading.Lock()

    def note(event: Event) -> None:
        with lock:
            events.append(event)

    rows = 0
    with follow(note):
        for part in run(plan):
            rows += part.num_rows
    told = (_clauses(events, rows), _columns(events))
    if asked is None or not asked.purpose:
        return plan, told
    return plan, (Table("asked first", ("what",), ((asked.purpose,),)), *told)


def _clauses(events: list[Event], rows: int) -> Table:
    found: dict[tuple[str, str], _Clause] = {}
    for event in events:
        if event.name not in ("clause.process", "clause.choose", "clause.read", "clause.summary"):
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
        line.duration_ns += event.duration_ns
    lines = tuple(
        (name, form, f"{each.units:,}", _rows(each), _milliseconds(each.duration_ns))
        for (name, form), each in found.items()
    )
    notes = [f"result: {rows:,} rows"]
    read = _sum(events, "segment.read", "bytes")
    notes.append(f"read for the result: {read:,} bytes in {_sum(events, 'segment.read'):,} reads")
    written = _sum(events, "spill.write", "file_bytes")
    if written:
        notes.append(f"spilled: {written:,} bytes")
    title = "clauses as they ran"
    return Table(
        title, ("clause", "form", "units", "rows", "ms in all threads"), lines, tuple(notes)
    )


def _form(event: Event) -> str:
    """Return the form in which a clause ran on one unit."""
    told = event.attributes
    if event.name == "clause.summary":
        return "summary for its neighbours"
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


def _rows(each: _Clause) -> str:
    return f"{each.rows_in:,} → {each.rows_out:,}" if each.rows_in or each.rows_out else ""


def _milliseconds(duration_ns: int) -> str:
    return f"{duration_ns / _NS_PER_MS:,.1f}" if duration_ns else ""


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

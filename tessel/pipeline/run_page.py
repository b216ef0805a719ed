"""The page of a run: its plan as a graph, its events on a timeline, and which rows it never read.

`Profile.write_html` enters here. What was pruned by page is found again in the page tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tessel.display.documents import (
    Document,
    Edge,
    Facts,
    Graph,
    Lane,
    Lanes,
    Node,
    Part,
    Section,
    Span,
    Table,
)
from tessel.errors import TesselError
from tessel.pipeline.explain_metadata import PagesAsked, pages_asked, pages_table
from tessel.pipeline.plan import Plan, SourcePlan, Stage
from tessel.pipeline.profile import Profile, clause_events, tracked
from tessel.telemetry import Event

_MOST_SPANS = 3_000
_SHOWN_FACTS = ("rows", "rows_in", "rows_out", "bytes", "file_bytes", "requests", "unit", "object")
_KINDS = {
    "segment.read": "read",
    "storage.fetch": "fetch",
    "segment.write": "write",
    "spill.write": "spill",
    "spill.read": "spill",
    "spark.job": "spark",
    "spark.task": "spark",
    "spark.start": "spark",
}


def page_of(profile: Profile) -> Document:
    """Return the page of a run."""
    symbol = next((source.view.name for source, _ in _sources(profile.plan)), "")
    summary = Table(
        "",
        ("seconds", "rows of the result", "executor"),
        ((round(profile.seconds, 3), profile.rows, profile.executor),),
    )
    return Document(
        f"A run on {symbol!r}",
        (
            summary,
            Section("Plan", (plan_graph(profile.plan, profile),)),
            Section("Timeline", (_timeline(profile),)),
            Section("Pruning", tuple(_pruning(profile.plan))),
            Section("Clauses and columns", profile.tables),
        ),
    )


def _sources(plan: Plan) -> Iterator[tuple[SourcePlan, Stage]]:
    """Give what is read of each symbol, and the first stage on it."""
    for part in plan.inputs:
        yield from _sources(part) if isinstance(part, Plan) else ((part, plan.stages[0]),)


# --- the plan -----------------------------------------------------------------------------------


def plan_graph(plan: Plan, profile: Profile | None = None) -> Graph:
    """Return what a plan reads and its clauses as a graph, with what a run says of each."""
    told: dict[str, Facts] = {}
    for (name, form), each in clause_events(profile.events if profile else []).items():
        facts = [("form", form), ("units", each.units)]
        if each.rows_in or each.rows_out:
            facts.append(("rows", each.moved))
        if each.duration_ns:
            facts.append(("ms", round(each.duration_ns / 1e6, 1)))
        told[name] = (*told.get(name, ()), *facts)
    nodes: list[Node] = []
    edges: list[Edge] = []

    def add(label: str, facts: Facts, before: Sequence[str], why: str = "") -> str:
        name = f"n{len(nodes)}"
        nodes.append(Node(name, label, facts))
        edges.extend(Edge(each, name, why) for each in before)
        return name

    def visit(plan: Plan) -> str:
        ends = [visit(p) if isinstance(p, Plan) else source(p) for p in plan.inputs]
        for number, stage in enumerate(plan.stages):
            why = _barrier(plan, number)
            for clause in stage.clauses:
                facts = told.get(clause.name, ())
                ends = [add(clause.describe(), facts, ends, why)]
                why = ""
        return ends[0] if len(ends) == 1 else add("inputs", (), ends)

    def source(part: SourcePlan) -> str:
        index, drops = part.index, part.index.drops
        segments = len(index) + sum(drop.segments for drop in drops)
        facts = (
            ("segments", f"{len(index):,} of {segments:,}"),
            ("rows", f"{index.row_count:,} of {part.view.row_count:,}"),
            ("units", len(part.units)),
        )
        return add(f"read {part.view.name!r}", facts, [])

    end = visit(plan)
    add("result", (("rows", profile.rows),) if profile else (), [end])
    return Graph(tuple(nodes), tuple(edges))


def _barrier(plan: Plan, number: int) -> str:
    """Return what lies before a stage: how units are grouped anew."""
    if not number:
        return ""
    before, after = plan.stages[number - 1].output, plan.stages[number].input
    return after.name if before is not after else "barrier"


# --- when ---------------------------------------------------------------------------------------


def _timeline(profile: Profile) -> Lanes:
    recording = profile.recording
    found = list(tracked(profile))
    notes: tuple[str, ...] = ()
    if len(found) > _MOST_SPANS:
        shortest = sorted(found, key=lambda each: each[1].duration_ns)[: len(found) - _MOST_SPANS]
        left_out = {id(event) for _, event in shortest}
        found = [each for each in found if id(each[1]) not in left_out]
        longest = shortest[-1][1].duration_ns / 1e6
        notes = (f"{len(shortest):,} events of at most {longest:.3g} ms are not drawn",)
    lanes: dict[str, list[Span]] = {}
    for track, event in found:
        lanes.setdefault(track, []).append(_span(event, recording.began_ns))
    rows = tuple(Lane(track, tuple(spans)) for track, spans in lanes.items())
    return Lanes("", "ms", (recording.ended_ns - recording.began_ns) / 1e6, rows, notes)


def _span(event: Event, began_ns: int) -> Span:
    told = event.attributes
    end = (event.at_ns - began_ns) / 1e6
    facts = [("what", event.name), ("ms", round(event.duration_ns / 1e6, 3))]
    facts += [(name, told[name]) for name in _SHOWN_FACTS if name in told]
    return Span(
        end - event.duration_ns / 1e6,
        end,
        told.get("clause", _KINDS.get(event.name, event.name)),
        _KINDS.get(event.name, "clause"),
        tuple(facts),
    )


# --- what was pruned ----------------------------------------------------------------------------


def _pruning(plan: Plan) -> Iterator[Part]:
    for part, stage in _sources(plan):
        try:
            asked = pages_asked(part, stage.clauses)
        except TesselError as error:  # the version may have expired since
            yield _rows_of(part, [])
            yield f"Page tables of {part.view.name!r} cannot be read: {error.message}"
        else:
            yield _rows_of(part, asked)
            if asked:
                yield pages_table(part, asked, "")


def _rows_of(part: SourcePlan, asked: Sequence[PagesAsked]) -> Lanes:
    """Draw the rows of a symbol: those of segments that were read, those that were pruned, why."""
    index, rows = part.index, part.view.row_count
    whole = part.view.index()
    why = "; ".join(f"{drop.clause}: {drop.reason}" for drop in index.drops)
    kept = list(zip(index.slice_row_start.tolist(), index.slice_row_end.tolist(), strict=True))
    edges = whole.slice_row_start.tolist()
    spans = [_rows(low, high, "segments read", "read", ()) for low, high in kept[:_MOST_SPANS]]
    at = 0
    for low, high in [*kept, (rows, rows)]:
        if at < low:
            inside = int(np.searchsorted(edges, low) - np.searchsorted(edges, at))
            facts = (("segments pruned", max(1, inside)), ("why", why or "not asked for"))
            spans.append(_rows(at, low, "pruned", "pruned", facts))
        at = max(at, high)
    spans.sort(key=lambda span: span.start)
    lanes = [Lane("segments", tuple(spans[:_MOST_SPANS]))]
    for each in asked:
        what = each.clause.describe()
        left, pruned = ("pages left", "read", ()), ("pages pruned", "pruned", (("never", what),))
        spans = [
            _rows(low, high, *(left if is_left else pruned))
            for low, high, is_left in each.ranges[:_MOST_SPANS]
        ]
        lanes.append(Lane(f"pages, {what.partition('(')[0]}", tuple(spans)))
    return Lanes(f"{part.view.name!r}, {rows:,} rows", "rows", float(rows), tuple(lanes))


def _rows(low: int, high: int, label: str, kind: str, facts: Facts) -> Span:
    return Span(low, high, label, kind, (("rows", f"[{low:,}, {high:,})"), *facts))

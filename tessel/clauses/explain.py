"""explain: how a query would be run, as a document. Nothing is read but metadata."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tessel import display
from tessel.clauses.base import Carry, Clause, Structure
from tessel.clauses.explain_pages import pages_table
from tessel.clauses.plan import Change, Plan, SourcePlan, Stage
from tessel.clauses.powers import Broadcasts, Interleaves, Limits, Scans
from tessel.errors import NameNotFoundError

__all__ = ["Explanation", "explain_plan"]

_SHOWN_UNITS = 6
_SHOWN_COLUMNS = 8
_SHOWN_CHARACTERS = 120
_FORMATS = {
    "text": display.render_text,
    "html": display.render_html,
    "json": display.render_json,
}


@dataclass(frozen=True)
class Explanation:
    """How a query would be run: prints as text, shows as HTML in notebooks.

    Attributes
    ----------
    plan
        What an executor would get.
    document
        The explanation as plain parts.
    """

    plan: Plan
    document: display.Document

    def __str__(self) -> str:
        return display.render_text(self.document)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return display.render_html(self.document)

    def render(self, format: str = "text") -> str:  # noqa: A002  # the word users know
        """Return the explanation as ``"text"``, ``"html"`` or ``"json"``."""
        if format not in _FORMATS:
            raise NameNotFoundError.for_name("format", format, sorted(_FORMATS))
        return _FORMATS[format](self.document)


def explain_plan(
    plan: Plan,
    clauses: Sequence[Clause] = (),
    *,
    pages: bool = False,
    more: Sequence[display.Table] = (),
) -> Explanation:
    """Explain a plan.

    Parameters
    ----------
    plan
        What an executor would get.
    clauses
        The query as written, shown above what became of it.
    pages
        Whether the page tables of the segments that are left are read, to tell which of their
        pages the first filters and date ranges drop.
    more
        What an executor has to say of it.
    """
    written = display.Table(
        "as written", ("clause",), tuple((clause.describe(),) for clause in clauses)
    )
    parts = [written] if clauses else []
    parts += [*_tables(plan, "", pages), *more]
    return Explanation(plan, display.Document("query", tuple(parts)))


def _tables(plan: Plan, prefix: str, pages: bool) -> Iterator[display.Table]:
    if plan.question is not None:
        yield from _tables(plan.question.plan, f"{prefix}asked first: ", pages)
    changed = _passes(plan.changes, prefix)
    if changed.rows:
        yield changed
    for number, part in enumerate(plan.inputs, start=1):
        if isinstance(part, SourcePlan):
            yield _source(part, prefix, pages)
            found = pages_table(part, plan.stages[0].clauses, prefix) if pages else None
            if found is not None:
                yield found
        else:
            yield from _tables(part, f"{prefix}input {number}: ", pages)
    yield _stages(plan, prefix)


def _passes(changes: Sequence[Change], prefix: str) -> display.Table:
    """Tell, pass by pass, what the planner took out of the query and what it put there."""
    rows = []
    for change in changes:
        name = change.name
        for line in difflib.ndiff(change.before.lines(), change.after.lines()):
            sign = {"- ": "−", "+ ": "+"}.get(line[:2])
            if sign is not None:
                rows.append((name, sign, _shortened(line[2:])))
                name = ""
    return display.Table(f"{prefix}planner", ("pass", "", "step"), tuple(rows))


def _shortened(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"


def _source(source: SourcePlan, prefix: str, pages: bool) -> display.Table:
    """Tell, clause by clause, what the index dropped and why."""
    index = source.index
    segments = len(index) + sum(drop.segments for drop in index.drops)
    rows = index.row_count + sum(drop.rows for drop in index.drops)
    lines = [("all", f"{segments:,}", f"{rows:,}", "")]
    for drop in index.drops:
        before = segments, rows
        segments, rows = segments - drop.segments, rows - drop.rows
        lines.append(
            (
                drop.clause,
                f"{before[0]:,} → {segments:,}",
                f"{before[1]:,} → {rows:,}",
                drop.reason,
            )
        )
    names = source.schema.names
    shown = ", ".join(names[:_SHOWN_COLUMNS]) + (" …" if len(names) > _SHOWN_COLUMNS else "")
    view = source.view
    notes = (
        f"to read: {len(index):,} segment{'' if len(index) == 1 else 's'}, "
        f"{index.row_count:,} rows, about "
        f"{int(index.bytes.sum()):,} bytes",
        f"columns: {len(names)} of {len(view.schema.names)}: {shown}",
        "no page was read" if pages else "nothing was read",
    )
    title = f"{prefix}{view.name!r} (version {view.version})"
    return display.Table(title, ("clause", "segments", "rows", "why"), tuple(lines), notes)


def _between_units(stage: Stage) -> str:
    if stage.carries is not None:
        return {
            Carry.BEFORE: "each unit is told what lies before it",
            Carry.AFTER: "each unit is told what lies after it",
            Carry.BOTH: "each unit is told what lies around it",
        }[stage.carries]
    if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
        return "units go on as they are"
    return "units are grouped anew"


def _stages(plan: Plan, prefix: str) -> display.Table:
    lines: list[tuple[str, str, str, str]] = []
    for number, stage in enumerate(plan.stages, start=1):
        if number > 1:
            before = plan.stages[number - 2].output
            change = f"{before.name} → {stage.input.name}"
            lines.append(("barrier", "", change, _between_units(stage)))
        units = _units(plan, stage, number)
        if not stage.clauses:
            lines.append((str(number), "read", stage.input.name, units))
        for clause in stage.clauses:
            info = clause.structure
            change = f"{info.input.name} → {info.output.name}"
            lines.append((str(number), clause.describe(), change, units))
            units = ""
    result = ", ".join(f"{f.name}: {f.type}" for f in plan.schema.arrow)
    return display.Table(
        f"{prefix}stages",
        ("stage", "clause", "structure", "units"),
        tuple(lines),
        (f"result: {result}", f"index: {plan.schema.index or 'none'}", *_stored(plan)),
    )


def _stored(plan: Plan) -> Iterator[str]:
    """Tell which columns a clause takes as they are stored, where their pages allow it."""
    first = plan.stages[0].clauses
    if not first or not isinstance(plan.inputs[0], SourcePlan):
        return
    clause = next(iter(itertools.dropwhile(lambda each: isinstance(each, Scans), first)), None)
    if clause is not None and clause.structure.stored:
        read = plan.inputs[0].schema.names
        names = ", ".join(name for name in read if name in _read_by(first, clause))
        yield f"{clause.name} takes as stored: {names}"


def _read_by(clauses: Sequence[Clause], last: Clause) -> set[str]:
    """Return the columns that the clauses up to one read."""
    found: set[str] = set()
    for clause in clauses:
        found |= clause.structure.columns or frozenset()
        if clause is last:
            break
    return found


def _units(plan: Plan, stage: Stage, number: int) -> str:
    if number == 1 and len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
        units = plan.inputs[0].units
        shown = " ".join(f"[{' '.join(map(str, unit))}]" for unit in units[:_SHOWN_UNITS])
        more = " …" if len(units) > _SHOWN_UNITS else ""
        return f"{len(units):,}: {shown}{more}" if units else "0"
    if number == 1:
        if isinstance(stage.clauses[0], Broadcasts):
            return "those of input 1, once the others are read"
        how = "by time" if isinstance(stage.clauses[0], Interleaves) else "in order"
        return f"those of {len(plan.inputs)} inputs, {how}"
    clause = stage.clauses[0]
    if isinstance(clause, Limits) and clause.demand() is not None:
        return f"in order, until {clause.demand():,} rows have passed"
    return {
        "ALL": "1: everything, in order",
        "HASH_BUCKETED": "1 a bucket",
        "TIME_BUCKETED": "1 a run of touching time buckets",
    }.get(stage.input.name, "as they come")

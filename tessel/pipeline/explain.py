"""explain: how a query would be run, as a document. Nothing is read but metadata.

What a run says of itself stands in :mod:`tessel.pipeline.profile`.

Each pass of the planner is shown by the lines of the plan that it changed. These are few words from
a small set, often the same one thousands of times, on which the standard library's difference takes
quadratic time and more. Here the n-th of equal lines before is the n-th of them after; of these
pairs the longest chain that keeps the order stays, and all else was taken out or put there (a
longest increasing subsequence, in O(n log n): Hunt and Szymanski, "A fast algorithm for computing
longest common subsequences", 1977).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tessel.arrays import table_of_rows
from tessel.clauses.base import Carry, Clause, Structure
from tessel.clauses.capabilities import Broadcasts, Interleaves, Limits
from tessel.display.documents import Document, Part, Table, shortened
from tessel.display.shown import Shown
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass
from tessel.pipeline.executor import units_to_read
from tessel.pipeline.explain_metadata import entities_table, pages_asked, pages_table
from tessel.pipeline.plan import Change, Intake, Plan, SourcePlan, Stage, is_plugin

if TYPE_CHECKING:
    from tessel.pipeline.profile import Profile

TAKEN, PUT = "−", "+"


def line_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every line that is not in both, with ``−`` or ``+``, in the order of the lines."""
    if before == after:
        return
    start = stop = 0
    common = min(len(before), len(after))
    while start < common and before[start] == after[start]:
        start += 1
    while stop < common - start and before[-1 - stop] == after[-1 - stop]:
        stop += 1
    old, new = before[start : len(before) - stop], after[start : len(after) - stop]
    at = to = 0
    for kept, place in (*_kept(old, new), (len(old), len(new))):
        yield from ((TAKEN, line) for line in old[at:kept])
        yield from ((PUT, line) for line in new[to:place])
        at, to = kept + 1, place + 1


def _kept(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places in both of the lines that stay."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place in reversed(range(len(new))):
        places[new[place]].append(place)
    pairs = [(at, places[line].pop()) for at, line in enumerate(old) if places.get(line)]
    ends: list[int] = []  # the least place at which a chain of each length ends, and its pair
    chosen: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(ends, place)
        before.append(chosen[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        chosen[length : length + 1] = [number]
    kept: list[tuple[int, int]] = []
    number = chosen[-1] if chosen else -1
    while number >= 0:
        kept.append(pairs[number])
        number = before[number]
    return kept[::-1]


_ASKED_SEGMENTS = 64
"""Of more segments, page tables are read where that is asked for: each takes a request."""
_SHOWN_UNITS = 6
_SHOWN_COLUMNS = 8
_SHOWN_CHARACTERS = 120
_CELLS = pa.schema(
    [("table", pa.string()), ("row", pa.int64()), ("column", pa.string()), ("value", pa.string())]
)


@checks_arguments
@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """How a query would be run: prints as text, shows as HTML in notebooks.

    Attributes
    ----------
    plan
        What an executor would get.
    document
        The explanation as plain parts.
    profile
        Of the run, where the query was run.

    Examples
    --------
    >>> print(trades.select("qty").explain().render("mermaid"))
    flowchart LR
        g0n0["read 'trades'<br/>segments: 1 of 1<br/>rows: 4 of 4<br/>units: 1"]
        g0n1["select(columns=['qty'])"]
        g0n2["result"]
        g0n0 --> g0n1
        g0n1 --> g0n2
    """

    formats: ClassVar[tuple[str, ...]] = (*Shown.formats, "mermaid", "dot")
    plan: Plan
    document: Document
    profile: Profile | None = None

    def _part(self, format: str) -> Part:  # noqa: A002
        """Return the plan as a graph for the languages of graphs."""
        if format in Shown.formats:
            return self.document
        from tessel.pipeline.run_page import plan_graph

        return plan_graph(self.plan, self.profile)

    def to_arrow(self) -> pa.Table:
        """Return a row for each cell of its tables, and for each line below one.

        Columns: ``table`` (its title), ``row`` (from 0, int64; null for a line below the table),
        ``column`` (null for such a line) and ``value``, all text but ``row``.

        Examples
        --------
        >>> cells = trades.select("qty").explain().to_arrow()
        >>> [each["value"] for each in cells.to_pylist() if each["table"] == "stages"][:2]
        ['1', "select(columns=['qty'])"]
        """
        cells: list[tuple[str, int | None, str | None, str | None]] = []
        for table in self.document.parts:
            assert isinstance(table, Table)
            for row, values in enumerate(table.rows):
                named = zip(table.columns, values, strict=True)
                cells += [
                    (table.title, row, name, None if value is None else str(value))
                    for name, value in named
                ]
            cells += [(table.title, None, None, note) for note in table.notes]
        return table_of_rows(cells, _CELLS)


def explain_plan(
    plan: Plan,
    clauses: Sequence[Clause] = (),
    *,
    pages: bool | None = None,
    profile: Profile | None = None,
    more: Sequence[Table] = (),
) -> Explanation:
    """Explain a plan.

    Parameters
    ----------
    clauses
        The query as written, shown above what became of it.
    pages
        Whether the page tables of the segments that are left are read, to tell which of their
        pages the first filters and date ranges drop; by default where few segments are left.
    profile
        Of its run, where it has run.
    """
    written = Table("as written", ("clause",), tuple((clause.describe(),) for clause in clauses))
    parts = [written] if clauses else []
    parts += [*_tables(plan, "", pages, profile is not None), *more]
    parts += [] if profile is None else profile.tables
    return Explanation(plan, Document("query", tuple(parts)), profile)


def _tables(plan: Plan, prefix: str, pages: bool | None, ran: bool) -> Iterator[Table]:
    if plan.question is not None:
        purpose = f", {plan.question.purpose}" if plan.question.purpose else ""
        yield from _tables(plan.question.plan, f"{prefix}asked first{purpose}: ", pages, ran)
    changed = _passes(plan.changes, prefix)
    if changed.rows:
        yield changed
    for number, part in enumerate(plan.inputs, start=1):
        if isinstance(part, SourcePlan):
            asked = len(part.index) <= _ASKED_SEGMENTS if pages is None else pages
            found = pages_asked(part, plan.stages[0].clauses) if asked else []
            read = () if ran else ("no page was read" if found else "nothing was read",)
            yield _source(part, prefix, read, found[-1].rows[1] if found else None)
            if found:
                yield pages_table(part, found, prefix)
            entities = entities_table(units_to_read(part, plan.stages[0]), prefix)
            if entities is not None:
                yield entities
        else:
            yield from _tables(part, f"{prefix}input {number}: ", pages, ran)
    yield _stages(plan, prefix)


def _passes(changes: Sequence[Change], prefix: str) -> Table:
    """Tell, pass by pass, what the planner took out of the query and what it put there."""
    rows = []
    for change in changes:
        name = change.name
        for sign, line in line_changes(change.before.lines(), change.after.lines()):
            rows.append((name, sign, shortened(line, _SHOWN_CHARACTERS)))
            name = ""
    return Table(f"{prefix}planner", ("pass", "", "step"), tuple(rows))


def _source(source: SourcePlan, prefix: str, read: tuple[str, ...], left: int | None) -> Table:
    """Tell, clause by clause, what the index dropped and why.

    How much is read is told as a bound: filters drop rows that no metadata rule out, and a limit
    may end the query. ``left`` are the rows that page tables leave, where they were asked.
    """
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
        f"to read at most: {len(index):,} segment{'' if len(index) == 1 else 's'}, "
        f"{index.row_count if left is None else left:,} rows"
        + (f", about {int(index.bytes.sum()):,} bytes" if left in (None, index.row_count) else ""),
        f"columns: {len(names)} of {len(view.schema.names)}: {shown}",
        *read,
    )
    title = f"{prefix}{view.name!r} (version {view.version})"
    return Table(title, ("clause", "segments", "rows", "why"), tuple(lines), notes)


def _between_units(stage: Stage) -> str:
    if stage.carries is not None:
        return {
            Carry.BEFORE: "each unit is told what lies before it",
            Carry.AFTER: "each unit is told what lies after it",
            Carry.BOTH: "each unit is told what lies around it",
            Carry.END: "units are taken in order",
        }[stage.carries]
    return {
        Intake.ONE_BY_ONE: "units go on as they are",
        Intake.STREAM: "units are taken in order",
        Intake.GROUPED: "units are grouped anew",
    }[stage.intake]


def _stages(plan: Plan, prefix: str) -> Table:
    lines: list[tuple[str, str, str, str]] = []
    for number, stage in enumerate(plan.stages, start=1):
        before = plan.stages[number - 2].output if number > 1 else Structure.ROW_SLICE
        barrier = ("barrier", "", f"{before.name} → {stage.input.name}", _between_units(stage))
        if number > 1:
            lines.append(barrier)
            units = _units(stage)
        elif len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            units = _units_read(plan.inputs[0], stage)
            if stage.is_read_apart:
                lines += [("1", "read", before.name, units), barrier]
                units = _units(stage)
        else:
            units = _units_of_inputs(plan, stage)
            if stage.intake is Intake.GROUPED and not isinstance(stage.clauses[0], Broadcasts):
                lines.append(barrier)
        if not stage.clauses:
            lines.append((str(number), "read", stage.input.name, units))
        for clause in stage.clauses:
            info = clause.structure
            change = f"{info.input.name} → {info.output.name}"
            lines.append((str(number), clause.describe(), change, units))
            units = ""
    result = ", ".join(f"{f.name}: {f.type}" for f in plan.schema.arrow)
    return Table(
        f"{prefix}stages",
        ("stage", "clause", "structure", "units"),
        tuple(lines),
        (f"result: {result}", f"index: {plan.schema.index or 'none'}"),
    )


def _units_read(source: SourcePlan, stage: Stage) -> str:
    units = units_to_read(source, stage).units
    shown = " ".join(f"[{' '.join(map(str, unit))}]" for unit in units[:_SHOWN_UNITS])
    more = " …" if len(units) > _SHOWN_UNITS else ""
    return f"{len(units):,}: {shown}{more}" if units else "0"


def _units_of_inputs(plan: Plan, stage: Stage) -> str:
    if isinstance(stage.clauses[0], Broadcasts):
        return "those of input 1, once the others are read"
    how = "by time" if isinstance(stage.clauses[0], Interleaves) else "in order"
    return f"those of {len(plan.inputs)} inputs, {how}"


def _units(stage: Stage) -> str:
    """Tell what a stage gets of units that are there."""
    clause = stage.clauses[0]
    if isinstance(clause, Limits) and clause.demand() is not None:
        return f"in order, until {clause.demand():,} rows have passed"
    if stage.intake is not Intake.GROUPED:
        return "as they come"
    if is_plugin(type(clause)):
        return "as the clause groups them"
    return {
        Structure.ALL: "1: everything, in order",
        Structure.HASH_BUCKETED: "1 a bucket; small ones together"
        if stage.joins_buckets
        else "1 a bucket",
        Structure.TIME_BUCKETED: "1 a run of touching time buckets",
    }[stage.input]

"""The entities of a plan as a table: which segments are read, for which units.

They are those that a run makes before it reads anything: a segment that is left in the index, with
the units of the first stage that fetch it. A segment is told by how the name of its object begins,
and where in the object it lies.

What page tables say of the segments that are left: which pages are dropped, and why.

The first clauses of a query ask page tables before they read a page. Here they are asked for the
tables alone; what a query then finds in the pages themselves is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import field

import pyarrow as pa

from tessel.arrays import arrow_scalar
from tessel.clauses.base import Clause
from tessel.clauses.date_range import DateRange
from tessel.clauses.filter import Filter
from tessel.display.documents import Table
from tessel.ecs.piece import TimeRange
from tessel.expression.build import all_of, col, lit
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.temporal import format_instant
from tessel.lazy import dataclass
from tessel.pipeline.plan import SourcePlan
from tessel.store.manifest.selected_rows import SelectedRows

_SHOWN_ENTITIES = 8
_SHOWN_UNITS = 6
_SHOWN_CHARACTERS = 8
_COLUMNS = ("entity", "segment", "rows", "columns", "first", "last", "units", "fetches")


def entities_table(source: SourcePlan, prefix: str) -> Table | None:
    """Return the first entities of a source with the units that fetch them; None of no entity.

    Parameters
    ----------
    source
        With the units in which the first stage reads it. Their numbers of entities are positions
        in its index.
    """
    planned = source.read.fetches
    shown = list(itertools.islice(planned, _SHOWN_ENTITIES))
    if not shown:
        return None
    fetchers: dict[int, list[str]] = {position: [] for position in shown}
    for ordinal, unit in enumerate(source.units):
        for position in fetchers.keys() & unit:
            fetchers[position].append(str(ordinal))
    rows = []
    for position in shown:
        piece, units = source.index.source(position), fetchers[position]
        key = piece.key
        rows.append(
            (
                str(position),
                f"{key.object.rpartition('/')[2][:_SHOWN_CHARACTERS]} @{key.offset:,}",
                _shown_range(piece.row_start, piece.row_stop),
                _shown_range(piece.col_range.start, piece.col_range.end),
                *_shown_times(piece.time_range, source.schema),
                " ".join(units[:_SHOWN_UNITS]) + (" …" if len(units) > _SHOWN_UNITS else ""),
                str(planned[position]),
            )
        )
    more = len(planned) - len(shown)
    notes = (f"and {more:,} more",) if more else ()
    return Table(f"{prefix}entities of {source.view.name!r}", _COLUMNS, tuple(rows), notes)


def _shown_range(start: int, stop: int) -> str:
    return f"[{start:,}, {stop:,})"


def _shown_times(times: TimeRange | None, schema: TableSchema) -> tuple[str, ...]:
    if times is None or schema.index is None:
        return "", ""
    kind = schema.type_of(schema.index)
    ends = (times.first, times.last)
    if pa.types.is_timestamp(kind):
        return tuple(format_instant(each, kind.unit, aware=kind.tz is not None) for each in ends)
    if pa.types.is_date32(kind):
        days = (format_instant(each * 86_400, "s", aware=False) for each in ends)
        return tuple(day.removesuffix("T00:00:00") for day in days)
    return tuple(map(str, ends))


PageRange = tuple[int, int, bool]
"""Rows ``[low, high)`` of a symbol, and whether their pages are left."""


@dataclass(eq=False)
class PagesAsked:
    """What page tables say to one of the first clauses, about what those before it left.

    Attributes
    ----------
    pages, rows
        How many there were, and how many are left.
    ranges
        Which rows.
    """

    clause: Clause
    predicate: Expression
    pages: tuple[int, int] = (0, 0)
    rows: tuple[int, int] = (0, 0)
    ranges: list[PageRange] = field(default_factory=list)

    def ask(self, strip: SelectedRows) -> None:
        """Drop the pages of a row slice in which no row can be wanted."""
        first = strip.pieces[0].row_start
        rows, ranges = len(strip), strip.row_ranges
        before, after = strip.pages_left(self.predicate)
        self.pages = self.pages[0] + before, self.pages[1] + after
        self.rows = self.rows[0] + rows, self.rows[1] + len(strip)
        left = strip.row_ranges
        for low, high in ranges:
            inside = [(a, b) for a, b in left if low <= a < high]
            for start, stop in [*inside, (high, high)]:
                if low < start:
                    self.ranges.append((first + low, first + start, False))
                if start < stop:
                    self.ranges.append((first + start, first + stop, True))
                low = stop


def pages_asked(source: SourcePlan, clauses: Sequence[Clause]) -> list[PagesAsked]:
    """Ask page tables what the first clauses leave; empty where none of them asks any."""
    asked = [PagesAsked(*each) for each in _asked(clauses, source.schema)] if source.units else []
    for strip in _strips(source) if asked else ():
        for each in asked:
            each.ask(strip)
    return asked


def pages_table(source: SourcePlan, asked: Sequence[PagesAsked], prefix: str) -> Table:
    """Return how many pages the first clauses leave, and how many rows are in them."""
    lines = tuple(
        (
            each.clause.name,
            "{:,} → {:,}".format(*each.pages),
            "{:,} → {:,}".format(*each.rows),
            f"page tables: never {each.clause.describe()}" if each.pages[1] < each.pages[0] else "",
        )
        for each in asked
    )
    count = len(source.index)
    read = f"page tables of {count:,} segment{'' if count == 1 else 's'} were read"
    title = f"{prefix}pages of {source.view.name!r}"
    return Table(title, ("clause", "pages", "rows", "why"), lines, (read,))


def _asked(clauses: Sequence[Clause], schema: TableSchema) -> Iterator[tuple[Clause, Expression]]:
    for clause in clauses:
        if type(clause) is Filter and clause.optimise == "speed" and clause.predicate.columns():
            yield clause, clause.predicate
        elif type(clause) is DateRange:
            yield clause, _as_predicate(clause, schema)
        else:
            return


def _as_predicate(clause: DateRange, schema: TableSchema) -> Expression:
    """Return a date range as a condition on the index."""
    assert schema.index is not None
    kind = schema.type_of(schema.index)
    low, high = clause.bounds(schema)
    index = col(schema.index)
    conditions = [] if low is None else [index >= lit(arrow_scalar(low, kind))]
    conditions += [] if high is None else [index < lit(arrow_scalar(high, kind))]
    return all_of(conditions)


def _strips(source: SourcePlan) -> Iterator[SelectedRows]:
    """Give the rows of every row slice, of which nothing but page tables is read."""
    segments = source.segments()
    for position in dict.fromkeys(tuple(unit) for unit in source.units):
        pieces = [source.index.source(at) for at in position]
        for _, strip in itertools.groupby(pieces, lambda piece: (piece.row_start, piece.row_stop)):
            yield SelectedRows(segments, list(strip), source.schema)

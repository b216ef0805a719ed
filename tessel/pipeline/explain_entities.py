"""The entities of a plan as a table: which segments are read, for which units.

They are those that a run makes before it reads anything: a segment that is left in the index, with
the units of the first stage that fetch it. A segment is told by how the name of its object begins,
and where in the object it lies.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

from tessel.display.documents import Table
from tessel.ecs.components import TimeRange
from tessel.expression.schema import TableSchema
from tessel.expression.temporal import format_instant
from tessel.pipeline.plan import SourcePlan

__all__ = ["entities_table"]

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
    prefix
        What stands before the title.
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

"""From rows that shall go and come at places of a symbol to edits of its extents."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import concat_tables
from tessel.lazy import dataclass
from tessel.store.history.changes import Edit
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.symbol import SymbolState
from tessel.store.index_column import index_integers
from tessel.store.operations.reading import Reader
from tessel.store.operations.stage import Stage

_MOST_EDITS = 256
_WIDEST_GAP_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Planned:
    """Rows ``[start, stop)`` of a symbol give way to a table; None for no rows."""

    start: int
    stop: int
    table: pa.Table | None = None


def staged_edits(
    stage: Stage,
    state: SymbolState,
    planned: Sequence[Planned],
    *,
    reader: Reader | None = None,
    touched: TimeBounds | None = None,
    at_end: bool = False,
) -> list[Edit]:
    """Write the rows that come, and return the edits.

    Each edit cuts the symbol into more pieces, which reading pays for. So where there are many,
    those that lie close together become one, and the rows between them are written again.

    Parameters
    ----------
    stage, state
        The transaction, and the symbol with the columns to write.
    planned
        Ordered and disjoint; two that touch become one edit.
    reader
        Reads the symbol as it is; needed where rows can be written again.
    touched
        Bounds of the index over all rows that go.
    at_end
        Whether the rows go to the end, wherever that is.
    """
    wide = _close_gaps(planned, reader, state)
    index = state.schema.index
    tables = [plan.table for plan in wide if plan.table is not None and plan.table.num_rows]
    extents = stage.write_rows(state, tables)
    edits = []
    row = 0
    for plan in wide:
        rows = 0 if plan.table is None else plan.table.num_rows
        bounds = touched if plan.stop > plan.start else None
        if not rows or plan.table is None:
            edits.append(Edit(plan.start, plan.stop, (), bounds, at_end))
            continue
        (whole,) = extents
        extent = whole.part(row, row + rows)
        if index is not None:
            ends = index_integers(_ends(plan.table.column(index)), index)
            first, last = int(ends[0]), int(ends[-1])
            extent = dataclasses.replace(extent, first_time=first, last_time=last)
            if plan.start == plan.stop:
                bounds = first, last
            elif bounds is not None:
                bounds = min(bounds[0], first), max(bounds[1], last)
        edits.append(Edit(plan.start, plan.stop, (extent,), bounds, at_end))
        row += rows
    return edits


def _ends(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([*column.slice(0, 1).chunks, *column.slice(len(column) - 1).chunks])


def _close_gaps(
    planned: Sequence[Planned], reader: Reader | None, state: SymbolState
) -> list[Planned]:
    """Join plans that touch, and while there are too many, those with the smallest gaps."""
    if not planned:
        return []
    starts = np.array([plan.start for plan in planned], dtype=np.int64)
    stops = np.array([plan.stop for plan in planned], dtype=np.int64)
    gaps = starts[1:] - stops[:-1]
    widest = 0
    if reader is not None and len(gaps) >= _MOST_EDITS:
        enough = np.partition(gaps, len(gaps) - _MOST_EDITS)[len(gaps) - _MOST_EDITS]
        widest = int(min(enough, _WIDEST_GAP_ROWS))
    cuts = (np.flatnonzero(gaps > widest) + 1).tolist()
    joined = []
    for low, high in zip([0, *cuts], [*cuts, len(planned)], strict=True):
        joined.append(_join(planned[low:high], reader, state))
    return joined


def _join(run: Sequence[Planned], reader: Reader | None, state: SymbolState) -> Planned:
    if len(run) == 1:
        return run[0]
    start, stop = run[0].start, run[-1].stop
    old = None
    if reader is not None and any(b.start > a.stop for a, b in itertools.pairwise(run)):
        old = reader.rows(start, stop)
    tables: list[pa.Table] = []
    position = start
    for plan in run:
        if old is not None and plan.start > position:
            kept = old.slice(position - start, plan.start - position)
            tables.append(
                kept.cast(state.schema.arrow) if kept.schema != state.schema.arrow else kept
            )
        if plan.table is not None:
            tables.append(plan.table)
        position = plan.stop
    return Planned(start, stop, concat_tables(tables) if tables else None)

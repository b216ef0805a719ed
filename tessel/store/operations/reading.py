"""Reading a symbol inside a transaction, and edits of what is read.

Rows are read by position, and positions found by time; rows that shall go and come at places of a
symbol become edits of its extents.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.arrays import concat_tables
from tessel.errors import IndexColumnError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.history.changes import Edit
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.symbol import SymbolState
from tessel.store.index_column import index_ends, index_integers
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import SegmentSource

if TYPE_CHECKING:
    from tessel.store.operations.stage import Stage


class Reader:
    """Reads what an index selects; used by one thread."""

    def __init__(self, index: SegmentIndex, source: SegmentSource) -> None:
        self.index = index
        self._source = source
        self._times: tuple[int, Integers] | None = None

    @property
    def schema(self) -> TableSchema:
        """The columns that can be read."""
        return self.index.schema

    def columns(self, names: Sequence[str]) -> Reader:
        """Return a reader of some columns, in the order of the schema."""
        kept = self.index.keep_columns(names, clause="read", reason="not asked for")
        return Reader(kept, self._source)

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return rows ``[start, stop)``."""
        cut = self.index.cut_rows(start, stop, clause="read", reason="not asked for")
        parts = [table for _, table in Reader(cut, self._source).slices()]
        return concat_tables(parts) if parts else self.schema.empty()

    def slices(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the row slices in order: position of the first row, and the rows."""
        for number in range(self.index.slices):
            yield int(self.index.slice_row_start[number]), self.slice(number)

    def slice(self, number: int) -> pa.Table:
        """Return the rows of one row slice."""
        index = self.index
        low, high = np.searchsorted(index.slice_number, [number, number + 1]).tolist()
        held: dict[str, pa.ChunkedArray] = {}
        for position in range(low, high):
            strip = self._source.load(index.source(position))
            held |= dict(zip(strip.column_names, strip.columns, strict=True))
        return pa.table([held[name] for name in self.schema.names], schema=self.schema.arrow)

    # --- by time ----------------------------------------------------------------------------------

    def times_of(self, number: int) -> Integers:
        """Return the index values of one row slice, as integers in the index's own unit."""
        if self._times is None or self._times[0] != number:
            name = str(self.schema.index)
            column = self.columns([name]).slice(number).column(name)
            self._times = (number, index_integers(column, name))
        return self._times[1]

    def time_at(self, row: int) -> int:
        """Return the index value of a row."""
        number = int(np.searchsorted(self.index.slice_row_end, row, side="right"))
        return int(self.times_of(number)[row - int(self.index.slice_row_start[number])])

    def rows_between(self, low: int | None, high: int | None) -> tuple[int, int]:
        """Return the positions ``[start, stop)`` of the rows with times in ``[low, high]``.

        Only the row slices in which a bound may lie are read.
        """
        start = 0 if low is None else self._first_at_or_after(low)
        stop = self._end if high is None else self._first_at_or_after(high + 1)
        return start, max(start, stop)

    def ends_of(self, times: Integers) -> Integers:
        """Return for each time, sorted, the position after the last row that is not later."""
        unique, place = np.unique(times, return_inverse=True)
        found = [self._first_at_or_after(int(time) + 1) for time in unique]
        ends: Integers = np.array(found, dtype=np.int64)[place]
        return ends

    @property
    def _end(self) -> int:
        return int(self.index.slice_row_end[-1]) if self.index.slices else 0

    def _first_at_or_after(self, time: int) -> int:
        first, last = self.index.slice_first_time, self.index.slice_last_time
        if first is None or last is None:
            raise IndexColumnError.required("a range of times")
        limits = np.iinfo(np.int64)
        if time > limits.max:
            return self._end
        time = max(time, int(limits.min))
        number = int(np.searchsorted(last, time))
        while number < self.index.slices:
            start = int(self.index.slice_row_start[number])
            if first[number] >= time:
                return start
            place = int(np.searchsorted(self.times_of(number), time))
            if place < len(self.times_of(number)):
                return start + place
            # The bound above was not that of a row.
            number += 1
        return self._end


# --- edits ----------------------------------------------------------------------------------------

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
            first, last = index_ends(plan.table, index)
            extent = dataclasses.replace(extent, first_time=first, last_time=last)
            if plan.start == plan.stop:
                bounds = first, last
            elif bounds is not None:
                bounds = min(bounds[0], first), max(bounds[1], last)
        edits.append(Edit(plan.start, plan.stop, (extent,), bounds, at_end))
        row += rows
    return edits


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
    cuts = [0, *(np.flatnonzero(gaps > widest) + 1).tolist(), len(planned)]
    return [_join(planned[low:high], reader, state) for low, high in itertools.pairwise(cuts)]


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

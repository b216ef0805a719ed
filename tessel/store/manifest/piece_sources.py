"""Where the segments of an index are found, one by one: Python objects for those that are read.

A :class:`~tessel.store.manifest.index.SegmentIndex` enters here. Queries that are run again share
an index, and so what was made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessel.ecs.components import ColRange, SegmentKey, TimeRange
from tessel.store.manifest.piece import PieceSource
from tessel.store.manifest.table import SegmentTable
from tessel.store.names import segment_name

if TYPE_CHECKING:
    from tessel.store.manifest.index import SegmentIndex

__all__ = ["PieceSources"]

_MOST_MEMOS = 1 << 10
"""So many are kept; of a longer index the others are made each time."""


class PieceSources:
    """The sources of the pieces of an index; safe to use from several threads.

    It does not hold the index, which holds it.

    Parameters
    ----------
    table
        All segments of the symbol.
    """

    def __init__(self, table: SegmentTable) -> None:
        self._table = table
        self._made: dict[int, PieceSource] = {}
        self._holders: dict[bytes, tuple[str, ...]] = {}

    def at(self, index: SegmentIndex, position: int) -> PieceSource:
        """Return where the segment at a position of the index, always the same one, is found."""
        found = self._made.get(position)
        if found is None:
            found = self._source(index, position)
            if len(self._made) < _MOST_MEMOS:
                self._made[position] = found
        return found

    def _source(self, index: SegmentIndex, position: int) -> PieceSource:
        table = self._table
        at = int(index.position[position])
        low, high = int(table.column_from[at]), int(table.column_to[at])
        names = [name for name in index.schema.names if low <= index.column_ids[name] < high]
        first, last = index.first_time, index.last_time
        times = None
        if first is not None and last is not None:
            times = TimeRange(int(first[position]), int(last[position]))
        return PieceSource(
            key=SegmentKey(
                segment_name(table.object[at].as_py()),
                int(table.offset[at]),
                int(table.length[at]),
                int(table.checksum[at]),
                int(table.metadata_start[at]),
            ),
            row_start=int(index.row_start[position]),
            row_stop=int(index.row_end[position]),
            segment_row_start=int(index.segment_row_start[position]),
            columns=tuple(names),
            column_ids=tuple(index.column_ids[name] for name in names),
            absent=self._absent(index, position),
            col_range=ColRange(int(index.column_start[position]), int(index.column_end[position])),
            time_range=times,
        )

    def _absent(self, index: SegmentIndex, position: int) -> tuple[str, ...]:
        """Name the columns that no segment of the rows holds, for the first segment of them."""
        table = self._table
        if position > 0 and index.slice_number[position - 1] == index.slice_number[position]:
            return ()
        whole = int(table.slice_of[index.position[position]])
        low, high = np.searchsorted(table.slice_of, [whole, whole + 1])
        ranges = np.stack([table.column_from[low:high], table.column_to[low:high]])
        pattern = ranges.tobytes()
        if pattern not in self._holders:
            self._holders[pattern] = tuple(
                name
                for name in index.schema.names
                if not (
                    (ranges[0] <= index.column_ids[name]) & (index.column_ids[name] < ranges[1])
                ).any()
            )
        return self._holders[pattern]

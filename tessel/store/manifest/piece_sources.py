"""Where the segments of an index are found: Python objects for those that are read, or columns.

Columns are for other processes, which make objects of their share.

A :class:`~tessel.store.manifest.index.SegmentIndex` enters here. Queries that are run again share
an index, and so what was made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.ecs.piece import ColRange, SegmentKey, TimeRange
from tessel.store.manifest.piece import PIECES, PieceSource
from tessel.store.manifest.table import Integers, SegmentTable
from tessel.store.names import segment_name

if TYPE_CHECKING:
    from tessel.store.manifest.index import SegmentIndex

_MOST_MEMOS = 1 << 10
"""So many are kept; of a longer index the others are made each time."""


class PieceSources:
    """The sources of the pieces of an index; safe to use from several threads.

    It does not hold the index, which holds it.
    """

    def __init__(self, table: SegmentTable) -> None:
        self._table = table
        self._made: dict[int, PieceSource] = {}
        self._holders: dict[bytes, tuple[str, ...]] = {}

    def at(self, index: SegmentIndex, positions: Iterable[int]) -> list[PieceSource]:
        """Return where the segments at positions of the index, always the same one, are found."""
        listed = []
        for position in positions:
            found = self._made.get(position)
            if found is None:
                found = self._source(index, position)
                if len(self._made) < _MOST_MEMOS:
                    self._made[position] = found
            listed.append(found)
        return listed

    def columns(self, index: SegmentIndex, positions: Integers) -> pa.Array:
        """Return where segments at some positions of the index are found, as ``PIECES``."""
        table, at = self._table, index.place(positions)
        times = [
            pa.nulls(len(at), pa.int64()) if bound is None else arrow_array(bound[positions])
            for bound in (index.first_time, index.last_time)
        ]
        stored = [table.offset, table.length, table.checksum, table.metadata_start]
        wanted = [each[positions] for each in (index.row_start, index.row_end)]
        wanted += index.places(positions)
        numbers, firsts = self._shapes(index, positions)
        shapes = [
            json.dumps(self._shape(index, int(positions[first])), separators=(",", ":"))
            for first in firsts
        ]
        columns = [
            table.object.take(arrow_array(at)).cast(pa.binary(16)),
            *(arrow_array(each[at]) for each in stored),
            *map(arrow_array, wanted),
            *times,
            pa.DictionaryArray.from_arrays(numbers, arrow_array(shapes, pa.string())),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(PIECES))

    def _shapes(self, index: SegmentIndex, positions: Integers) -> tuple[pa.Array, Integers]:
        """Return a number of each piece, the same for the same columns, and one piece of each.

        The columns of a piece follow from the column range of its segment, and, for the first piece
        of its rows, from those of all segments of the rows.
        """
        table, at, numbers = self._table, index.place(positions), index.slice_number
        own, own_of = np.unique(table.slice_of[at], return_inverse=True)
        first, stop = np.searchsorted(table.slice_of, [own, own + 1])
        kinds = np.zeros(len(own), np.int64)  # of rows: the ranges of their segments so far
        for step in range((stop - first).max(initial=0)):
            each = np.minimum(first + step, len(table) - 1)
            kinds = _numbered(kinds, np.where(first + step < stop, self._ranges(each), 0))
        leads = (positions == 0) | (numbers[positions - 1] != numbers[positions])
        found = _numbered(self._ranges(at), np.where(leads, kinds[own_of] + 1, 0))
        _, firsts = np.unique(found, return_index=True)
        return arrow_array(found.astype(np.int32)), firsts

    def _ranges(self, at: Integers) -> Integers:
        """Return the column ranges of segments as one number each, none of them 0."""
        table = self._table
        return _numbered(table.column_from[at], table.column_to[at]) + 1

    def _source(self, index: SegmentIndex, position: int) -> PieceSource:
        table, at = self._table, int(index.place(position))
        columns, column_ids, absent = self._shape(index, position)
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
            columns=columns,
            column_ids=column_ids,
            absent=absent,
            col_range=ColRange(int(index.column_start[position]), int(index.column_end[position])),
            time_range=times,
        )

    def _shape(
        self, index: SegmentIndex, position: int
    ) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
        """Return the columns of a piece, their ids, and the columns that it says are absent."""
        at = index.place(position)
        low, high = int(self._table.column_from[at]), int(self._table.column_to[at])
        names = [name for name in index.schema.names if low <= index.column_ids[name] < high]
        ids = tuple(index.column_ids[name] for name in names)
        return tuple(names), ids, self._absent(index, position)

    def _absent(self, index: SegmentIndex, position: int) -> tuple[str, ...]:
        """Name the columns that no segment of the rows holds, for the first segment of them."""
        table = self._table
        if position > 0 and index.slice_number[position - 1] == index.slice_number[position]:
            return ()
        whole = int(table.slice_of[index.place(position)])
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


def _numbered(one: Integers, other: Integers) -> Integers:
    """Return a number for each pair, from 0 on."""
    paired = one * (other.max(initial=0) + 1) + other
    if len(paired) and (paired == paired[0]).all():
        return np.zeros(len(paired), np.int64)
    numbers: Integers = np.unique(paired, return_inverse=True)[1]
    return numbers

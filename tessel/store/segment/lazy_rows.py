"""Rows of one segment, each column of which is read when it is touched (late materialization).

:class:`~tessel.store.manifest.lazy_columns.LazyColumns` asks for ranges of rows or for single rows.
The bytes of other pages are never touched, and never fetched from an object store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.ecs.piece import SegmentKey
from tessel.lazy import dataclass
from tessel.store.encodings.codes import Role
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.values import Integers
from tessel.store.lru_cache import LruCache
from tessel.store.segment.pages import SegmentPages

if TYPE_CHECKING:
    from tessel.store.segment.encoded_column import SegmentColumn
    from tessel.store.segment.fetch import Rows, Wanted
    from tessel.store.segment.reader import SegmentReader
    from tessel.store.segment.statistics import ColumnZones
    from tessel.store.segment.stored_columns import StoredColumns

Value = TypeVar("Value")

_PROBED_ROWS = 128
"""Rows of a page that are decoded to bound the search in a page, before a part of it is."""


@dataclass(eq=False)
class LazyRows:
    """Rows ``[start, stop)`` of some columns of a segment; made by ``SegmentReader.lazy_rows``.

    Places are counted from ``start``.
    """

    _reader: SegmentReader
    _key: SegmentKey
    _segment: SegmentPages
    _nodes: Mapping[int, FieldNode]
    _start: int
    _stop: int

    @property
    def is_mapped(self) -> bool:
        """Whether all bytes are at hand, and stay where they are."""
        return self._reader.views

    @property
    def memos(self) -> LruCache[Hashable, Any]:
        """The memos of the segment."""
        return self._segment.memos

    def memo(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return a memo of these rows: what ``make`` returned for the key; it must not be None.

        It may depend on nothing but the key and the bytes of the segment.
        """
        found: Value = self._segment.memos.get_or_make((key, self._start, self._stop), make)
        return found

    def type(self, column_id: int) -> pa.DataType:
        """Return the type of a column as it is stored."""
        return self._nodes[column_id].type

    def zones(self, column_id: int) -> ColumnZones | None:
        """Return the page edges and zone maps of a column; None for a nested one."""
        from tessel.store.segment.statistics import ColumnZones

        node = self._nodes[column_id]
        if node.role != Role.VALUES:
            return None
        return ColumnZones(
            node.type, self.page_edges(column_id), self._segment.zone_maps(node.number)
        )

    def page_edges(self, column_id: int) -> Integers:
        """Return the first row of each page of a column, and the end of the last page.

        The first edge may be negative, and the last one past the rows.
        """
        edges: Integers = self._segment.first_rows(self._nodes[column_id].number) - self._start
        return edges

    def page_nulls(self, column_id: int) -> Integers:
        """Return the null count of each page of a column, from its page table."""
        records = self._segment.records(self._nodes[column_id].number)
        nulls: Integers = records["null_count"].astype(np.int64)
        return nulls

    def wanted(self, column_ids: Iterable[int], rows: Iterable[Rows]) -> Wanted:
        """Return what ``SegmentReader.fetch`` takes to have rows of columns at hand.

        The other columns may be wanted next.
        """
        from tessel.store.segment.fetch import Wanted

        ids = set(column_ids)
        nodes = [node for column_id, node in self._nodes.items() if column_id in ids]
        later = [node for column_id, node in self._nodes.items() if column_id not in ids]
        start = self._start
        inside = [
            range(each.start + start, each.stop + start)
            if isinstance(each, range)
            else each + start
            for each in rows
        ]
        return Wanted(self._key, self._segment, nodes, inside, later)

    def _fetch(self, column_ids: Iterable[int], rows: Rows) -> None:
        """Fetch rows of columns; bytes are far."""
        from tessel.store.segment.fetch import fetch

        fetch(self._reader.source, [self.wanted(column_ids, [rows])])

    def column(
        self,
        column_id: int,
        low: int,
        high: int,
        wanted: Integers | None = None,
    ) -> SegmentColumn:
        """Fetch rows ``[low, high)`` of a column, and return what decodes them.

        Parameters
        ----------
        wanted
            The rows that are going to be decoded, ascending; all by default.
        """
        from tessel.store.segment.encoded_column import SegmentColumn

        node = self._nodes[column_id]
        first, last = self._start + low, self._start + high
        if not self._reader.views:
            self._fetch([column_id], range(low, high) if wanted is None else wanted)
        return SegmentColumn(self._segment, node, first, last)

    def stored(self, column_ids: Sequence[int], low: int, high: int) -> StoredColumns | None:
        """Return rows ``[low, high)`` of columns as the integers that are stored.

        None where a column is not stored as integers: then its values must be decoded.
        """
        from tessel.store.segment.stored_columns import may_be_stored, stored_columns

        nodes = [self._nodes[column_id] for column_id in column_ids]
        first, last = self._start + low, self._start + high
        if not self._reader.views:
            if not may_be_stored(self._segment, nodes):
                return None  # before pages are asked for
            self._fetch(column_ids, range(low, high))
        return stored_columns(self._segment, nodes, first, last)

    def gather(self, column_ids: Sequence[int], rows: Integers) -> list[pa.Array | None]:
        """Gather single rows of columns in one pass; None for a column that must be decoded.

        Parameters
        ----------
        rows
            Row numbers, int64, at least one.
        """
        from tessel.store.segment.gather import SegmentRows, gather_columns

        nodes = tuple(self._nodes[column_id] for column_id in column_ids)
        if not nodes or not len(rows):
            return [None] * len(nodes)
        wanted = rows + self._start
        if not self._reader.views:
            self._fetch(column_ids, rows)
        return gather_columns([SegmentRows(self._segment, nodes, len(wanted))], wanted, None)

    def first_at_or_after(self, column_id: int, bound: int) -> int:
        """Return the first row with a value of at least ``bound`` in a column that never goes back.

        Parameters
        ----------
        column_id
            A column that is stored as signed integers, without missing values.
        bound
            Any integer, in the unit of the stored integers.
        """
        node = self._nodes[column_id]
        zones = self._segment.zone_maps(node.number)
        edges: Integers = np.clip(
            self._segment.first_rows(node.number) - self._start, 0, self._stop - self._start
        )
        filled = np.flatnonzero(edges[1:] > edges[:-1])
        limits = np.iinfo(np.int64)
        if not len(filled) or bound <= limits.min:
            return 0
        if bound > limits.max:
            return int(edges[-1])
        # Pages are in order, so the first whose maximum reaches the bound holds the place. Where
        # a page has no bounds, its values are looked at.
        known = zones.bounded[filled] & ~zones.high_open[filled]
        reaches = np.flatnonzero(~known | (zones.maximum[filled] >= bound))
        for page in filled[reaches].tolist():
            low, high = int(edges[page]), int(edges[page + 1])
            if zones.minimum_exact[page] and int(zones.minimum[page]) >= bound:
                return low
            at = self._place(column_id, low, high, bound)
            if at < high:
                return at
        return int(edges[-1])

    def _place(self, column_id: int, low: int, high: int, bound: int) -> int:
        """Search rows ``[low, high)`` of one page for the first value of at least ``bound``.

        Evenly spaced rows are decoded first and bound the search, so that most of a long page is
        not decoded.
        """
        column = self.column(column_id, low, high)
        if high - low > _PROBED_ROWS * _PROBED_ROWS:
            probes = np.linspace(0, high - low - 1, _PROBED_ROWS).astype(np.int64)
            at = int(np.searchsorted(_integers(column.take(probes)), bound))
            # The place is after the row before, and not after the row found.
            begin = 0 if at == 0 else int(probes[at - 1]) + 1
            end = high - low if at == len(probes) else int(probes[at]) + 1
            column, low = column.slice(begin, end), low + begin
        return low + int(np.searchsorted(_integers(column.decode()), bound))


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    width = pa.int64() if values.type.bit_width == 64 else pa.int32()
    found: npt.NDArray[np.int64] = numpy_array(values.view(width))
    return found

"""From a key to columns: open the segment, decode what is wanted, and nothing else.

Opening costs a fraction of a millisecond, and mapping a file again costs its page faults, so the
segments used last stay open. Objects never change, so what was read of one stays true.

Where the source shows whole objects, a segment's bytes are a view, and the opened segment is kept.
Elsewhere its metadata are kept, and its bytes are memory as long as the segment, into which pages
are read, so that decoding knows one kind of segment only.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from tessel.ecs.piece import SegmentKey
from tessel.errors import ColumnNotFoundError, CorruptSegmentError, CorruptStoreError, NotFoundError
from tessel.options import current
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.values import Bytes, Integers
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.decode import decode_column
from tessel.store.segment.file import ReadBytes, SegmentFile
from tessel.store.segment.known_pages import sound_pages
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.sources import (
    ByteRanges,
    ReadAnswer,
    ReadSource,
    Viewing,
    open_source,
)

if TYPE_CHECKING:
    from tessel.store.segment.fetch import Rows
    from tessel.store.segment.lazy_rows import LazyRows


_MOST_OPEN = 256
"""Of one store. Each holds page tables, and the bytes of a small file or the map of a large one."""


_Cache: TypeAlias = LruCache[SegmentKey, SegmentPages | SegmentFile]
"""Of opened segments, or of their metadata; an evicted one lives while in use."""

_caches: weakref.WeakKeyDictionary[ObjectStore, _Cache] = weakref.WeakKeyDictionary()


_FEW_ROWS = 1 << 9
"""So few are found for all columns in one pass sooner than each column is decoded."""


class SegmentReader:
    """Reads segments of one object store; safe to use from several threads.

    Pages are verified when they are first touched in this process, or each time where the option
    ``verify_always`` says so.

    Attributes
    ----------
    views
        Whether all bytes of segments are there at once, so that nothing is waited for.
    """

    def __init__(self, objects: ObjectStore, source: ReadSource | None = None) -> None:
        self._objects = objects
        self.source = open_source(objects) if source is None else source
        self._always = current().verify_always
        # Views of bytes are shared by all readers of a store. What reads through its source must
        # not be: it would keep the store alive that it is kept for.
        self.views = isinstance(self.source, Viewing)
        shared = self.views and not self._always
        own: _Cache = LruCache(_MOST_OPEN)
        self._cache = _caches.setdefault(objects, own) if shared else own

    def open(self, key: SegmentKey, columns: Sequence[int] | None = None) -> SegmentPages:
        """Return a segment itself, opened now or before: its schema, page tables and pages.

        Raises CorruptSegmentError when the segment is missing, or its metadata are damaged or of
        another segment; FormatVersionError when another version of the format wrote it;
        ColumnNotFoundError for an id that the segment does not have.

        Parameters
        ----------
        key
            Where it lies, and the checksum of its footer.
        columns
            Ids of the columns whose page tables are wanted now; all by default.
        """
        found = self._cache.get(key)
        if found is None:
            data = self._view(key)
            file = self._file(key, data, columns)
            found = file if data is None else self._pages(key, file, data)
            self._cache.put(key, found)
        if isinstance(found, SegmentFile):
            # Bytes that were read are those of one use. The heap reuses memory; a map of its own
            # would be zeroed page by page, which takes longer than copying what was read.
            return self._pages(key, found, np.empty(key.length, np.uint8))
        return found

    def read(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> pa.Table:
        """Return rows of some columns of a segment.

        Raises CorruptSegmentError when the bytes are damaged, missing, or not what the key
        promises; names the object, and column and page where one is to blame.

        Parameters
        ----------
        key
            Where the segment lies, and its checksum.
        column_ids
            The columns, each an id that the segment holds.
        row_start, row_stop
            Rows ``[row_start, row_stop)``, counted from the first row of the segment.

        Returns
        -------
        pa.Table
            One column per id, named by the id in decimal. Where pages hold Arrow buffers, they are
            chunks of their own; on a local disk these are views of the mapped file.
        """
        segment, nodes = self._open(key, column_ids, row_start, row_stop)
        self._fetch(key, segment, nodes, range(row_start, row_stop))
        few: list[pa.Array | None] = [None] * len(nodes)
        if nodes and self.views and 0 < row_stop - row_start <= _FEW_ROWS:
            from tessel.store.segment.gather import SegmentRows, gather_columns

            rows = np.arange(row_start, row_stop)
            few = gather_columns([SegmentRows(segment, nodes, len(rows))], rows, None)
        columns = [
            decode_column(segment, node, row_start, row_stop) if found is None else found
            for node, found in zip(nodes, few, strict=True)
        ]
        return _table(columns, column_ids, row_stop - row_start)

    def lazy_rows(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> LazyRows:
        """Return rows as :meth:`read` does, but read no column before it is touched."""
        from tessel.store.segment.lazy_rows import LazyRows

        segment, nodes = self._open(key, column_ids, row_start, row_stop)
        by_id = dict(zip(column_ids, nodes, strict=True))
        return LazyRows(self, key, segment, by_id, row_start, row_stop)

    def take(self, key: SegmentKey, column_ids: Sequence[int], rows: Integers) -> pa.Table:
        """Return single rows of some columns of a segment.

        Raises InvalidInputError for a row that the segment does not have; CorruptSegmentError as
        :meth:`read`.

        Parameters
        ----------
        rows
            Counted from the first row of the segment, int64; in any order, repeats allowed.
        """
        from tessel.store.segment.decode_take import check_rows, take_column
        from tessel.store.segment.gather import SegmentRows, gather_columns

        segment, nodes = self._open(key, column_ids, 0, 0)
        check_rows(segment, rows)
        self._fetch(key, segment, nodes, rows)
        gathered: list[pa.Array | None] = [None] * len(nodes)
        if self.views and len(rows) and nodes:
            gathered = gather_columns([SegmentRows(segment, nodes, len(rows))], rows, None)
        columns = [
            take_column(segment, node, rows) if found is None else found
            for node, found in zip(nodes, gathered, strict=True)
        ]
        return _table(columns, column_ids, len(rows))

    def gather(
        self,
        keys: Sequence[SegmentKey],
        column_ids: Sequence[int],
        rows: Integers,
        stops: Sequence[int],
        places: Integers | None = None,
    ) -> list[pa.Array | None]:
        """Return single rows of many segments, of the columns for which one pass finds them all.

        Raises InvalidInputError or CorruptSegmentError as :meth:`take`.

        Parameters
        ----------
        keys
            At least one segment, each with the columns.
        column_ids
            As for :meth:`take`.
        rows
            Counted from the first row of their segment; those of the first segment stand first.
        stops
            Where the rows of each segment end; each has one at least.
        places
            The place in the answer of each row; None for their own order.

        Returns
        -------
        list
            One entry a column, of the type that it is stored in; None for a column to which
            :meth:`take` must be asked segment by segment.
        """
        from tessel.store.segment.decode_take import check_rows
        from tessel.store.segment.gather import SegmentRows, gather_columns, row_counts

        if not self.views or not column_ids:
            return [None] * len(column_ids)
        parts = []
        for key, stop in zip(keys, stops, strict=True):
            parts.append(SegmentRows(*self._open(key, column_ids, 0, 0), stop))
        limits = np.repeat([part.segment.row_count for part in parts], row_counts(parts))
        if np.count_nonzero((rows < 0) | (rows >= limits)):
            for part, own in zip(parts, np.split(rows, stops[:-1]), strict=True):
                check_rows(part.segment, own)
        return gather_columns(parts, rows, places)

    def read_joined(
        self,
        keys: Sequence[SegmentKey],
        column_ids: Sequence[int],
        spans: Sequence[tuple[int, int]],
    ) -> pa.Table:
        """Return rows of some columns of many small segments, all of them read in one pass.

        Raises TesselError or ValueError when the segments are not alike, or something is wrong with
        one. They must be asked for one by one, then, and the error is that of :meth:`read`.

        Parameters
        ----------
        keys
            Segments of one schema.
        column_ids
            As for :meth:`read`; at least one.
        spans
            Rows ``[start, stop)`` of each segment.

        Returns
        -------
        pa.Table
            As of :meth:`read`, with the rows of one segment after those of another.
        """
        from tessel.store.segment.decode_take import take_column
        from tessel.store.segment.joined import join_segments

        numbers: dict[str, int] = {}
        objects = [numbers.setdefault(key.object, len(numbers)) for key in keys]
        starts = np.array([key.offset for key in keys], np.int64)
        ends = starts + np.array([key.length for key in keys], np.int64)
        ranges = ByteRanges(tuple(numbers), np.array(objects, np.int64), starts, ends)
        joined = join_segments(keys, [_bytes(answer) for answer in self.source.read(ranges)])
        nodes = [joined.file.top(column_id) for column_id in column_ids]
        rows = joined.rows(np.array(spans, np.int64))
        columns = [take_column(joined, node, rows) for node in nodes]
        return _table(columns, column_ids, len(rows))

    def verify(self, key: SegmentKey) -> None:
        """Check all pages of a segment, whether or not that was done before.

        Raises CorruptSegmentError for the first that is damaged.
        """
        segment = self.open(key)
        self._fetch(key, segment, segment.tops, range(segment.row_count))
        segment.verify()

    def _fetch(
        self, key: SegmentKey, segment: SegmentPages, nodes: Sequence[FieldNode], *rows: Rows
    ) -> None:
        """Fetch what decoding these rows of some columns takes, where they are far."""
        if not self.views:
            from tessel.store.segment.fetch import Wanted, fetch

            fetch(self.source, [Wanted(key, segment, nodes, rows)])

    def _open(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> tuple[SegmentPages, tuple[FieldNode, ...]]:
        try:
            segment = self.open(key, column_ids)
            nodes = segment.columns(tuple(column_ids))
        except ColumnNotFoundError as error:
            raise CorruptSegmentError(
                f"{key.object} is damaged: {error.message}",
                object=key.object,
                **{
                    name: error.attributes[name] for name in ("column",) if name in error.attributes
                },
            ) from error
        if not 0 <= row_start <= row_stop <= segment.row_count:
            raise CorruptSegmentError(
                f"{key.object} is damaged: rows {row_start} to {row_stop} were asked for, "
                f"it has {segment.row_count}",
                object=key.object,
            )
        return segment, nodes

    def _pages(self, key: SegmentKey, file: SegmentFile, data: Bytes) -> SegmentPages:
        directory = file.directory
        records = int(directory["page_count"].sum()) + int(directory["has_dictionary"].sum())
        sound = sound_pages(self._objects, key, records)
        return SegmentPages(file, data, sound, always_verify=self._always, views=self.views)

    def _view(self, key: SegmentKey) -> Bytes | None:
        if not isinstance(self.source, Viewing):
            return None
        try:
            whole = self.source.view(key.object)
        except (NotFoundError, CorruptStoreError) as error:
            raise _cut_short(key, error.message) from error
        if key.offset + key.length > whole.size:
            raise _cut_short(key, f"it has {whole.size} bytes")
        return np.frombuffer(whole.slice(key.offset, key.length), np.uint8)

    def _file(
        self, key: SegmentKey, data: Bytes | None, columns: Sequence[int] | None
    ) -> SegmentFile:
        file = SegmentFile.open(
            partial(self._read, key.object) if data is None else _slices(data, key.offset),
            object=key.object,
            offset=key.offset,
            length=key.length,
            metadata_start=key.metadata_start,
            columns=columns,
        )
        if file.checksum != key.checksum:
            raise CorruptSegmentError.for_object(
                key.object,
                f"is damaged: the checksum of the segment at {key.offset} is "
                f"{file.checksum:#010x}, not {key.checksum:#010x}",
                offset=key.offset,
                length=key.length,
            )
        return file

    def _read(self, name: str, start: int, stop: int) -> pa.Buffer:
        ends = np.array([[start], [stop]], np.int64)
        ranges = ByteRanges((name,), np.zeros(1, np.int64), ends[0], ends[1])
        (answer,) = self.source.read(ranges)
        return _bytes(answer)


def _table(
    columns: Sequence[pa.ChunkedArray | pa.Array], column_ids: Sequence[int], rows: int
) -> pa.Table:
    if not column_ids:
        return pa.table({"": pa.nulls(rows)}).select([])
    return pa.table(list(columns), names=list(map(str, column_ids)))


def _bytes(answer: ReadAnswer) -> pa.Buffer:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _slices(data: Bytes, offset: int) -> ReadBytes:
    """Return what reads bytes of an object; it must not know the store, which keeps it by weak key.

    Parameters
    ----------
    data
        Bytes of the object from ``offset`` on.
    """
    return lambda start, stop: pa.py_buffer(data[start - offset : stop - offset])


def _cut_short(key: SegmentKey, why: str) -> CorruptSegmentError:
    return CorruptSegmentError.for_object(key.object, f"is missing or cut short: {why}")

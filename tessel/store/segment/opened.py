"""Segments that were opened: their metadata read once, kept for as long as they are in use.

The reader of segments enters here. Opening costs a fraction of a millisecond, and mapping a file
again costs its page faults, so the segments used last stay open. Objects never change, so what was
read of one stays true.

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
from tessel.errors import CorruptSegmentError, CorruptStoreError, NotFoundError
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.values import Bytes
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.file import ReadBytes, SegmentFile
from tessel.store.segment.known_pages import sound_pages
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.sources.base import (
    ByteRanges,
    ReadAnswer,
    ReadSource,
    Viewing,
    open_source,
)

if TYPE_CHECKING:
    from tessel.store.segment.fetch import Rows
    from tessel.store.segment.joined import JoinedPages

_MOST_OPEN = 256
"""Of one store. Each holds page tables, and the bytes of a small file or the map of a large one."""


_Cache: TypeAlias = LruCache[SegmentKey, SegmentPages | SegmentFile]
"""Of opened segments, or of their metadata; an evicted one lives while in use."""

_caches: weakref.WeakKeyDictionary[ObjectStore, _Cache] = weakref.WeakKeyDictionary()


class SegmentOpener:
    """Opens segments of one store; safe to use from several threads.

    Parameters
    ----------
    always_verify
        Verify pages each time they are touched, not only the first time in this process.

    Attributes
    ----------
    views
        Whether all bytes of segments are there at once, so that nothing is waited for.
    """

    def __init__(
        self,
        objects: ObjectStore,
        source: ReadSource | None = None,
        *,
        always_verify: bool = False,
    ) -> None:
        self._objects = objects
        self.source = open_source(objects) if source is None else source
        self._always = always_verify
        # Views of bytes are shared by all readers of a store. What reads through its source must
        # not be: it would keep the store alive that it is kept for.
        # Asked once: whether an object satisfies a protocol takes 40 µs to say.
        self.views = hasattr(self.source, "view")  # as Viewing says, in a tenth of the time
        shared = self.views and not always_verify
        own: _Cache = LruCache(_MOST_OPEN)
        self._cache = _caches.setdefault(objects, own) if shared else own

    def open(self, key: SegmentKey, columns: Sequence[int] | None = None) -> SegmentPages:
        """Return a segment, opened now or before.

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

    def join(self, keys: Sequence[SegmentKey]) -> JoinedPages:
        """Return small segments of one schema, read whole and opened in one pass; none is kept.

        Raises TesselError or ValueError when they are not alike, or something is wrong with one:
        open them one by one.
        """
        from tessel.store.segment.joined import join_segments

        numbers: dict[str, int] = {}
        objects = [numbers.setdefault(key.object, len(numbers)) for key in keys]
        starts = np.array([key.offset for key in keys], np.int64)
        ends = starts + np.array([key.length for key in keys], np.int64)
        ranges = ByteRanges(tuple(numbers), np.array(objects, np.int64), starts, ends)
        answers = self.source.read(ranges)
        return join_segments(keys, [_bytes(answer) for answer in answers])

    def fetch(
        self, key: SegmentKey, segment: SegmentPages, nodes: Sequence[FieldNode], *rows: Rows
    ) -> None:
        """Fetch what decoding these rows of some columns takes, where it is not there already."""
        if not self.views:
            from tessel.store.segment.fetch import Wanted, fetch

            fetch(self.source, [Wanted(key, segment, nodes, rows)])

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

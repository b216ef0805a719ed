"""From tables to segments: cut, encode, summarise, put; what comes back goes into a manifest.

A table is cut into row ranges × column ranges; no data is moved. The *stored order* of a symbol's
columns is that of their ids: the time index first, then the columns in the order of the user. So
the index lies in the first column slice of each row range and in no other, and a column range of a
segment is a range of ids. What users see keeps their order.

Small segments of a commit share a pack, so that ten thousand are not as many files. A segment in a
pack is what it is elsewhere: bytes of an object, from an offset that is a multiple of 64. The
layout is that of ``docs/format.md``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import concat_tables
from tessel.ecs.piece import ColRange, RowRange, SegmentKey
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.encodings.codes import ALIGNMENT, aligned
from tessel.store.index_column import index_ends
from tessel.store.names import new_id, segment_name
from tessel.store.objects.base import ObjectStore, put_all
from tessel.store.segment.file_writer import (
    EncodedSegment,
    RunTasks,
    WriteOptions,
    begin_segment,
    profile_by_name,
)
from tessel.store.segment.statistics import ColumnStatistics
from tessel.store.segment.validation import damaged

SMALL_SEGMENT_BYTES: Final = 1 << 20
"""Segments below this share an object."""

PACK_BYTES: Final = 64 << 20
"""A pack holds at most so many bytes, its directory included."""

_ENTRY: Final = np.dtype(
    [("offset", "<u8"), ("length", "<u8"), ("checksum", "<u4"), ("reserved", "<u4")]
)
_TAIL: Final = np.dtype([("count", "<u4"), ("checksum", "<u4"), ("magic", "S8")])
_MAGIC: Final = b"TSLPACK\n"


class PackWriter:
    """Gathers small segments and writes them as packs; used by one thread at a time.

    Nothing is written before :meth:`flush`, unless a pack is full.
    """

    def __init__(self, objects: ObjectStore, *, pack_bytes: int = PACK_BYTES) -> None:
        self._objects = objects
        self._limit = pack_bytes
        self._name = segment_name(new_id())
        self._parts: list[npt.NDArray[np.uint8]] = []
        self._keys: list[SegmentKey] = []
        self._size = 0

    def add(self, segment: EncodedSegment) -> SegmentKey:
        """Take a segment into a pack, and return where it will lie."""
        start = aligned(self._size)
        end = start + segment.length
        full = (len(self._keys) + 1) * _ENTRY.itemsize + _TAIL.itemsize + aligned(end) > self._limit
        if self._keys and full:
            self.flush()
            start, end = 0, segment.length
        key = SegmentKey(
            self._name, start, segment.length, segment.checksum, segment.metadata_start
        )
        # Copied: the pieces may be memory of the caller, who may change it before the commit.
        self._parts += [np.zeros(start - self._size, np.uint8), np.concatenate(segment.pieces)]
        self._size = end
        self._keys.append(key)
        return key

    def flush(self) -> None:
        """Write what was gathered, if anything was."""
        if not self._keys:
            return
        directory = np.zeros(len(self._keys), _ENTRY)
        for at, key in enumerate(self._keys):
            directory[at] = (key.offset, key.length, key.checksum, 0)
        tail = np.zeros(1, _TAIL)
        tail[0] = (len(directory), google_crc32c.value(directory.tobytes()), _MAGIC)
        padding = np.zeros(aligned(self._size) - self._size, np.uint8)
        data = np.concatenate(
            [*self._parts, padding, directory.view(np.uint8), tail.view(np.uint8)]
        )
        put_all(self._objects, [(self._name, pa.py_buffer(data))])
        self._name = segment_name(new_id())
        self._parts, self._keys, self._size = [], [], 0


def pack_directory(name: str, data: pa.Buffer) -> list[SegmentKey] | None:
    """Return the segments of an object, or None where it is no pack.

    Raises CorruptSegmentError when it ends like a pack, and its directory is damaged.

    Parameters
    ----------
    name, data
        The object and all its bytes, or at least its end.
    """
    held = np.frombuffer(data, np.uint8)
    if len(held) < _TAIL.itemsize:
        return None
    count, checksum, magic = held[-_TAIL.itemsize :].copy().view(_TAIL)[0].item()
    if magic != _MAGIC:
        return None
    end = len(held) - _TAIL.itemsize
    start = end - count * _ENTRY.itemsize
    if start < 0 or google_crc32c.value(held[start:end].tobytes()) != checksum:
        raise damaged(name, "its directory does not fit its checksum")
    rows = held[start:end].copy().view(_ENTRY)
    limit = np.uint64(start)
    outside = (rows["offset"] % ALIGNMENT != 0) | (rows["length"] > limit)
    if outside.any() or (rows["offset"] > limit - rows["length"]).any():
        raise damaged(name, "a segment lies outside of it")
    return [SegmentKey(name, offset, length, own) for offset, length, own, _ in rows.tolist()]


_COLUMN_BYTES = 1 << 30
"""One column of one segment stays below this, so that 32-bit offsets always reach."""


def assign_column_ids(schema: TableSchema, first: int) -> dict[str, int]:
    """Give the columns of a new table ids from ``first`` on: the index, then as they stand."""
    names = sorted(schema.names, key=lambda name: name != schema.index)
    return {name: number for number, name in enumerate(names, first)}


def column_slices(columns: int, segment_columns: int) -> list[ColRange]:
    """Cut ``columns`` columns into ranges of at most ``segment_columns``."""
    return [
        ColRange(start, min(start + segment_columns, columns))
        for start in range(0, columns, segment_columns)
    ]


def row_slices(table: pa.Table, segment_rows: int) -> list[RowRange]:
    """Cut the rows of a table into ranges of at most ``segment_rows``.

    A range in which some column has more than 1 GiB is halved until none has.
    """
    found: list[RowRange] = []
    starts = range(0, table.num_rows, segment_rows)
    waiting = [(start, min(start + segment_rows, table.num_rows)) for start in reversed(starts)]
    while waiting:
        start, end = waiting.pop()
        columns = table.slice(start, end - start).columns
        if end - start == 1 or max([column.nbytes for column in columns]) <= _COLUMN_BYTES:
            found.append(RowRange(start, end))
        else:
            middle = start + (end - start) // 2
            waiting += [(middle, end), (start, middle)]
    return found


_AHEAD = 1
"""Segments that are begun before one is waited for."""


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """One segment as it lies in the store.

    Attributes
    ----------
    column_from, column_to
        The ids of its columns, ``[from, to)``.
    """

    key: SegmentKey
    column_from: int
    column_to: int


@dataclass(frozen=True, slots=True)
class WrittenSlice:
    """All segments of one row range, with what is known of its columns.

    Attributes
    ----------
    segments
        In the order of their columns.
    first_time, last_time
        Bounds of the index as integers in its own unit; None without an index.
    statistics
        For each column id.
    """

    rows: int
    segments: tuple[WrittenSegment, ...]
    first_time: int | None
    last_time: int | None
    statistics: Mapping[int, ColumnStatistics]


class SegmentWriter:
    """Writes the rows of one symbol as segments.

    Parameters
    ----------
    schema
        The columns as stored (see :mod:`tessel.store.segment.types`), in the user's order.
    column_ids
        The id of each column; ascending in stored order.
    pack
        Takes the small segments; whoever made it flushes it before the commit.
    encodings
        By column id, the name of an encoding to use wherever it can hold a page.
    """

    def __init__(
        self,
        objects: ObjectStore,
        schema: TableSchema,
        column_ids: Mapping[str, int],
        pack: PackWriter,
        *,
        encodings: Mapping[int, str] | None = None,
    ) -> None:
        options = current()  # the largest segment, the profile, and how many threads encode
        self._objects = objects
        self._pack = pack
        self._index = schema.index
        self._names = sorted(schema.names, key=column_ids.__getitem__)
        self._ids = dict(column_ids)
        self._rows = options.segment_rows
        self._columns = column_slices(len(self._names), options.segment_columns)
        forced = {str(number): name for number, name in (encodings or {}).items()}
        self._write_options = WriteOptions(profile_by_name(options.profile), forced)
        self._workers = options.workers
        self._inline_bytes = options.inline_bytes

    def write(self, tables: Iterable[pa.Table]) -> list[WrittenSlice]:
        """Write the rows of the tables, one after the other, as segments.

        The tables have the columns and types of the schema, in any order. They are consumed as
        segments fill up, so the memory needed is that of a few segments, not of all rows. Columns
        are encoded on threads while the segments before them are written.
        """
        written: list[WrittenSlice] = []
        with contextlib.ExitStack() as stack:
            put_all(self._objects, self._large_segments(tables, written, stack))
        return written

    def _large_segments(
        self, tables: Iterable[pa.Table], written: list[WrittenSlice], stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, pa.Buffer]]:
        """Encode all segments; give those that are objects of their own."""
        run: RunTasks = map
        begun: deque[_Begun] = deque()
        for table in _gathered(tables, self._rows):
            for rows in row_slices(table, self._rows):
                part = table.slice(rows.start, len(rows))
                if run is map and self._workers > 1 and part.nbytes >= self._inline_bytes:
                    pool = ThreadPoolExecutor(self._workers, thread_name_prefix="tessel-encode")
                    run = stack.enter_context(pool).map
                slice_ = _Slice(part)
                for columns in self._columns:
                    names = self._names[columns.start : columns.end]
                    ids = [self._ids[name] for name in names]
                    trimmed = [_trimmed(part.column(name)) for name in names]
                    encoded = pa.table(trimmed, names=list(map(str, ids)))
                    finish = begin_segment(encoded, self._write_options, run)
                    begun.append((slice_, ids, finish))
                    if len(begun) > _AHEAD:
                        yield from self._finish(begun.popleft(), written)
        while begun:
            yield from self._finish(begun.popleft(), written)

    def _finish(
        self, begun: _Begun, written: list[WrittenSlice]
    ) -> Iterator[tuple[str, pa.Buffer]]:
        """Wait for a segment, and with the last of a row range note what was written of it."""
        slice_, ids, finish = begun
        encoded = finish()
        slice_.statistics |= dict(zip(ids, encoded.statistics, strict=True))
        if encoded.length < SMALL_SEGMENT_BYTES:
            key = self._pack.add(encoded)
        else:
            name = segment_name(new_id())
            key = SegmentKey(name, 0, encoded.length, encoded.checksum, encoded.metadata_start)
            yield key.object, encoded.to_buffer()
        slice_.segments.append(WrittenSegment(key, ids[0], ids[-1] + 1))
        if len(slice_.segments) == len(self._columns):
            index = self._index
            first, last = (None, None) if index is None else index_ends(slice_.rows, index)
            segments, rows = tuple(slice_.segments), slice_.rows.num_rows
            written.append(WrittenSlice(rows, segments, first, last, slice_.statistics))
            size = sum(each.key.length for each in segments)
            telemetry.emit("segment.write", rows=rows, bytes=size)


@dataclass(slots=True, eq=False)
class _Slice:
    """Rows that are being written, and what is there of them."""

    rows: pa.Table
    segments: list[WrittenSegment] = field(default_factory=list)
    statistics: dict[int, ColumnStatistics] = field(default_factory=dict)


_Begun = tuple[_Slice, list[int], Callable[[], EncodedSegment]]
"""A segment that is being encoded: its rows, the ids of its columns, and what waits for it."""


def _gathered(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Join small tables and hand on multiples of ``rows``, so that cuts do not follow batches."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            joined = concat_tables(waiting)
            whole = count - count % rows
            yield joined.slice(0, whole)
            waiting, count = [joined.slice(whole)], count - whole
    if count:
        yield concat_tables(waiting)


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Drop the dictionary values that a short slice does not use, where that is worth it."""
    if not pa.types.is_dictionary(column.type) or column.type.ordered:
        return column
    if all(len(chunk.dictionary) <= len(column) for chunk in column.chunks):
        return column
    plain = column.cast(column.type.value_type)
    return plain.dictionary_encode().cast(column.type)

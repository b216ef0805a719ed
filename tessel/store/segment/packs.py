"""Packs: one object for the small segments of a commit, so that ten thousand are not as many files.

Transactions write through a :class:`PackWriter`; checks of a store read the directory. A segment
in a pack is what it is elsewhere: bytes of an object, from an offset that is a multiple of 64. The
layout is that of ``docs/format.md``.
"""

from __future__ import annotations

from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.ecs.piece import SegmentKey
from tessel.store.encodings.codes import ALIGNMENT, aligned
from tessel.store.names import new_id, segment_name
from tessel.store.objects.base import ObjectStore, put_all
from tessel.store.segment.file_writer import EncodedSegment
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

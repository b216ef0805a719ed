"""The format of event files: a header, and frames of batches, each with a checksum.

Version 2 begins with a header of 16 bytes: ``TSLEVT``, the version (``u2``), the kind (``u4``: 0 a
journal, 1 a dump), and a CRC-32C of these twelve bytes. Frames follow, each what one call wrote:
the length of the payload (``u8``), its CRC-32C (``u4``), a CRC-32C of these twelve bytes (``u4``),
and the payload, an Arrow IPC stream for each batch, end to end. A frame without a payload ends a
dump, so that a dump that was cut off is known for one. All numbers are little endian.

Version 1 begins with ``TSLEVT`` and the version; its frames are length (``u4``), CRC-32C (``u4``)
and one stream. Nothing vouches for a length there: it is doubted where whole frames follow.

A *torn* frame is the last one of a file that ends before the frame does, or whose end was never
written and reads as zeros: the process or the power went while it was appended. All other damage
is an error.
"""

from __future__ import annotations

import enum
import logging
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import google_crc32c
import pyarrow as pa

from tessel.errors import CorruptStoreError, FormatVersionError, NotAStoreError
from tessel.store.events.batch import EventBatch
from tessel.store.objects.mapped import read_exactly
from tessel.telemetry import emit

_logger = logging.getLogger("tessel")

_MAGIC: Final = b"TSLEVT"
_VERSION: Final = 2
_OPENING: Final = struct.Struct("<6sH")
_HEADER: Final = struct.Struct("<6sHII")
_FRAME: Final = struct.Struct("<QII")
_FRAME_1: Final = struct.Struct("<II")
_STREAM_START, _STREAM_END = b"\xff" * 4, b"\xff" * 4 + bytes(4)
"""What an Arrow IPC stream begins with, and ends with."""
_BLOCK_BYTES: Final = 1 << 20


class FileKind(enum.IntEnum):
    """Whether a file is appended to, or was written at once and ends with a mark."""

    JOURNAL = 0
    DUMP = 1


class EventFile:
    """A file of events as it is when it is opened; :meth:`batches` moves ``end`` along.

    Parameters
    ----------
    descriptor, path
        The file, which stays open, and its name for errors.
    salvage
        Whether damage is reported, and what is whole besides is given, instead of an error.

    Attributes
    ----------
    end
        Where the last whole frame ends; 0 where the file ends inside its header.
    kind
        A journal or a dump; those of version 1 do not say it, and count as journals.
    """

    def __init__(self, descriptor: int, path: str | Path, *, salvage: bool = False) -> None:
        self._descriptor = descriptor
        self._path = path
        self._salvage = salvage
        self.size = os.fstat(descriptor).st_size
        self.is_current, self.kind, self.end = self._opening()
        self._frame = _FRAME if self.is_current else _FRAME_1

    @property
    def torn_bytes(self) -> int:
        """How many bytes follow the last whole frame."""
        return self.size - self.end

    def _opening(self) -> tuple[bool, FileKind, int]:
        """Return whether the version is the newest, the kind, and where the first frame begins."""
        header = read_bytes(self._descriptor, 0, min(self.size, _HEADER.size))
        if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
            raise NotAStoreError(
                f"{str(self._path)!r} holds no events", hint="it is no dump and no journal"
            )
        if len(header) < _OPENING.size:
            return True, FileKind.JOURNAL, 0
        _, version = _OPENING.unpack_from(header)
        if version == 1:
            return False, FileKind.JOURNAL, _OPENING.size
        if version != _VERSION:
            raise FormatVersionError(
                f"{str(self._path)!r} holds events of version {version}",
                hint=f"this release reads versions 1 and {_VERSION}",
            )
        if len(header) < _HEADER.size:
            return True, FileKind.JOURNAL, 0
        _, _, kind, checksum = _HEADER.unpack(header)
        if _checksum(header[:-4]) == checksum and kind in list(FileKind):
            return True, FileKind(kind), _HEADER.size
        self._fail(0, "its header does not match its checksum")
        return True, FileKind.JOURNAL, _HEADER.size  # the frames say for themselves what they are

    def batches(self) -> Iterator[EventBatch]:
        """Give the batches of all whole frames.

        Raises CorruptStoreError for damage, and for a dump that was cut off.
        """
        is_ended = False
        while 0 < self.end < self.size and not is_ended:
            found = self._payload()
            if found is None:
                break
            payload, length = found
            is_ended = not length
            yield from self._batches(payload)
            self.end += self._frame.size + length
        if self.kind is FileKind.DUMP and not (is_ended and self.end == self.size):
            self._fail(self.end, "the dump does not end there with the mark of its end")

    def _payload(self) -> tuple[bytes, int] | None:
        """Return the payload of the next frame and its length in the file; None for a torn one."""
        start = self.end + self._frame.size
        if start > self.size:
            return None
        header = read_bytes(self._descriptor, self.end, self._frame.size)
        length, checksum = self._frame.unpack(header)[:2]
        if self.is_current and _checksum(header[:-4]) != self._frame.unpack(header)[2]:
            if not self._is_zero_from(start):
                self._fail(self.end, "the header of a frame does not match its checksum")
            return None
        if start + length > self.size:
            self._doubt_length(start, checksum)
            return None
        payload = read_bytes(self._descriptor, start, length)
        if _checksum(payload) == checksum:
            return payload, length
        is_last = start + length == self.size
        if (is_last and not any(payload[-len(_STREAM_END) :])) or self._is_zero_from(start):
            self._doubt_length(start, checksum)
            return None
        self._fail(self.end, "a frame does not match its checksum")
        return b"", length

    def _batches(self, payload: bytes) -> Iterator[EventBatch]:
        source = pa.BufferReader(payload)
        try:
            while source.tell() < len(payload):
                for batch in pa.ipc.open_stream(source):
                    yield EventBatch.from_arrow(batch, arrivals=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            self._fail(self.end, f"a frame cannot be read: {error}", error)

    def _doubt_length(self, start: int, checksum: int) -> None:
        """Refuse a length of version 1 that reaches the end of the file past whole frames."""
        if self.is_current or start == self.size:
            return
        with (
            mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            follows = _whole_frame(data, view, start)
            is_last = _checksum(bytes(view[start:])) == checksum
        if is_last:
            self._fail(self.end, "the length of the last frame is wrong")
        if follows is not None:
            self._fail(
                self.end,
                "a frame says that it reaches the end of the file, and a whole one follows at "
                f"byte {follows}",
            )

    def _is_zero_from(self, start: int) -> bool:
        return not any(
            any(read_bytes(self._descriptor, at, min(_BLOCK_BYTES, self.size - at)))
            for at in range(start, self.size, _BLOCK_BYTES)
        )

    def _fail(self, at: int, what: str, cause: BaseException | None = None) -> None:
        error = CorruptStoreError.for_events(self._path, at, what)
        if not self._salvage:
            raise error from cause
        report("events.damaged", error.message, path=str(self._path), offset=at)


def _whole_frame(data: mmap.mmap, view: memoryview, start: int) -> int | None:
    """Return where a whole frame of version 1 begins behind a byte; None where none does."""
    at = data.find(_STREAM_START, start + _FRAME_1.size)
    while at >= 0:
        length, checksum = _FRAME_1.unpack_from(view, at - _FRAME_1.size)
        end = at + length
        ends = data[end - len(_STREAM_END) : end] == _STREAM_END  # asked first: it costs less
        if ends and _checksum(data[at:end]) == checksum:
            return at - _FRAME_1.size
        at = data.find(_STREAM_START, at + 1)
    return None


def file_header(kind: FileKind) -> bytes:
    """Return the header of a file."""
    header = _HEADER.pack(_MAGIC, _VERSION, kind, 0)[:-4]
    return header + _checksum(header).to_bytes(4, "little")


def frame_of(batches: Sequence[EventBatch]) -> bytes:
    """Return batches as one frame; of none the mark that ends a dump."""
    sink = pa.BufferOutputStream()
    for batch in batches:
        arrow = batch.to_arrow(arrivals=True)
        with pa.ipc.new_stream(sink, arrow.schema) as writer:
            writer.write_batch(arrow)
    payload = sink.getvalue()
    header = _FRAME.pack(payload.size, _checksum(payload), 0)[:-4]
    return b"".join((header, _checksum(header).to_bytes(4, "little"), payload))


def read_bytes(descriptor: int, start: int, length: int) -> bytes:
    """Return bytes that a file has, however many calls it takes."""
    data = read_exactly(descriptor, start, length)
    if len(data) < length:
        raise OSError("the file became shorter while it was read")
    return data


def report(name: str, text: str, **facts: str | int) -> None:
    """Say in the log, and to who listens to telemetry, what is missing from a file."""
    _logger.warning(text)
    emit(name, duration_ns=0, **facts)


def _checksum(data: bytes | pa.Buffer) -> int:
    return int(google_crc32c.value(data))

"""Events in a file: batch after batch, each with its checksum; a journal, or a dump.

The file begins with eight bytes, ``TSLEVT`` and the version; then frames: the length of a payload
(``u4``, little endian), its CRC-32C (``u4``), the payload: an Arrow IPC stream of one batch. One
that is cut off at the end was being written when the power went: it is not there. What is damaged
before the last frame is an error.
"""

from __future__ import annotations

import fcntl
import os
import struct
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import pyarrow as pa

from tessel.errors import CorruptStoreError, FormatVersionError, NotAStoreError, StoreBusyError
from tessel.store.events.batch import EventBatch

__all__ = ["Journal", "read_events", "write_events"]

_MAGIC = b"TSLEVT"
_VERSION = 1
_HEADER = _MAGIC + _VERSION.to_bytes(2, "little")
_FRAME = struct.Struct("<II")


def write_events(path: str | Path, batches: Iterable[EventBatch], *, sync: bool = True) -> None:
    """Write events to a file that takes the place of what was there, whole or not at all."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(_HEADER)
        for batch in batches:
            file.write(_frame(batch))
        file.flush()
        if sync:
            os.fsync(file.fileno())
    part.replace(path)
    if sync:
        _sync_folder(path)


def read_events(path: str | Path) -> Iterator[EventBatch]:
    """Give the batches of a file; a last one that was cut off is left out.

    Raises
    ------
    NotAStoreError, FormatVersionError
        For a file that holds something else, or was written by a newer version.
    CorruptStoreError
        For damage before the last frame.
    """
    with Path(path).open("rb") as file:
        for batch, _ in _frames(file, path):
            yield batch


class Journal:
    """A file that has every event before it is acknowledged.

    Parameters
    ----------
    path
        The file; made where it is not.
    sync
        Whether an event is acknowledged only when the disk has it. Otherwise the operating system
        has it, which survives the end of the process and not that of the power.

    Raises
    ------
    StoreBusyError
        While another process has it open.
    """

    def __init__(self, path: str | Path, *, sync: bool = False) -> None:
        self.path = Path(path)
        self._sync = sync
        self._process = os.getpid()
        self._file = self._opened()
        _journals.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it, and is no forked child of the one that did."""
        return self._process == os.getpid()

    def forget(self) -> None:
        """Let go of the file in a forked child, which would keep it locked after its parent."""
        self._file.close()

    def _opened(self) -> BinaryIO:
        file = self.path.open("ab+", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise StoreBusyError(
                f"the journal {str(self.path)!r} is open in another process",
                hint="give each live store a journal of its own",
            ) from error
        if not os.fstat(file.fileno()).st_size:
            self._begin(file)
        return file

    def _begin(self, file: BinaryIO) -> None:
        file.write(_HEADER)
        if self._sync:
            os.fsync(file.fileno())
            _sync_folder(self.path)

    def replay(self) -> Iterator[EventBatch]:
        """Give what is there, and cut off a last frame that is not whole."""
        self._file.seek(0)
        end = min(len(_HEADER), os.fstat(self._file.fileno()).st_size)
        for batch, end in _frames(self._file, self.path):  # noqa: B007  (used after the loop)
            yield batch
        if end < os.fstat(self._file.fileno()).st_size:
            os.ftruncate(self._file.fileno(), end)
        if end < len(_HEADER):  # the power went while the file was made
            os.ftruncate(self._file.fileno(), 0)
            self._begin(self._file)

    def append(self, batches: Sequence[EventBatch]) -> None:
        """Write batches as one; all of them are there afterwards, or none."""
        data = b"".join(map(_frame, batches))
        end = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), end)
            raise

    def rewrite(self, batches: Iterable[EventBatch]) -> None:
        """Hold these batches and nothing else from now on."""
        write_events(self.path, batches, sync=self._sync)
        before, self._file = self._file, self._opened()
        before.close()

    def close(self) -> None:
        """Let the file go."""
        if self.is_ours and not self._file.closed:
            # A child that was forked just now may not have let go of it yet: its lock is this one.
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _frame(batch: EventBatch) -> bytes:
    arrow = batch.to_arrow(arrivals=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_batch(arrow)
    payload: bytes = sink.getvalue().to_pybytes()
    return _FRAME.pack(len(payload), google_crc32c.value(payload)) + payload


def _frames(file: BinaryIO, path: str | Path) -> Iterator[tuple[EventBatch, int]]:
    """Give each batch and where its frame ends."""
    header = file.read(len(_HEADER))
    if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
        raise NotAStoreError(f"{str(path)!r} holds no events", hint="it is no dump and no journal")
    if len(header) < len(_HEADER):
        return  # cut off when it was made
    if header != _HEADER:
        version = int.from_bytes(header[len(_MAGIC) :], "little")
        raise FormatVersionError(
            f"{str(path)!r} holds events of version {version}",
            hint=f"this release reads version {_VERSION}",
        )
    size = os.fstat(file.fileno()).st_size
    at = len(_HEADER)
    while at + _FRAME.size <= size:
        length, checksum = _FRAME.unpack(file.read(_FRAME.size))
        end = at + _FRAME.size + length
        if end > size:
            return
        payload = file.read(length)
        if google_crc32c.value(payload) != checksum:
            if end == size:
                return  # the file grew before its last bytes were there
            raise CorruptStoreError(
                f"the events at byte {at} of {str(path)!r} are damaged",
                hint="what stands before them can be read from a copy cut off there",
            )
        yield _batch(payload, path, at), end
        at = end


def _batch(payload: bytes, path: str | Path, at: int) -> EventBatch:
    try:
        (batch,) = pa.ipc.open_stream(payload)
        return EventBatch.from_arrow(batch, arrivals=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptStoreError(
            f"the events at byte {at} of {str(path)!r} cannot be read: {error}"
        ) from error


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _after_fork() -> None:
    for journal in list(_journals):
        journal.forget()


os.register_at_fork(after_in_child=_after_fork)

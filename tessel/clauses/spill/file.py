"""Asking allocators to give free memory back to the system.

What Arrow, numpy and the decoder have freed is kept by their allocators for the next that asks: of
a query that puts tables aside that is as much again as what it holds. Who writes a spill file comes
here from time to time; it costs little beside a write, and queries that hold everything never do.

Tables in a temporary file that nobody else can see, and that is gone whatever happens.

The file has no name from the start (``tempfile.TemporaryFile``): an error, Ctrl-C, closing the
iterator of a result and even the death of the process all free its space. A block is one table as
an Arrow IPC stream. It is not compressed: of ten columns, in blocks of 3,700 rows, LZ4 leaves 0.6
of the bytes and takes 250 ns a row to write and 80 to read, where plain bytes take 95 and 30.
Where a block lies, how long it is, its CRC-32C and its number of rows stay in memory, and a block
that is read back is held to all of them and to its schema: a disk that lies makes an error, never
an answer.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO

import google_crc32c
import pyarrow as pa

from tessel import telemetry
from tessel.clauses.spill.workspace import Account
from tessel.closing import Closing
from tessel.errors import SpillError
from tessel.lazy import dataclass


def give_back() -> None:
    """Let the allocators of this process give back what is free, as far as they can be asked."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``; None where the C library has none."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class SpillBlock:
    """Where a table lies in a spill file, and what vouches for it.

    Attributes
    ----------
    offset, length
        Its bytes in the file.
    checksum
        CRC-32C of those bytes.
    rows, nbytes, schema
        Of the table in memory.
    """

    offset: int
    length: int
    checksum: int
    rows: int
    nbytes: int
    schema: pa.Schema


class SpillFile(Closing):
    """A temporary file of tables; use as a context manager.

    It is made when the first table is written. Any number of threads may read.

    Raises SpillError, of ``write`` where the file cannot be made or written, of ``read`` where it
    cannot be read or what comes back is not what was written.

    Parameters
    ----------
    directory
        Where the file is made; empty is the system's place for such files.
    account
        What is told that not all may be held, when the first table is written; maybe none.
    """

    def __init__(self, directory: str = "", account: Account | None = None) -> None:
        self._directory = directory
        self._account = account
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self._end

    def write(self, table: pa.Table) -> SpillBlock:
        """Append a table, which has a column."""
        stream = pa.BufferOutputStream()
        choices = pa.ipc.IpcWriteOptions(unify_dictionaries=False, use_threads=False)
        with pa.ipc.new_stream(stream, table.schema, options=choices) as writer:
            writer.write_table(table)
        data = stream.getvalue()
        with self._lock:
            offset = self._end
            try:
                file = self._opened()
                _write_whole(file, offset, data)
            except OSError as error:
                raise self._failed("written", error) from error
            self._end += data.size
        checksum, rows = _checksum(data), table.num_rows
        block = SpillBlock(offset, data.size, checksum, rows, table.nbytes, table.schema)
        telemetry.emit("spill.write", rows=block.rows, bytes=block.nbytes, file_bytes=data.size)
        if self._account is not None:
            self._account.note_full()
        self._give_back_after(block.nbytes)
        return block

    def read(self, block: SpillBlock) -> pa.Table:
        """Return a table that was written, after checking that it is what was written."""
        with self._lock:
            try:
                file = self._opened()
                data = _read_whole(file, block.offset, block.length)
            except (OSError, ValueError) as error:
                raise self._failed("read", error) from error
        if len(data) != block.length or _checksum(data) != block.checksum:
            raise self._damaged(block)
        choices = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.ipc.open_stream(pa.py_buffer(data), options=choices) as reader:
            table = reader.read_all()
        if table.num_rows != block.rows or not table.schema.equals(block.schema):
            raise self._damaged(block)
        telemetry.emit("spill.read", rows=block.rows, bytes=block.nbytes, file_bytes=len(data))
        self._give_back_after(block.nbytes)
        return table

    def close(self) -> None:
        """Give the space back; may be called twice."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _give_back_after(self, size: int) -> None:
        if self._account is not None and self._account.passes(size):
            give_back()

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            # Unbuffered: tables are long, and a buffer would only copy them once more.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115
                prefix="tessel-spill-", dir=self._directory or None, buffering=0
            )
        return self._file

    def _failed(self, what: str, error: Exception) -> SpillError:
        place = self._directory or tempfile.gettempdir()
        return SpillError(
            f"what does not fit in memory cannot be {what} in {place!r}: {error}",
            hint="name a directory with room: options(spill_directory=...), or "
            "TESSEL_SPILL_DIRECTORY; or let more be in memory: options(live_bytes=...)",
            directory=place,
        )

    def _damaged(self, block: SpillBlock) -> SpillError:
        return SpillError(
            f"a table of {block.rows} rows that was put aside came back damaged",
            hint="run the query again; if it happens again, the disk of the temporary directory "
            "is not to be trusted: options(spill_directory=...) names another",
            directory=self._directory or tempfile.gettempdir(),
        )


def _checksum(data: bytes | pa.Buffer) -> int:
    return int(google_crc32c.value(data))


def _write_whole(file: IO[bytes], offset: int, data: pa.Buffer) -> None:
    file.seek(offset)
    rest = memoryview(data)
    while rest:  # the system writes at most two gigabytes at a time
        rest = rest[file.write(rest) :]


def _read_whole(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)
    parts = []
    while length:
        parts.append(file.read(length))
        if not parts[-1]:
            break  # what is too short does not pass the checks
        length -= len(parts[-1])
    return parts[0] if len(parts) == 1 else b"".join(parts)

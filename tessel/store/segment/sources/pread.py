"""Reads files by ``pread`` in threads: for disks that take their time, or that one does not trust.

Cold drives and network mounts gain from reads in parallel, and a file that is cut short while it is
read is an error here, where under a map it would end the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from tessel.errors import OptionError, StoreError
from tessel.store.objects.base import short_object
from tessel.store.objects.local import LocalObjects
from tessel.store.segment.sources.base import (
    LOCAL,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)
from tessel.store.segment.sources.files import FileCache, OpenFiles, open_object
from tessel.store.segment.sources.workers import ReadWorkers

__all__ = ["PreadSource"]

_TASK_BYTES: Final = 4 * 1024 * 1024


class _File:
    """An open file, closed when the last that uses it is done."""

    __slots__ = ("descriptor", "size")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def __del__(self) -> None:
        os.close(self.descriptor)


_cache: Final[FileCache[_File]] = FileCache(32)
"""Of all sources together: a process may have as few as 256 descriptors (macOS)."""


class PreadSource:
    """Copies of ranges, read in threads.

    Parameters
    ----------
    objects
        A store on a local disk.
    threads
        Reads in parallel.
    limits
        How requests are put together.

    Raises
    ------
    OptionError
        For fewer than one thread.
    """

    kind: ClassVar[str] = "pread"

    def __init__(
        self, objects: LocalObjects, *, threads: int = 8, limits: CoalesceLimits = LOCAL
    ) -> None:
        if threads < 1:
            raise OptionError(f"files are read by 1 thread or more, not by {threads}")
        self._root = objects.uri
        self._files: OpenFiles[_File] = OpenFiles(self._open, _cache)
        self._workers = ReadWorkers(threads, "tessel-pread")
        self.limits = limits

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Read the ranges; small ones share a thread, so that each is worth it."""
        names = [ranges.names[at] for at in ranges.object.tolist()]
        starts, ends = ranges.start.tolist(), ranges.end.tolist()
        return self._workers.run(
            [
                [partial(self._read, names[at], starts[at], ends[at]) for at in group]
                for group in _groups(starts, ends, self._workers.threads)
            ]
        )

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return self._files.get(name).size

    def close(self) -> None:
        """End the threads and close the files."""
        self._workers.close()
        self._files.clear()

    def _open(self, name: str) -> _File:
        return _File(open_object(self._root, name))

    def _read(self, name: str, start: int, end: int) -> pa.Buffer:
        file, length = self._files.get(name), end - start
        if start < 0 or length < 0 or end > file.size:
            raise short_object(name, start, length, file.size)
        buffer = pa.allocate_buffer(length)
        rest = memoryview(buffer).cast("B")
        while len(rest):
            try:
                count = os.preadv(file.descriptor, [rest], end - len(rest))
            except OSError as error:
                raise StoreError(
                    f"could not read object {name!r}: {error.strerror or error}",
                    object=name,
                    errno=error.errno,
                ) from error
            if count == 0:
                size = end - len(rest)
                raise short_object(name, start, length, size)
            rest = rest[count:]
        return buffer


def _groups(starts: list[int], ends: list[int], threads: int) -> Iterator[list[int]]:
    """Cut ranges into about one group a thread."""
    most = -(-len(starts) // threads)
    group: list[int] = []
    total = 0
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        length = end - start
        if group and (len(group) == most or total + length > _TASK_BYTES):
            yield group
            group, total = [], 0
        group.append(at)
        total += length
    if group:
        yield group

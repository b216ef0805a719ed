"""Sources that make requests in threads: of files, by ``pread``, and of any object store.

Cold drives and network mounts gain from reads in parallel, and a file that is cut short while it is
read is an error here, where under a map it would end the process. Requests of an object store take
their time, so many are in flight.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

import pyarrow as pa

from tessel.errors import OptionError
from tessel.forking import after_fork
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore, short_object
from tessel.store.objects.local import LocalObjects, object_failed, open_object
from tessel.store.objects.mapped import file_bytes
from tessel.store.segment.sources.base import (
    LOCAL,
    REMOTE,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)
from tessel.store.segment.sources.views import OpenFiles


class ReadWorkers:
    """A pool of threads that read.

    Threads are started as they are needed. Handing reads over costs tens of microseconds, so they
    should be worth about a millisecond.

    Parameters
    ----------
    threads
        How many groups of reads run at a time, beside those of the threads that ask.
    name
        How the threads are called.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.threads = threads
        self._name = name
        self._renew()
        after_fork(self, ReadWorkers._renew)

    def _renew(self) -> None:
        """Begin without threads; those of the parent are not in a forked child."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def run(self, groups: Sequence[Sequence[Callable[[], pa.Buffer]]]) -> list[ReadAnswer]:
        """Read, and give the bytes or the error of each read of all groups.

        The thread that asks has to wait, so it reads the last group itself: most touches are one
        request, which then crosses no thread. The main thread does not, since a read in native code
        would keep Ctrl-C waiting.

        Parameters
        ----------
        groups
            Reads of one group run one after another.
        """
        is_main = threading.current_thread() is threading.main_thread()
        handed = groups if is_main else groups[:-1]
        futures: list[Future[list[ReadAnswer]]] = []
        if handed:
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix=self._name)
                futures = [self._pool.submit(_answers, group) for group in handed]
        own = [answer for group in groups[len(handed) :] for answer in _answers(group)]
        return [answer for future in futures for answer in future.result()] + own


def _answers(group: Sequence[Callable[[], pa.Buffer]]) -> list[ReadAnswer]:
    found: list[ReadAnswer] = []
    for read in group:
        try:
            found.append(read())
        except Exception as error:
            found.append(error)
    return found


_TASK_BYTES: Final = 4 * 1024 * 1024


class _File:
    """An open file, closed when the last that uses it is done."""

    __slots__ = ("descriptor", "size")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def __del__(self) -> None:
        os.close(self.descriptor)


_cache: Final[LruCache[tuple[int, str], _File]] = LruCache(32)
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

    def __init__(
        self, objects: LocalObjects, *, threads: int = 8, limits: CoalesceLimits = LOCAL
    ) -> None:
        if threads < 1:
            raise OptionError(f"files are read by 1 thread or more, not by {threads}")
        root = objects.uri
        self._files = OpenFiles(lambda name: _File(open_object(root, name)), _cache)
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

    def _read(self, name: str, start: int, end: int) -> pa.Buffer:
        file, length = self._files.get(name), end - start
        if start < 0 or length < 0 or end > file.size:
            raise short_object(name, start, length, file.size)
        try:
            found = file_bytes(file.descriptor, start, length, mapped=False)
        except OSError as error:
            raise object_failed("read", name, error) from error
        if found.size != length:
            raise short_object(name, start, length, start + found.size)
        return found


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


class ObjectStoreSource:
    """One ``get_range`` per range, in threads; the store itself refuses ranges it does not have.

    Parameters
    ----------
    objects
        Any store.
    in_flight
        Requests at a time.
    limits
        How requests are put together.

    Raises
    ------
    OptionError
        For fewer than one request at a time.
    """

    def __init__(
        self, objects: ObjectStore, *, in_flight: int = 64, limits: CoalesceLimits = REMOTE
    ) -> None:
        if in_flight < 1:
            raise OptionError(f"a store answers 1 request at a time or more, not {in_flight}")
        self._objects = objects
        self._workers = ReadWorkers(in_flight, "tessel-get")
        self.limits = limits

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Make one request per range."""
        places = zip(
            ranges.object.tolist(), ranges.start.tolist(), ranges.end.tolist(), strict=True
        )
        return self._workers.run(
            [[partial(self._get, ranges.names[at], start, end)] for at, start, end in places]
        )

    def _get(self, name: str, start: int, end: int) -> pa.Buffer:
        if start < 0 or end < start:
            raise short_object(name, start, end - start, 0)
        found = self._objects.get_range(name, start, end - start)
        if found.size != end - start:
            raise short_object(name, start, end - start, start + found.size)
        return found

"""The source that makes requests in threads: of any object store, and of files by ``pread``.

Requests of an object store take their time, so many are in flight. Cold drives and network mounts
gain from reads in parallel, and a file that is cut short while it is read is an error here, where
under a map it would end the process.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from tessel.errors import OptionError
from tessel.forking import after_fork
from tessel.store.objects.base import ObjectStore, short_object
from tessel.store.segment.sources.base import REMOTE, ByteRanges, CoalesceLimits, ReadAnswer


class ObjectStoreSource:
    """One ``get_range`` per range, in threads; the store itself refuses ranges it does not have.

    Threads are started as they are needed.

    Raises OptionError for fewer than one request at a time.

    Parameters
    ----------
    in_flight
        Requests at a time, beside those of the threads that ask.
    """

    def __init__(
        self, objects: ObjectStore, *, in_flight: int = 64, limits: CoalesceLimits = REMOTE
    ) -> None:
        if in_flight < 1:
            raise OptionError(f"a store answers 1 request at a time or more, not {in_flight}")
        self._objects = objects
        self._in_flight = in_flight
        self.limits = limits
        self._renew()
        after_fork(self, ObjectStoreSource._renew)

    def _renew(self) -> None:
        """Begin without threads; those of the parent are not in a forked child."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Make one request per range.

        The thread that asks has to wait, so it makes the last request itself: most touches are one
        request, which then crosses no thread. The main thread does not, since a read in native code
        would keep Ctrl-C waiting.
        """
        names = [ranges.names[at] for at in ranges.object.tolist()]
        places = list(zip(names, ranges.start.tolist(), ranges.end.tolist(), strict=True))
        is_main = threading.current_thread() is threading.main_thread()
        own = places[len(places) if is_main else -1 :]
        handed: Any = ()
        if len(places) > len(own):
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self._in_flight, "tessel-get")
                handed = self._pool.map(self._answer, places[: len(places) - len(own)])
        answers = [self._answer(place) for place in own]
        return [*handed, *answers]

    def _answer(self, place: tuple[str, int, int]) -> ReadAnswer:
        try:
            return self._get(*place)
        except Exception as error:
            return error

    def _get(self, name: str, start: int, end: int) -> pa.Buffer:
        if start < 0 or end < start:
            raise short_object(name, start, end - start, 0)
        found = self._objects.get_range(name, start, end - start)
        if found.size != end - start:
            raise short_object(name, start, end - start, start + found.size)
        return found

"""Threads that read, and that a forked child starts anew.

Sources that wait for a disk or a network enter here.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pyarrow as pa

from tessel.store.segment.sources.base import ReadAnswer

__all__ = ["ReadWorkers"]

_all: weakref.WeakSet[ReadWorkers] = weakref.WeakSet()


class ReadWorkers:
    """A pool of threads that can be closed while reads wait.

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
        _all.add(self)

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
        found: list[ReadAnswer] = []
        for future, group in zip(futures, handed, strict=True):
            try:
                found += future.result()
            except CancelledError as error:
                found += [error] * len(group)
        return found + own

    def close(self) -> None:
        """Cancel what was not started, and wait for what was."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _answers(group: Sequence[Callable[[], pa.Buffer]]) -> list[ReadAnswer]:
    found: list[ReadAnswer] = []
    for read in group:
        try:
            found.append(read())
        except Exception as error:
            found.append(error)
    return found


def _after_fork() -> None:
    for workers in list(_all):
        workers._renew()


os.register_at_fork(after_in_child=_after_fork)

"""Threads that read, and that a forked child starts anew.

Sources that wait for a disk or a network enter here.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from tessel.lazy import dataclass

__all__ = ["ReadTask", "ReadWorkers"]

_all: weakref.WeakSet[ReadWorkers] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, eq=False)
class ReadTask:
    """Something to read: ``run`` gives each of the futures a result or an error."""

    run: Callable[[], None]
    futures: Sequence[Future[pa.Buffer]]


class ReadWorkers:
    """A pool of threads that can be closed while tasks wait.

    Threads are started as they are needed. Handing a task over costs tens of microseconds, so it
    should be worth about a millisecond.

    Parameters
    ----------
    threads
        How many tasks run at a time.
    name
        How the threads are called.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.threads = threads
        self._name = name
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        """Begin without tasks and threads; those of the parent are not in a forked child."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._tasks: deque[ReadTask] = deque()

    def submit(self, task: ReadTask) -> None:
        """Run a task, after those that wait already."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix=self._name)
            self._tasks.append(task)
            self._pool.submit(self._run_first)

    def _run_first(self) -> None:
        with self._lock:
            if not self._tasks:
                return
            task = self._tasks.popleft()
        try:
            task.run()
        except BaseException as error:
            for future in task.futures:
                if not future.done():
                    future.set_exception(error)

    def close(self) -> None:
        """Cancel what was not started, and wait for what was."""
        with self._lock:
            pool, self._pool = self._pool, None
            left, self._tasks = self._tasks, deque()
        for task in left:
            for future in task.futures:
                future.cancel()
        if pool is not None:
            pool.shutdown(wait=True)


def _after_fork() -> None:
    for workers in list(_all):
        workers._renew()


os.register_at_fork(after_in_child=_after_fork)

"""Cancelling work that is under way: one flag a run, which all loops look at between blocks.

The flag travels in a :mod:`contextvars` variable,
from a job to the threads of its query. Ctrl-C needs none in the thread that it reaches; the pool of
the query sets its own for the others.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from tessel.closing import scoped
from tessel.errors import CancelledError

__all__ = [
    "CancelFlag",
    "ThreadPool",
    "check_cancelled",
    "current_flag",
    "run_ahead",
]

P = ParamSpec("P")
T = TypeVar("T")


class CancelFlag:
    """Whether a run is to end; set from any thread, once and for all.

    Parameters
    ----------
    parent
        A flag that counts as well: of the job that a query is of.
    """

    __slots__ = ("_is_set", "_parent")

    def __init__(self, parent: CancelFlag | None = None) -> None:
        self._is_set = False
        self._parent = parent

    def set(self) -> None:
        """End the run at the next look at the flag."""
        self._is_set = True

    @property
    def is_set(self) -> bool:
        """Whether the run is to end."""
        return self._is_set or (self._parent is not None and self._parent.is_set)

    def watched(self) -> contextlib.AbstractContextManager[object]:
        """Let loops of the block, also in the tasks that it starts, look at this flag."""
        return scoped(_flag, self)


_flag: ContextVar[CancelFlag | None] = ContextVar("tessel_cancel", default=None)


def current_flag() -> CancelFlag | None:
    """Return the flag of the run that the caller is part of; None where nobody can set one."""
    return _flag.get()


def check_cancelled() -> None:
    """Raise where the run that the caller is part of was cancelled.

    Raises
    ------
    CancelledError
        Which ends the run.
    """
    flag = _flag.get()
    if flag is not None and flag.is_set:
        raise CancelledError.of_run()


class ThreadPool(ThreadPoolExecutor):
    """Threads of a block, whose tasks are part of the run of whoever starts them, with its options.

    What they have not begun when the block fails or is interrupted, they drop.
    """

    def submit(self, work: Callable[P, T], /, *given: P.args, **named: P.kwargs) -> Future[T]:
        """Begin a task, as soon as a thread has none."""
        run = functools.partial(work, *given, **named)
        return super().submit(contextvars.copy_context().run, run)

    def __exit__(self, *error: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


def run_ahead(pool: ThreadPoolExecutor, tasks: Iterable[Callable[[], T]], most: int) -> Iterator[T]:
    """Return what tasks return, in their order; at most so many run, or wait to be taken."""
    begun: deque[Future[T]] = deque()
    for task in tasks:
        begun.append(pool.submit(task))
        if len(begun) >= most:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()

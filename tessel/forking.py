"""What lives across a fork: a child has objects whole, and locks that nobody holds.

A thread of the parent may be in the middle of something when another one forks. In the child that
thread is gone: what it held would stay locked, and what it had begun would stay half done. So an
object that holds locks, threads, files or connections says here how it is renewed in a child. Where
half of a change must not be seen, who forks also waits until its lock is free, and holds all such
locks until the child is there.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["ChildSafeLock", "after_fork"]

Known = TypeVar("Known")
LockOf = Callable[[Any], threading.RLock]

_known: weakref.WeakKeyDictionary[Any, tuple[Callable[[Any], object], LockOf | None]] = (
    weakref.WeakKeyDictionary()
)
_held = threading.local()


def after_fork(
    each: Known,
    renew: Callable[[Known], object],
    *,
    lock_of: Callable[[Known], threading.RLock] | None = None,
) -> None:
    """Call ``renew(each)`` in every forked child, for as long as the object lives.

    With ``lock_of`` what writers hold is acquired before a fork, so that no child gets half of what
    an object was being given.
    """
    _known[each] = renew, lock_of


class ChildSafeLock:
    """A lock, which a thread may acquire again, that nobody holds in a forked child."""

    def __init__(self) -> None:
        self._renew()
        after_fork(self, ChildSafeLock._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _before() -> None:
    if "pyarrow" in sys.modules:
        # Arrow's first conversion in a process imports what it needs, under a lock of its own: a
        # child would wait for ever for a thread that is in the middle of it.
        from tessel.arrays import arrow_array

        arrow_array([0.0])
    locks = [lock_of(each) for each, (_, lock_of) in list(_known.items()) if lock_of is not None]
    _acquire_all(locks)
    _held.locks = locks


def _acquire_all(locks: Sequence[threading.RLock]) -> None:
    """Acquire all locks, and wait for one only while no other is held: then nobody waits for us."""
    waited_for = 0
    while locks:
        locks[waited_for].acquire()
        for at, lock in enumerate(locks):
            if at != waited_for and not lock.acquire(blocking=False):
                for taken in (locks[waited_for], *(locks[n] for n in range(at) if n != waited_for)):
                    taken.release()
                waited_for = at
                break
        else:
            return


def _after_in_parent() -> None:
    for lock in _held.__dict__.pop("locks", ()):
        lock.release()


def _after_in_child() -> None:
    _held.__dict__.pop("locks", None)
    for each, (renew, _) in list(_known.items()):
        renew(each)


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)

"""Live stores across a fork: a child sees each of them whole, and can write to its copy.

A thread of the parent may be in the middle of an insert when another one forks. In the child that
thread is gone: what it held would stay locked, and what it had begun would stay half done. So who
forks waits until no store is being written to, and holds all of them until the child is there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from tessel.arrays import arrow_array

__all__ = ["Forked", "finish_preparations", "keep_whole"]


class Forked(Protocol):
    """What is held while a process forks."""

    def lock_for_fork(self) -> threading.RLock:
        """Return what writers hold."""

    def begin_in_child(self) -> None:
        """Take up work in the child: the lock is new, files and threads are the parent's."""


_known: weakref.WeakSet[Forked] = weakref.WeakSet()
_held = threading.local()


def keep_whole(store: Forked) -> None:
    """See to it that no child gets half of what a store was being given."""
    _known.add(store)


def finish_preparations() -> None:
    """Return when no other thread is in the middle of Arrow's first conversion in this process.

    It imports what it needs then, under a lock of its own, which a child would wait for for ever.
    """
    arrow_array([0.0])


def _before() -> None:
    if _known:
        finish_preparations()
    locks = [store.lock_for_fork() for store in list(_known)]
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
    for store in list(_known):
        store.begin_in_child()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)

"""An advisory lock for writers that keep losing; nothing but fairness depends on it.

A writer that has lost many commits in a row asks for the lock. On a local disk it is a lock of a
file (``flock``), which ends with the process that has it; elsewhere writers pause at random.
A writer that does not get the lock in time goes on without it: the log alone decides who wins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import TEMPORARY, LocalObjects

_LONGEST_WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.5


@runtime_checkable
class SupportsAdvisoryLock(Protocol):
    """An object store with an advisory lock of its own.

    Without one, a local disk uses a lock file, and other stores a random pause.
    """

    def advisory_lock(self, name: str) -> AbstractContextManager[None]:
        """Return a context that waits for the lock of that name, or gives up after a while."""


def advisory_lock(objects: ObjectStore, name: str) -> AbstractContextManager[None]:
    """Return a context that waits for a lock and has it; ``name`` is lower-case letters."""
    if isinstance(objects, SupportsAdvisoryLock):
        return objects.advisory_lock(name)
    if isinstance(objects, LocalObjects):
        return _locked(os.path.join(objects.uri, TEMPORARY, f"turn-{name}"))
    return _paused()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            descriptor = None
        if descriptor is not None:
            stack.callback(os.close, descriptor)  # which ends the lock
            _wait_for_lock(descriptor)
        yield


def _wait_for_lock(descriptor: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(random.uniform(0, 2 * _POLL_SECONDS))
        except OSError:
            return  # a file system without locks
        else:
            return


@contextlib.contextmanager
def _paused() -> Iterator[None]:
    time.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))
    yield

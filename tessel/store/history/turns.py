"""Turns for writers that keep losing: advisory, so that nothing depends on them but fairness.

A writer that has lost many times in a row asks for a turn. On a local disk that is a lock of a
file (``flock``), which ends with the process that holds it; elsewhere writers only wait longer.
Whoever does not get a turn in time goes on without one: the log alone decides who wins.
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

__all__ = ["SupportsTurns", "turn"]

_LONGEST_WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.5


@runtime_checkable
class SupportsTurns(Protocol):
    """Objects that have a way of their own to let writers take turns.

    Without it, a local disk uses a lock file, and other places a random pause.
    """

    def advisory_turn(self, name: str) -> AbstractContextManager[None]:
        """Return what holds the turn of that name, or gives up after a while."""


def turn(objects: ObjectStore, name: str) -> AbstractContextManager[None]:
    """Return what waits for a turn and holds it; ``name`` is lower-case letters."""
    if isinstance(objects, SupportsTurns):
        return objects.advisory_turn(name)
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

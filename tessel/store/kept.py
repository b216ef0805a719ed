"""Keeping a bounded number of things that were read or made and never change."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

__all__ = ["Kept", "KeptBytes"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The things used last, by key; safe to use from several threads and after a fork.

    It has no lock, which a fork could leave locked: each step is one call of a built-in type.

    Parameters
    ----------
    most
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """Return what is kept for a key; None where nothing is."""
        found = self._found.get(key)
        if found is not None:
            try:  # noqa: SIM105  single rows are looked up by the thousand, and this costs nothing
                self._found.move_to_end(key)
            except KeyError:  # another thread has dropped it
                pass
        return found

    def keep(self, key: K, value: V) -> None:
        """Keep something, and drop what was not used for longest if there is too much."""
        self._found[key] = value
        with contextlib.suppress(KeyError):  # other threads have dropped as much
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return what is kept for a key, made now where nothing is; threads may make it twice."""
        found = self.get(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found


class KeptBytes(Generic[K, V]):
    """The things used last, by key, up to so many bytes; those not used for longest are let go.

    Safe to use from several threads, and after a fork: a child begins with what its parent had.
    Who asks holds what he got, so that readers and evictions need not agree.

    Parameters
    ----------
    most_bytes
        Of all things together.
    size
        Returns the bytes of one.
    """

    def __init__(self, most_bytes: int, size: Callable[[V], int]) -> None:
        self.most_bytes = most_bytes
        self._size = size
        self._lock = threading.Lock()
        self._found: OrderedDict[K, V] = OrderedDict()
        self._bytes = 0
        _by_bytes.add(self)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return self._bytes

    def get(self, key: K) -> V | None:
        """Return what is kept for a key, and count that as a use of it; None where nothing is."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> bool:
        """Keep something; return False for what is larger than all that may be kept."""
        size = self._size(value)
        with self._lock:
            before = self._found.pop(key, None)
            if before is not None:
                self._bytes -= self._size(before)
            if size > self.most_bytes:
                return False
            self._found[key] = value
            self._bytes += size
            while self._bytes > self.most_bytes:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= self._size(oldest)
        return True

    def clear(self) -> None:
        """Let everything go."""
        with self._lock:
            self._found.clear()
            self._bytes = 0

    def renew_lock(self) -> None:
        """Make the lock anew, in a child process: nobody there will release that of the parent.

        A thread of the parent may have been at work; then what is kept is not to be trusted.
        """
        if self._lock.locked():
            self._found = OrderedDict()
            self._bytes = 0
        self._lock = threading.Lock()


_by_bytes: weakref.WeakSet[KeptBytes[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for kept in list(_by_bytes):
        kept.renew_lock()


os.register_at_fork(after_in_child=_after_fork)

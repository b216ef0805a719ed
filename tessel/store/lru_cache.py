"""LRU caches, bounded by entries or by bytes, of values that never change."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tessel.forking import after_fork

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """An LRU cache of so many entries; safe to use from several threads and after a fork.

    It has no lock, which a fork could leave locked: each step is one call of a built-in type.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """Return the value of a key, and count that as a use of it; None where it is not cached."""
        found = self._found.get(key)
        if found is not None:
            try:  # noqa: SIM105  single rows are looked up by the thousand, and this costs nothing
                self._found.move_to_end(key)
            except KeyError:  # another thread has dropped it
                pass
        return found

    def put(self, key: K, value: V) -> bool:
        """Cache a value, and evict the least recently used entries that are too many."""
        self._found[key] = value
        with contextlib.suppress(KeyError):  # other threads have dropped as much
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return True

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made now if it is not cached; threads may make it twice."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def drop(self, is_dropped: Callable[[K], bool]) -> None:
        """Evict the entries of which the keys say so."""
        for key in filter(is_dropped, list(self._found)):
            self._found.pop(key, None)


class ByteLruCache(LruCache[K, V]):
    """An LRU cache of so many bytes, which are counted under a lock.

    A child begins with the entries of its parent. A caller has a reference to the value that it
    got, so evictions need not wait for it.

    Parameters
    ----------
    most_bytes
        Of all values together.
    """

    def __init__(self, most_bytes: int, size: Callable[[V], int]) -> None:
        super().__init__(most_bytes)
        self.most_bytes = most_bytes
        self._size = size
        self._lock = threading.Lock()
        self._bytes = 0
        after_fork(self, ByteLruCache.renew_lock)

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self._bytes

    def put(self, key: K, value: V) -> bool:
        """Cache a value; return False for one that is larger than the whole cache may be."""
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
        """Evict everything."""
        with self._lock:
            self._found.clear()
            self._bytes = 0

    def renew_lock(self) -> None:
        """Make the lock anew, in a child process: nobody there will release that of the parent.

        A thread of the parent may have been at work; then the entries are not to be trusted.
        """
        if self._lock.locked():
            self._found = OrderedDict()
            self._bytes = 0
        self._lock = threading.Lock()

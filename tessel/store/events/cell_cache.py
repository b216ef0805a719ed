"""Cells that were read of a saved recording, kept while the memory granted to them lasts.

What is kept are pages, the units in which the store reads. Who asks holds what he got: a page that
is let go meanwhile lives until he is done with it, so that readers and evictions need not agree.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict

import pyarrow as pa

from tessel.errors import InvalidInputError

__all__ = ["CellCache", "CellKey"]

CellKey = tuple[int, int]
"""Number of a column, counted in its recording; first row of the page in the symbol."""


class CellCache:
    """Pages of cells by key, up to so many bytes; those not used for longest are let go.

    Safe to use from several threads, and after a fork.

    Parameters
    ----------
    budget_bytes
        Of all pages together, as Arrow arrays.

    Raises
    ------
    InvalidInputError
        For a budget that is no number of bytes.
    """

    def __init__(self, budget_bytes: int) -> None:
        if isinstance(budget_bytes, bool) or not isinstance(budget_bytes, int) or budget_bytes < 0:
            raise InvalidInputError(
                f"a budget of {budget_bytes!r} bytes for cells",
                hint="give a whole number from 0 on; with 0 nothing is kept",
            )
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[CellKey, pa.Array] = OrderedDict()
        self._bytes = 0
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def nbytes(self) -> int:
        """Bytes of the pages that are kept."""
        return self._bytes

    def get(self, key: CellKey) -> pa.Array | None:
        """Return a page, and count that as a use of it."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: CellKey, page: pa.Array) -> bool:
        """Keep a page; return False for one that is larger than all that may be kept."""
        size = page.nbytes
        if size > self.budget_bytes:
            return False
        with self._lock:
            before = self._found.pop(key, None)
            if before is not None:
                self._bytes -= before.nbytes
            self._found[key] = page
            self._bytes += size
            while self._bytes > self.budget_bytes:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= oldest.nbytes
        return True

    def clear(self) -> None:
        """Let all pages go."""
        with self._lock:
            self._found.clear()
            self._bytes = 0

    def renew_lock(self) -> None:
        """Make the lock anew, in a child process: nobody there will release that of the parent.

        A thread of the parent may have been at work; then the pages are not to be trusted.
        """
        if self._lock.locked():
            self._found = OrderedDict()
            self._bytes = 0
        self._lock = threading.Lock()


_caches: weakref.WeakSet[CellCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_caches):
        cache.renew_lock()


os.register_at_fork(after_in_child=_after_fork)

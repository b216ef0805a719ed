"""Pages that were unpacked for single rows, kept while memory for them lasts.

Random access enters here. A row of a compressed page costs the decompression of all of it, one of a
running sum all the sums before it, and the next row is often in a page that was asked for before.
Scans keep nothing: they come by once.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final

import numpy as np

from tessel.store.encodings.base import Page
from tessel.store.encodings.codes import EncodingCode
from tessel.store.encodings.registry import encoding_by_code

__all__ = ["UNPACKED", "PageKey", "UnpackedPages", "is_running", "summed"]

PageKey = tuple[int, int, int]
"""Number of an opened segment, counted in the process; physical column; page."""


def is_running(page: Page) -> bool:
    """Return whether a value of a page is a sum over all values before it."""
    held = page.inner if page.encoding == EncodingCode.SCALED else page.encoding
    return held == EncodingCode.DELTA


def summed(page: Page) -> Page:
    """Return a page of running sums with its values as they are, to be found one by one."""
    values = encoding_by_code(page.encoding).decode(page, 0, page.length).data
    start = page.starts[0]
    payload = np.concatenate((page.payload[:start], values.view(np.uint8)))
    end = len(payload)
    return replace(
        page, encoding=int(EncodingCode.FLAT), payload=payload, starts=(start, end, end, end)
    )


class UnpackedPages:
    """Pages by key, up to so many bytes; those not used for longest are let go.

    Safe to use from several threads. A child process begins with what its parent had.

    Parameters
    ----------
    most_bytes
        Of all payloads together.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[PageKey, Page] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._found)

    @property
    def nbytes(self) -> int:
        """Bytes of the payloads that are kept."""
        return self._bytes

    def get(self, key: PageKey) -> Page | None:
        """Return a page, and count that as a use of it."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: PageKey, page: Page) -> None:
        """Keep a page, unless it is larger than all that may be kept."""
        with self._lock:
            before = self._found.pop(key, None)
            if before is not None:
                self._bytes -= before.payload.nbytes
            if page.payload.nbytes > self.most_bytes:
                return
            self._found[key] = page
            self._bytes += page.payload.nbytes
            while self._bytes > self.most_bytes:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= oldest.payload.nbytes

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


UNPACKED: Final = UnpackedPages(64 << 20)
"""Of this process."""


os.register_at_fork(after_in_child=UNPACKED.renew_lock)

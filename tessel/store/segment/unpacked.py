"""The LRU cache of pages that were unpacked for single rows.

Random access enters here. A row of a compressed page costs the decompression of all of it, one of a
running sum all the sums before it, and the next row is often in a page that was read before. Scans
cache nothing: they read a page once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tessel.store.encodings.base import Page
from tessel.store.encodings.codes import EncodingCode
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.lru_cache import ByteLruCache

__all__ = ["UNPACKED", "PageKey", "is_running", "summed", "unpacked_pages"]

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


def unpacked_pages(most_bytes: int) -> ByteLruCache[PageKey, Page]:
    """Return a cache of pages whose payloads have at most so many bytes together."""
    return ByteLruCache(most_bytes, lambda page: page.payload.nbytes)


UNPACKED: Final = unpacked_pages(64 << 20)
"""Of this process."""

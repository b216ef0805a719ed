"""What a process remembers of pages: which were found sound, and some that it has unpacked.

Verifying costs a pass over the bytes and checking another; later reads would pay for them again
and again. What is remembered is one byte a page, by the place of objects and the segment in it;
objects never change. Random access also has an LRU cache of unpacked pages: a row of a compressed
page costs the decompression of all of it, one of a running sum all the sums before it, and the next
row is often in a page that was read before. Scans cache nothing: they read a page once.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from tessel.ecs.piece import SegmentKey
from tessel.forking import ChildSafeLock
from tessel.store.encodings.codes import EncodingCode
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import Page
from tessel.store.lru_cache import ByteLruCache
from tessel.store.objects.base import ObjectStore

SoundPages = npt.NDArray[np.bool_]
"""One flag a page: whether it was found sound. Setting one twice in a race does no harm."""

_found: weakref.WeakKeyDictionary[ObjectStore, dict[SegmentKey, SoundPages]]
_found = weakref.WeakKeyDictionary()
_lock = ChildSafeLock()


def sound_pages(objects: ObjectStore, key: SegmentKey, pages: int) -> SoundPages:
    """Return the flags of a segment's pages, all false the first time.

    Parameters
    ----------
    pages
        Records in all its page tables.
    """
    with _lock:
        known = _found.setdefault(objects, {})
        flags = known.get(key)
        if flags is None or len(flags) != pages:
            flags = known[key] = np.zeros(pages, np.bool_)
        return flags


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

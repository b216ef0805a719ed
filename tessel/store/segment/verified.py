"""Which pages were found sound in this process, so that each is looked at once.

Verifying costs a pass over the bytes and checking another; later reads would pay for them again
and again. What is remembered is one byte a page, by the place of objects and the segment in it;
objects never change.
"""

from __future__ import annotations

import os
import threading
import weakref

import numpy as np
import numpy.typing as npt

from tessel.ecs.components import SegmentKey
from tessel.store.objects.base import ObjectStore

__all__ = ["SoundPages", "sound_pages"]

SoundPages = npt.NDArray[np.bool_]
"""One flag a page: whether it was found sound. Setting one twice in a race does no harm."""

_found: weakref.WeakKeyDictionary[ObjectStore, dict[SegmentKey, SoundPages]]
_found = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def sound_pages(objects: ObjectStore, key: SegmentKey, pages: int) -> SoundPages:
    """Return the flags of a segment's pages, all false the first time.

    Parameters
    ----------
    objects, key
        The identity of the segment.
    pages
        Records in all its page tables.
    """
    with _lock:
        known = _found.setdefault(objects, {})
        flags = known.get(key)
        if flags is None or len(flags) != pages:
            flags = known[key] = np.zeros(pages, np.bool_)
        return flags


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)

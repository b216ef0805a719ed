"""Asking allocators to give free memory back to the system.

What Arrow, numpy and the decoder have freed is kept by their allocators for the next that asks: of
a query that puts tables aside that is as much again as what it holds. Who writes a spill file comes
here from time to time; it costs little beside a write, and queries that hold everything never do.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

import pyarrow as pa

__all__ = ["give_back"]


def give_back() -> None:
    """Let the allocators of this process give back what is free, as far as they can be asked."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``; None where the C library has none."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:
        return None

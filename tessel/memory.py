"""Memory for large arrays of numpy that was used before.

The first write to each page of fresh memory is a page fault, which takes longer than what kernels
do with the rows that the page holds. The allocator of C gives back what worker threads free, and
Arrow's pool keeps it for each thread: so queries of some milliseconds spent up to a third of their
time on page faults, or three times the memory. Kernels are built without Arrow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.forking import ChildSafeLock

_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 23
"""Of smaller blocks the allocator of C has some at hand; larger ones have larger pages."""
_MOST_KEPT = 1 << 25
_STEPS = 2
"""Sizes differ by a quarter of a power of two, so that arrays of nearly one size share blocks."""


def allocate(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array with arbitrary values in Arrow's memory pool, to become an Arrow array."""
    import pyarrow as pa

    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else math.prod(shape)
    if count == 0:
        return np.empty(shape, kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind, count).reshape(shape)


def recycled(shape: Any, dtype: Any, *, fill: Any = None) -> NDArray[Any]:
    """Return an array whose values are all ``fill``; without ``fill`` its values are arbitrary.

    It may be kept, like any array: its block is used again once nobody has a view of it.
    """
    kind = np.dtype(dtype)
    size = kind.itemsize * int(math.prod(shape) if isinstance(shape, tuple) else shape)
    if _LEAST_BYTES <= size <= _MOST_BYTES:
        unit = size.bit_length() - 1 - _STEPS
        block = _Lent.blocks.take(-(-size >> unit) << unit)
        found = np.asarray(_Lent(block, shape, kind))
    else:
        found = np.empty(shape, kind)
    if fill is not None:
        found.fill(fill)
    return found


class _Blocks:
    """Blocks that no array uses, by size; those of the size that was left last are at the end."""

    def __init__(self) -> None:
        self._lock = ChildSafeLock()
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._kept = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            blocks = self._free.get(size)
            if blocks:
                self._kept -= size
                return blocks.pop()
        return np.empty(size, np.uint8)

    def give_back(self, block: NDArray[np.uint8]) -> None:
        size = len(block)
        with self._lock:
            self._free[size] = [*self._free.pop(size, ()), block]
            self._kept += size
            while self._kept > _MOST_KEPT:
                oldest = next(iter(self._free))
                if self._free[oldest]:
                    self._free[oldest].pop()
                    self._kept -= oldest
                else:
                    del self._free[oldest]


class _Lent:
    """What an array has as its base, and each of its views: the last one gives the block back."""

    blocks = _Blocks()

    def __init__(self, block: NDArray[np.uint8], shape: Any, dtype: np.dtype[Any]) -> None:
        self._block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(map(int, shape if isinstance(shape, tuple) else (shape,))),
            "typestr": dtype.str,
            "data": (block.ctypes.data, False),
        }

    def __del__(self) -> None:
        self.blocks.give_back(self._block)

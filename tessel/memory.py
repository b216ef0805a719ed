"""Memory for large arrays of numpy that was used before.

The first write to each page of fresh memory is a page fault, which takes longer than what kernels
do with the rows that the page holds. The allocator of C gives back what worker threads free, and
Arrow's pool keeps it for each thread: so queries of some milliseconds spent up to a third of their
time on page faults, or three times the memory. Kernels are built without Arrow.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 23
"""Of smaller blocks the allocator of C has some at hand; larger ones have larger pages."""
_KEPT_OF_A_SIZE = 7 << 19
"""Bytes of free blocks of one size, one block at least: 31 MiB of all sizes together."""


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
        # Sizes are powers of two, so that arrays of nearly one size share blocks.
        found = np.asarray(_Lent((size - 1).bit_length(), shape, kind))
    else:
        found = np.empty(shape, kind)
    if fill is not None:
        found.fill(fill)
    return found


class _Loan(weakref.ref["_Lent"]):
    """Keeps a block while its array lives, and then lies among the free ones itself."""

    __slots__ = ("block",)
    block: NDArray[np.uint8]


class _Lent:
    """What an array has as its base, and each of its views: the last one gives the block back.

    No Python runs when an array ends: ``__del__`` would lose an interrupt that comes in it.
    """

    free: ClassVar[dict[int, deque[_Loan]]] = {
        power: deque(maxlen=max(_KEPT_OF_A_SIZE >> power, 1))
        for power in range(_LEAST_BYTES.bit_length() - 1, _MOST_BYTES.bit_length())
    }
    """What was given back, by the power of two that is its size; a full one lets its oldest go."""

    def __init__(self, power: int, shape: Any, dtype: np.dtype[Any]) -> None:
        free = self.free[power]
        try:
            block = free.pop().block
        except (IndexError, AttributeError):  # an interrupt can come before a loan has its block
            block = np.empty(1 << power, np.uint8)
        self._loan = _Loan(self, free.append)
        self._loan.block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(map(int, shape if isinstance(shape, tuple) else (shape,))),
            "typestr": dtype.str,
            "data": (block.ctypes.data, False),
        }

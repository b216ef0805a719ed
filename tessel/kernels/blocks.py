"""Blocks of rows of stored columns: bytes of a segment, and where the integers of a page lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.errors import CorruptSegmentError

__all__ = [
    "ALL_MISSING",
    "ALL_PRESENT",
    "SINGLE_BITS",
    "SINGLE_SCALED",
    "Gap",
    "StoredBlocks",
    "floats_of",
]

_EXPONENT = 5

SINGLE_BITS, SINGLE_SCALED = -2, 32
"""In place of an exponent, of singles: bits of 32; and what is added to that of scaled ones.

A scaled single is the double that the division gives, rounded once more.
"""

ALL_PRESENT, ALL_MISSING = -1, -2
"""In place of where a validity bitmap lies: no row, or every row, is null."""


class Gap:
    """What a line of :attr:`StoredBlocks.gaps` says of each page."""

    VALIDITY = 0
    """Where the Arrow bitmap of the rows that are not null lies in the data, or one of
    :data:`ALL_PRESENT` and :data:`ALL_MISSING`."""
    EXCEPTIONS = 1
    """How many values no integer stands for."""
    PLACES = 2
    """Where the rows of exceptions lie, ascending, unsigned."""
    PLACE_WIDTH = 3
    """Bits of one of them."""
    VALUES = 4
    """Where the exceptions lie, eight bytes each, or four of singles: the bits of floats."""
    NANS = 5
    """1 where a value may be NaN."""
    COUNT = 6


_POWERS = np.array([float(10**exponent) for exponent in range(23)])


@dataclass(frozen=True, eq=False)
class StoredBlocks:
    """Rows ``[start, stop)`` of columns of one segment that are all arithmetic and cut alike.

    The integer in row ``i`` of a page is ``base + step * i + (bits & mask)`` modulo 2**64.

    Attributes
    ----------
    data
        All bytes of the segment, uint8, read-only.
    facts
        int64, shape ``(6, columns, pages)``: by page where the first integer lies in ``data``, bits
        of an integer, mask, base, step, and the decimal exponent (negative: none, the bits are
        those of the value; of singles see :data:`SINGLE_BITS`).
    shift
        Row ``r`` is in page ``r >> shift``.
    start, stop
        Counted from the first row of the segment.
    gaps
        int64, shape ``(Gap.COUNT, columns, pages)``; None where no value is missing and an integer
        stands for each.
    """

    data: NDArray[np.uint8]
    facts: NDArray[np.int64]
    shift: int
    start: int
    stop: int
    gaps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def cut(self, start: int, stop: int) -> StoredBlocks:
        """Return other rows of the same columns, counted from the first of the segment."""
        return StoredBlocks(self.data, self.facts, self.shift, start, stop, self.gaps)

    @property
    def columns(self) -> tuple[Any, ...]:
        """What kernels take of the segment; see :data:`~tessel.kernels.block_loop.COLUMNS`."""
        gaps = _NO_GAPS if self.gaps is None else self.gaps
        return self.data, np.ascontiguousarray(self.facts), np.ascontiguousarray(gaps), self.shift

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What kernels take of the rows; see :data:`~tessel.kernels.block_loop.BLOCKS`."""
        return *self.columns, self.start, self.stop

    def exceptions(
        self, column: int, page: int, first: int, rows: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which of rows ``[first, first + rows)`` of a page no integer stands for.

        Returns
        -------
        numpy.ndarray, numpy.ndarray
            int64: the rows, counted from ``first``, and the bits of the floats, as doubles.
        """
        if self.gaps is None or not self.gaps[Gap.EXCEPTIONS, column, page]:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, count, start, width, values, _ = self.gaps[:, column, page].tolist()
        held = self.data[start : start + count * width // 8].view(f"<u{width // 8}")
        low, high = np.searchsorted(held.astype(np.int64), [first, first + rows]).tolist()
        if self.facts[_EXPONENT, column, page] >= SINGLE_SCALED:
            singles = self.data[values + 4 * low : values + 4 * high].view("<f4")
            bits = singles.astype(np.float64).view(np.int64)
        else:
            bits = self.data[values + 8 * low : values + 8 * high].view(np.int64)
        return held[low:high].astype(np.int64) - first, bits


_NO_GAPS = np.zeros((Gap.COUNT, 0, 0), np.int64)
_NO_GAPS.flags.writeable = False


def floats_of(integers: NDArray[np.int64], exponent: int) -> NDArray[np.float64]:
    """Return what integers of a page of floats stand for, by its exponent; maybe a view."""
    if exponent >= SINGLE_SCALED:
        found: NDArray[np.float64] = integers / _POWERS[exponent - SINGLE_SCALED]
        return found.astype(np.float32).astype(np.float64)
    if exponent >= 0:
        divided: NDArray[np.float64] = integers / _POWERS[exponent]
        return divided
    if exponent == SINGLE_BITS:
        return integers.astype(np.uint32).view(np.float32).astype(np.float64)
    return integers.view(np.float64)


def outside_of_bounds() -> CorruptSegmentError:
    """Return the error of a value that lies outside of what the page table says."""
    return CorruptSegmentError(
        "a value lies outside of the bounds that its page table says",
        hint="check the store (`tessel fsck`), and restore the segment from a copy",
    )

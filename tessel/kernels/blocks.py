"""Blocks of rows of stored columns: bytes of a segment, and where the integers of a page lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.errors import CorruptSegmentError
from tessel.lazy import dataclass

_START, _EXPONENT = 0, 5
_WORD_BITS = 64

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
    :data:`ALL_PRESENT` and :data:`ALL_MISSING`. Of structs, which bit of the data is set where the
    first of them is null."""
    EXCEPTIONS = 1
    """How many values no integer stands for."""
    PLACES = 2
    """Where the rows of exceptions lie, ascending, unsigned. Of texts, where their heap ends."""
    PLACE_WIDTH = 3
    """Bits of one of them."""
    VALUES = 4
    """Where the exceptions lie, eight bytes each, or four of singles: the bits of floats.

    Of texts, whose words are an offset and a length of 32 bits, where their heap begins.
    """
    NANS = 5
    """1 where a value may be NaN."""
    COUNT = 6


_POWERS = np.array([float(10**exponent) for exponent in range(23)])


@dataclass(frozen=True, eq=False)
class StoredBlocks:
    """Rows ``[start, stop)`` of columns of one segment that are all arithmetic and cut alike.

    The integer in row ``i`` of a page is ``base + step * i + (bits & mask)`` modulo 2**64.

    Or rows that lie as structs one behind the other, and columns that are their fields: where the
    bits of an integer, which is the distance from one to the next, are more than 64, the mask says
    where in the word the field lies, and ``-base`` is its sign bit, 0 where it has none. Only steps
    of programs know this form, and it is that of all pages of all columns.

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


def beside(parts: Sequence[StoredBlocks]) -> StoredBlocks | None:
    """Return the columns of several buffers as those of one; None where they are cut differently.

    The bytes stay where they are: what is said to hold all of them begins at the first buffer and
    ends behind the last one, and what lies between is no column's.

    Parameters
    ----------
    parts
        The same rows, counted alike from the first of their segments.
    """
    first = parts[0]
    shape = first.shift, first.start, first.stop, first.facts.shape[2]
    if any((p.shift, p.start, p.stop, p.facts.shape[2]) != shape for p in parts):
        return None
    if not all(map(_lies_inside, parts)):
        return None
    data, offsets = spanned([part.data for part in parts])
    facts = np.concatenate([part.facts for part in parts], axis=1)
    gaps = np.zeros((Gap.COUNT, *facts.shape[1:]), np.int64)
    gaps[Gap.VALIDITY] = ALL_PRESENT
    at = 0
    for part, offset in zip(parts, offsets, strict=True):
        own = slice(at, at + part.facts.shape[1])
        at = own.stop
        facts[_START, own] += offset
        if part.gaps is not None:
            gaps[:, own] = part.gaps
            gaps[Gap.VALIDITY, own] += np.where(part.gaps[Gap.VALIDITY] < 0, 0, offset)
            gaps[[Gap.PLACES, Gap.VALUES], own] += offset
    held = gaps if any(part.gaps is not None for part in parts) else None
    return StoredBlocks(data, facts, *shape[:3], held)


def spanned(buffers: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return all bytes from the first of some buffers to the last, and where each begins.

    What lies between two of them is nobody's, and is not to be looked at.
    """
    starts = [int(buffer.ctypes.data) for buffer in buffers]
    first = min(starts)
    end = max(start + buffer.nbytes for start, buffer in zip(starts, buffers, strict=True))
    span = _Span(buffers, first, end - first)
    return np.asarray(span), [start - first for start in starts]


def _lies_inside(blocks: StoredBlocks) -> bool:
    """Return whether all that is said to lie in the bytes does, a word behind integers included.

    Kernels hold to the ends of the bytes that they get; between two buffers there may be none.
    """
    pages = np.arange(blocks.start >> blocks.shift, (blocks.stop - 1 >> blocks.shift) + 1)
    rows = np.minimum(blocks.stop - (pages << blocks.shift), 1 << blocks.shift)
    start, width = blocks.facts[:2, :, pages]
    size = len(blocks.data)
    # What is far too large would pass 64 bits where it is multiplied.
    if ((width < 0) | (width > _WORD_BITS)).any():
        return False
    places = [(start, start + (rows * width + 7 >> 3) + 8)]
    if blocks.gaps is not None:
        validity, count, place, bits, value, _ = blocks.gaps[:, :, pages]
        places.append((np.maximum(validity, 0), np.where(validity < 0, 0, validity + (rows >> 3))))
        held = count > 0
        if (held & ((count > size) | (bits < 0) | (bits > _WORD_BITS))).any():
            return False
        places.append((np.where(held, place, 0), np.where(held, place + (count * bits >> 3), 0)))
        exponents = blocks.facts[_EXPONENT][:, pages]
        single = (exponents == SINGLE_BITS) | (exponents >= SINGLE_SCALED)
        ends = value + np.where(single, 4, 8) * count
        places.append((np.where(held, value, 0), np.where(held, ends, 0)))
    return all(bool(((low >= 0) & (low <= size) & (high <= size)).all()) for low, high in places)


class _Span:
    """Bytes from an address on; keeps alive the buffers that they are in."""

    def __init__(self, buffers: Sequence[NDArray[np.uint8]], address: int, size: int) -> None:
        self._buffers = buffers
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, True),
        }


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

"""Bitmaps: one bit a row, least significant first, 1 = present, as Arrow has them.

Whoever reads or writes slot 0 of a page enters here, and the flat encoding for its booleans. Only
this module knows how bits lie in bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import Bytes, Integers, Page

__all__ = [
    "bits_at",
    "bits_of",
    "check_validity",
    "count_ones",
]


def bits_of(bitmap: Bytes, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """Return bits ``[start, stop)`` as one bool each."""
    first = start >> 3
    bits = np.unpackbits(bitmap[first : (stop + 7) >> 3], bitorder="little")
    return bits[start - (first << 3) : stop - (first << 3)].view(np.bool_)


def bits_at(bitmap: Bytes, rows: Integers) -> npt.NDArray[np.bool_]:
    """Return the bits of ``rows`` as one bool each."""
    found: npt.NDArray[Any] = bitmap[rows >> 3]
    return ((found >> (rows & 7).astype(np.uint8)) & np.uint8(1)).view(np.bool_)


def count_ones(bitmap: Bytes, length: int) -> int:
    """Return how many of the first ``length`` bits are 1."""
    whole, rest = divmod(length, 8)
    ones = int(np.bitwise_count(bitmap[:whole]).sum(dtype=np.int64))
    if rest:
        ones += (int(bitmap[whole]) & ((1 << rest) - 1)).bit_count()
    return ones


def check_validity(page: Page) -> None:
    """Check slot 0 of a page against its record.

    Raises
    ------
    CorruptSegmentError
        When the bitmap is cut, or does not have ``null_count`` zeros.
    """
    bitmap = page.validity()
    if bitmap is None:
        if page.null_count not in (0, page.rows):
            raise page.damaged(
                f"{page.null_count} of {page.rows} rows are null, but not said which"
            )
        return
    if len(bitmap) < (page.rows + 7) // 8 or page.starts[0] < len(bitmap):
        raise page.damaged(f"its validity has too few bytes for {page.rows} rows")
    nulls = page.rows - count_ones(bitmap, page.rows)
    if nulls != page.null_count:
        raise page.damaged(f"{nulls} rows are null, where the record says {page.null_count}")

"""Values from many pages at once: one load from the bytes of the whole segment.

The ``gather`` of page encodings enters here. A page record a row says where in the segment that row
lies; segments are byte strings, so words are loaded from any place (Intel and ARM alike do that in
one go). A segment ends with its metadata, so a word that begins in a page ends in the segment.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import Bytes, Integers

__all__ = ["linear_in_segment", "load", "slot_places"]

_MASKS: Final = np.array([(1 << width) - 1 for width in range(65)], np.uint64)


def slot_places(records: npt.NDArray[np.void], slot: int) -> Integers:
    """Return where slot 1 to 4 of each page begins in the segment, int64."""
    places: Integers = records["offset"].view(np.int64) + records["starts"][:, slot - 1]
    return places


def load(segment: Bytes, places: Integers, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """Return one number from each place; None where one would reach past the segment."""
    kind = np.dtype(dtype)
    last = len(segment) - kind.itemsize
    if len(places) == 0:
        return np.empty(0, kind)
    if int(places.max()) > last or int(places.min()) < 0:
        return None
    view: npt.NDArray[Any] = np.ndarray((last + 1,), kind, segment, 0, (1,))
    found: npt.NDArray[Any] = view[places]
    return found


def linear_in_segment(
    segment: Bytes, records: npt.NDArray[np.void], rows: Integers
) -> npt.NDArray[np.uint64] | None:
    """Return ``base + step * row + residual[row]`` of each page, modulo 2**64.

    A packed stream of 8, 16, 32 or 64 bits is an array, so one formula serves every width;
    constants are forms without residuals.
    """
    widths = records["bit_width"].astype(np.int64)
    bits = rows * widths
    words = load(segment, slot_places(records, 1) + (bits >> 3), "<u8")
    if words is None:
        return None
    words >>= (bits & 7).astype(np.uint64)
    words &= _MASKS[widths]
    words += records["base"]
    words += records["step"] * rows.astype(np.uint64)
    return words

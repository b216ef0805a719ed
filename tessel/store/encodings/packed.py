"""Packed integers: unsigned integers of 0 to 57 bits, or 64, as a stream of bits.

Every encoding that keeps integers enters here. Widths of 8, 16, 32 and 64 bits are arrays, which
are read in place. Of the others, those of whole bytes (24, 40, 48 and 56 bits) are unpacked with
one strided view of wider words that overlap, and a mask. Any other width takes eight strided views:
eight integers of ``w`` bits take ``w`` bytes, so integer ``j`` of every group begins at the same
bit of a byte, and one view with stride ``w``, one shift and one mask find it in all groups at once.
That is why a stream is followed by eight bytes: the last view may look past it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.codes import PACKED_WIDTHS
from tessel.store.encodings.values import Bytes, Integers

WHOLE_WIDTHS: Final = frozenset({8, 16, 32, 64})
"""Widths in bits that are arrays."""

END_WIDTHS: Final = np.isin(np.arange(256), (8, 16, 32))
"""Whether a number is a legal width of run ends and positions of exceptions; indexed by it."""

_PAD_BYTES = 8
_GROUP = 8
_NO_BYTES: Final = np.empty(0, np.uint8)
_ILLEGAL: Final = np.where(np.isin(np.arange(256), sorted(PACKED_WIDTHS)), 0, -1)
_BEHIND: Final = np.array([0 if w in WHOLE_WIDTHS or not w else _PAD_BYTES for w in range(256)])
_MORE: Final = np.array([0 if w in WHOLE_WIDTHS else _GROUP - 1 for w in range(256)])
_WHOLE_GROUPS: Final = ~_MORE
_WORD_BITS = 64


def narrowest_width(largest: int) -> int:
    """Return the narrowest of 8, 16 and 32 bits that holds integers up to ``largest``."""
    return 8 if largest < 1 << 8 else 16 if largest < 1 << 16 else 32


def packed_size(count: int, width: int) -> int:
    """Return the bytes that ``count`` integers of ``width`` bits take."""
    if width in WHOLE_WIDTHS:
        return count * width // 8
    return -(-count // _GROUP) * width + _PAD_BYTES if width else 0


def packed_sizes(counts: Integers, widths: npt.NDArray[np.uint8]) -> Integers:
    """Return :func:`packed_size` of each pair; -1 where the width is none."""
    # Streams hold whole groups of eight integers, arrays hold any number.
    sizes: Integers = counts + _MORE.take(widths)
    sizes &= _WHOLE_GROUPS.take(widths)
    sizes *= widths
    sizes >>= 3
    sizes += _BEHIND.take(widths)
    # All bits of -1 are set, and none of 0.
    sizes |= _ILLEGAL.take(widths)
    return sizes


def pack(integers: npt.NDArray[np.uint64], width: int) -> npt.NDArray[Any]:
    """Return integers below ``2**width`` as bytes.

    Whole bytes are copied one place after the other. Other widths work on groups of 64 integers,
    which take ``width`` words: integer ``j`` of every group lies in the same one or two words.
    """
    if width == 0:
        return _NO_BYTES
    if width in WHOLE_WIDTHS:
        return integers.astype(f"<u{width // 8}")
    if width % 8 == 0:
        return _pack_bytes(integers, width // 8)
    groups = -(-len(integers) // _WORD_BITS)
    by_place = np.zeros((_WORD_BITS, groups), np.uint64)
    padded = np.zeros(groups * _WORD_BITS, np.uint64)
    padded[: len(integers)] = integers
    by_place[...] = padded.reshape(groups, _WORD_BITS).T
    words = np.zeros((width, groups), "<u8")
    for place in range(_WORD_BITS):
        word, shift = divmod(place * width, _WORD_BITS)
        words[word] |= by_place[place] << np.uint64(shift)
        if shift + width > _WORD_BITS:
            words[word + 1] |= by_place[place] >> np.uint64(_WORD_BITS - shift)
    stream = np.ascontiguousarray(words.T).view(np.uint8).reshape(-1)
    packed = np.zeros(packed_size(len(integers), width), np.uint8)
    held = min(len(packed) - _PAD_BYTES, len(stream))
    packed[:held] = stream[:held]
    return packed


def _pack_bytes(integers: npt.NDArray[np.uint64], item: int) -> Bytes:
    """Return the ``item`` low bytes of each integer, and the bytes behind a stream."""
    end = len(integers) * item
    packed = np.zeros(packed_size(len(integers), 8 * item), np.uint8)
    places = np.ascontiguousarray(integers, "<u8").view(np.uint8).reshape(-1, 8)
    for place in range(item):
        packed[place:end:item] = places[:, place]
    return packed

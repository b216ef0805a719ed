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
_WIDEST_IN_4_BYTES = 25
"""Seven bits before the integer, and these, are four bytes."""

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


def unpack(stream: Bytes, width: int, start: int, stop: int) -> npt.NDArray[Any]:
    """Return integers ``[start, stop)`` of a stream, unsigned; a view where the width is whole.

    Parameters
    ----------
    stream
        The bytes of all integers, from the first on.
    width
        In bits; not 0.
    """
    if width in WHOLE_WIDTHS:
        item = width // 8
        return stream[start * item : stop * item].view(f"<u{item}")
    dtype = _window_dtype(width)
    if stop <= start:
        return np.empty(0, dtype)
    if width % 8 == 0:
        found: npt.NDArray[Any] = _whole_bytes(stream, width, start, stop) & _mask(width, dtype)
        return found
    first = start // _GROUP
    groups = -(-stop // _GROUP) - first
    unpacked = np.empty((groups, _GROUP), dtype)
    for place in range(_GROUP):
        byte, shift = divmod(place * width, 8)
        window = np.ndarray((groups,), dtype, stream, first * width + byte, (width,))
        np.right_shift(window, dtype.type(shift), out=unpacked[:, place])
    np.bitwise_and(unpacked, _mask(width, dtype), out=unpacked)
    return unpacked.reshape(-1)[start - first * _GROUP : stop - first * _GROUP]


def unpack_into(stream: Bytes, width: int, start: int, stop: int, out: npt.NDArray[Any]) -> None:
    """Write integers ``[start, stop)`` of a stream to ``out``, modulo its width.

    In one pass over memory, but for widths that are no whole bytes.

    Parameters
    ----------
    width
        In bits; not 0.
    out
        ``stop - start`` long, unsigned, possibly strided.
    """
    if stop > start and width % 8 == 0 and width not in WHOLE_WIDTHS:
        window = _whole_bytes(stream, width, start, stop)
        np.bitwise_and(window, _mask(width, window.dtype), out=out, casting="unsafe")
    else:
        out[...] = unpack(stream, width, start, stop)


def _window_dtype(width: int) -> np.dtype[Any]:
    return np.dtype("<u4" if width <= _WIDEST_IN_4_BYTES else "<u8")


def _mask(width: int, dtype: np.dtype[Any]) -> Any:
    return dtype.type((1 << width) - 1)


def _whole_bytes(stream: Bytes, width: int, start: int, stop: int) -> npt.NDArray[Any]:
    """Return words that begin with the integers of a width of whole bytes; they overlap."""
    item = width // 8
    return np.ndarray((stop - start,), _window_dtype(width), stream, start * item, (item,))


def packed_at(stream: Bytes, width: int, places: Integers) -> npt.NDArray[Any]:
    """Return the integers at ``places``, unsigned; ``width`` is not 0."""
    if width in WHOLE_WIDTHS:
        whole = len(stream) // (width // 8) * (width // 8)
        found: npt.NDArray[Any] = stream[:whole].view(f"<u{width // 8}")[places]
        return found
    bits = places * width
    windows: npt.NDArray[np.uint64] = np.ndarray((len(stream) - 7,), "<u8", stream, 0, (1,))
    words: npt.NDArray[np.uint64] = windows[bits >> 3]
    words >>= (bits & 7).astype(np.uint64)
    words &= np.uint64((1 << width) - 1)
    return words

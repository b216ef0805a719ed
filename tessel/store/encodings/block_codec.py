"""Block codecs: a page's payload compressed in blocks of 64 KiB, with a table of where each begins.

The column writer and whoever loads pages enter here; encodings see uncompressed payloads only.
Blocks are small so that one is decompressed in the cache, and part of a page without the rest.
Formats: LZ4 block (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), Zstandard frames
(RFC 8878).

What is read was written by somebody else. The table is checked before memory is taken, and every
block must give exactly its bytes.

A page gets the codec that makes it smallest, or none. Integers packed to the bit leave a codec
little to find, although the high bytes of prices or gaps between instants repeat a lot: a page of
packed integers is also tried with whole bytes, the bytes of one significance together (*byte
planes*), which comes near the entropy of the high ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.store.encodings.base import EncodedPage, Packing, Profile
from tessel.store.encodings.codes import BLOCK_BYTES, Codec, EncodingCode
from tessel.store.encodings.values import Bytes, Integers, damaged_page

_ZSTD_LEVEL = 3
_PLANES: Final[Mapping[int, int]] = {
    Codec.ZSTD_PLANES_2: 2,
    Codec.ZSTD_PLANES_4: 4,
    Codec.ZSTD_PLANES_8: 8,
}
"""Bytes of the elements whose bytes are stored apart: as many blocks as these."""

_PLANE_COUNTS: Final = np.array([_PLANES.get(code, 0) for code in range(256)], np.int64)
_PLACE_BYTES = 4
_LZ4_RATIO: Final = 255
"""An LZ4 block of n bytes stands for less than 255 times as many."""


def fewest_stored_bytes(payload_length: int, codec: int = Codec.ZSTD) -> int:
    """Return the length of the table of blocks: no compressed page is shorter."""
    return int(table_bytes(np.array([payload_length]), np.array([codec], np.uint8))[0])


def table_bytes(payload_lengths: Integers, codecs: Bytes) -> Integers:
    """Return the lengths of the tables of blocks of many pages; codecs may be forged."""
    planes = _PLANE_COUNTS[codecs]
    blocks = (payload_lengths + BLOCK_BYTES - 1) // BLOCK_BYTES
    return _PLACE_BYTES * (1 + np.where(planes > 0, planes, blocks))


def compress_blocks(payload: Bytes, codec: Codec) -> Bytes:
    """Return a payload as a table of blocks and the blocks.

    A block that does not get smaller is kept as it is. Byte planes are a block each: the planes of
    high bytes get small, those of low bytes are mostly kept.

    Parameters
    ----------
    payload
        Any bytes; a multiple of 8 for the codecs with byte planes.
    """
    made = _codec(codec)
    if codec in _PLANES:
        payload = np.ascontiguousarray(payload.reshape(-1, _PLANES[codec]).T).reshape(-1)
    blocks = []
    begin = 0
    for length in _raw_lengths(len(payload), codec).tolist():
        raw = payload[begin : begin + length]
        packed = np.frombuffer(made.compress(raw), np.uint8)
        blocks.append(packed if len(packed) < len(raw) else raw)
        begin += length
    places = np.zeros(len(blocks) + 1, "<u4")
    places[1:] = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    places += fewest_stored_bytes(len(payload), codec)
    return np.concatenate([places.view(np.uint8), *blocks])


def block_table(
    stored: Bytes, codec: int, payload_length: int, place: Mapping[str, Any]
) -> npt.NDArray[np.int64]:
    """Return where each block begins in the stored bytes, and where the last one ends.

    Raises CorruptSegmentError when the table is cut, goes backwards, or a block cannot have the
    bytes it should.

    Parameters
    ----------
    stored
        All stored bytes of the page, or its beginning, where only the table was read so far.
    payload_length
        Bytes before compression, from the page's record.
    """
    begin = fewest_stored_bytes(payload_length, codec)
    if len(stored) < begin:
        raise damaged_page("its table of blocks is cut short", place)
    places = stored[:begin].view("<u4").astype(np.int64)
    raw = _raw_lengths(payload_length, codec)
    lengths = places[1:] - places[:-1]
    wrong = (lengths < 1) | (lengths > raw)
    if codec == Codec.LZ4:
        wrong |= raw > lengths * _LZ4_RATIO
    if places[0] != begin or bool(wrong.any()):
        raise damaged_page("its table of blocks does not ascend within their sizes", place)
    return places


def decompress_blocks(
    stored: Bytes, codec: int, payload_length: int, place: Mapping[str, Any]
) -> Bytes:
    """Return the payload of stored bytes.

    Raises CorruptSegmentError when the table of blocks is none, or a block does not give exactly
    its bytes.

    Parameters
    ----------
    stored
        What :func:`compress_blocks` made; it is checked before memory is taken.
    codec
        One of :class:`~tessel.store.encodings.codes.Codec`, but NONE.
    payload_length
        What the page record promises.
    """
    places = block_table(stored, codec, payload_length, place)
    if places[-1] != len(stored):
        raise damaged_page(f"its blocks end at {places[-1]} of {len(stored)} bytes", place)
    payload = np.empty(payload_length, np.uint8)
    decompressor, planes = _codec(codec), _PLANES.get(codec, 0)
    for block, (begin, end) in enumerate(itertools.pairwise(places.tolist())):
        if planes:
            target = payload[block::planes]
        else:
            target = payload[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        held = stored[begin:end]
        if len(held) == len(target):
            target[...] = held
            continue
        source = pa.py_buffer(held)
        try:
            raw = decompressor.decompress(source, len(target))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damaged_page(f"block {block} cannot be decompressed: {error}", place) from error
        if codec == Codec.LZ4 and _fits(decompressor, source, len(target) - 1):
            # How long it is stands nowhere in a block, and what it lacks would be old memory.
            raise damaged_page(f"block {block} does not give {len(target)} bytes", place)
        target[...] = np.frombuffer(raw, np.uint8)
    return payload


def _codec(codec: int) -> Any:
    if codec == Codec.LZ4:
        return pa.Codec("lz4_raw")
    return pa.Codec("zstd", compression_level=_ZSTD_LEVEL)


def _raw_lengths(payload_length: int, codec: int) -> npt.NDArray[np.int64]:
    planes = _PLANES.get(codec, 0)
    if planes:
        return np.full(planes, payload_length // planes)
    starts = np.arange(0, payload_length, BLOCK_BYTES, dtype=np.int64)
    return np.minimum(starts + BLOCK_BYTES, payload_length) - starts


def _fits(decompressor: pa.Codec, source: pa.Buffer, length: int) -> bool:
    """Return whether a block gives ``length`` bytes or fewer."""
    try:
        decompressor.decompress(source, length)
    except (OSError, ValueError, pa.ArrowException):
        return False
    return True


ChosenCodec = tuple[Codec, Bytes]
"""A codec, and the stored bytes that it made."""

_BY_BYTES = {2: Codec.ZSTD_PLANES_2, 4: Codec.ZSTD_PLANES_4, 8: Codec.ZSTD_PLANES_8}

_FEWEST_BYTES = 1024
"""Of a page, to try byte planes: below, a frame a plane eats what is won."""


def whole_widths(profile: Profile) -> Profile:
    """Return the profile with integers in words, which have byte planes, not packed ones."""
    return replace(profile, packing=Packing.WORDS)


def planes_codec(encoded: EncodedPage, width: int) -> Codec | None:
    """Return the codec of byte planes that fits the elements of a page, or None.

    Parameters
    ----------
    width
        Bytes of a value of the column, which a flat page consists of.
    """
    if encoded.encoding == EncodingCode.FLAT:
        return _BY_BYTES.get(width)
    if encoded.encoding in (EncodingCode.VARIABLE, EncodingCode.CONSTANT):
        return None
    return _BY_BYTES.get(encoded.bit_width // 8) if encoded.bit_width % 8 == 0 else None


def choose_codec(
    payload: Bytes, profile: Profile, planes: Callable[[], tuple[Codec, Bytes] | None]
) -> tuple[ChosenCodec | None, bool]:
    """Return the codec for a page, and whether it is that of the byte planes.

    Parameters
    ----------
    planes
        Makes another payload of the same values, and the codec of byte planes for it; None where
        there is none.

    Returns
    -------
    tuple
        None where no codec saves the fraction that the profile asks for.
    """
    if profile.codec == Codec.NONE or not len(payload):
        return None, False
    most = len(payload) * (1.0 - profile.codec_saving)
    plain = compress_blocks(payload, profile.codec)
    chosen = (profile.codec, plain) if len(plain) <= most else None
    tried = profile.codec == Codec.ZSTD and len(payload) >= _FEWEST_BYTES
    other = planes() if tried else None
    if other is None:
        return chosen, False
    codec, whole = other
    packed = compress_blocks(whole, codec)
    if len(packed) <= min(most, len(plain)):
        return (codec, packed), True
    return chosen, False

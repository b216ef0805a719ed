"""Block codecs: a page's payload compressed in blocks of 64 KiB, with a table of where each begins.

The column writer and whoever loads pages enter here; encodings see uncompressed payloads only.
Blocks are small so that one is decompressed in the cache, and part of a page without the rest.
Formats: LZ4 block (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), Zstandard frames
(RFC 8878).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.base import Bytes
from tessel.store.encodings.codes import BLOCK_BYTES, Codec

__all__ = ["compress_blocks", "decompress_blocks", "fewest_stored_bytes"]

_ZSTD_LEVEL = 3
_CODECS: Final[Mapping[int, Any]] = {
    Codec.LZ4: lambda: pa.Codec("lz4_raw"),
    Codec.ZSTD: lambda: pa.Codec("zstd", compression_level=_ZSTD_LEVEL),
}


_Count = TypeVar("_Count", int, npt.NDArray[np.int64])


def fewest_stored_bytes(payload_length: _Count) -> _Count:
    """Return the length of the table of blocks: no compressed page is shorter."""
    return 4 * ((payload_length + BLOCK_BYTES - 1) // BLOCK_BYTES + 1)


def compress_blocks(payload: Bytes, codec: Codec) -> Bytes:
    """Return a payload as a table of blocks and the blocks.

    A block that does not get smaller is kept as it is.
    """
    made = _CODECS[codec]()
    blocks = []
    for start in range(0, len(payload), BLOCK_BYTES):
        raw = payload[start : start + BLOCK_BYTES]
        packed = np.frombuffer(made.compress(raw), np.uint8)
        blocks.append(packed if len(packed) < len(raw) else raw)
    table = np.zeros(len(blocks) + 1, "<u4")
    table[1:] = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    table += fewest_stored_bytes(len(payload))
    return np.concatenate([table.view(np.uint8), *blocks])


def decompress_blocks(
    stored: Bytes, codec: int, payload_length: int, place: Mapping[str, Any]
) -> Bytes:
    """Return the payload of stored bytes.

    Parameters
    ----------
    stored
        What :func:`compress_blocks` made; it is checked before memory is taken.
    codec
        One of :class:`~tessel.store.encodings.codes.Codec`, but NONE.
    payload_length
        What the page record promises.
    place
        Object, column, page: for errors.

    Raises
    ------
    CorruptSegmentError
        When the table of blocks or a block is not one.
    """
    first = fewest_stored_bytes(payload_length)
    if len(stored) < first:
        raise _damaged("its table of blocks is cut short", place)
    table = stored[:first].view("<u4").astype(np.int64)
    lengths = table[1:] - table[:-1]
    raw_lengths = np.full(len(lengths), BLOCK_BYTES)
    raw_lengths[len(lengths) - 1 :] = payload_length - BLOCK_BYTES * (len(lengths) - 1)
    if table[0] != first or table[-1] != len(stored) or (lengths < 1).any():
        raise _damaged("its table of blocks does not fit its length", place)
    if (lengths > raw_lengths).any():
        raise _damaged("a block is longer than its contents", place)
    payload = np.empty(payload_length, np.uint8)
    made = _CODECS[codec]()
    for number, raw in enumerate(raw_lengths.tolist()):
        block = stored[table[number] : table[number + 1]]
        start = number * BLOCK_BYTES
        if len(block) != raw:
            block = _decompressed(made, block, raw, place)
        payload[start : start + raw] = block
    return payload


def _decompressed(codec: Any, block: Bytes, raw_length: int, place: Mapping[str, Any]) -> Bytes:
    try:
        held = codec.decompress(block, decompressed_size=raw_length)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(f"a block cannot be decompressed: {error}", place) from error
    if held.size != raw_length:
        raise _damaged(f"a block holds {held.size} bytes, not {raw_length}", place)
    return np.frombuffer(held, np.uint8)


def _damaged(what: str, place: Mapping[str, Any]) -> CorruptSegmentError:
    where = ", ".join(f"{name} {value}" for name, value in place.items())
    return CorruptSegmentError(
        f"damaged page: {what}" + (f" ({where})" if where else ""),
        hint="restore the object from a copy of the store",
        **place,
    )

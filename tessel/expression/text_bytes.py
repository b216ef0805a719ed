"""Text and binary of Arrow as the bytes that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import allocate, arrow_array, numpy_array
from tessel.kernels.group_rows import Texts

WORD_BYTES = 8
_MOST_ORDERED_BYTES = 8 * WORD_BYTES
_SIGN = np.uint64(1 << 63)


def byte_offsets(array: pa.Array) -> tuple[NDArray[Any], pa.Buffer | None]:
    """Return where every text or binary begins, and the last one ends, and the buffer of all.

    Returns
    -------
    offsets : numpy.ndarray
        int32 or int64, shape ``(rows + 1,)``, in bytes.
    data : pyarrow.Buffer or None
        None where there is none, and all lengths are 0.
    """
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        offsets = (np.arange(len(array) + 1, dtype=np.int64) + array.offset) * kind.byte_width
        return offsets, array.buffers()[1]
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    dtype = np.dtype(np.int64 if large else np.int32)
    _, offset_buffer, data = array.buffers()
    if offset_buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype), data
    return np.frombuffer(
        offset_buffer, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    ), data


def texts_of(array: pa.Array) -> Texts:
    """Return text or binary, views and dictionaries aside, as bytes; null is empty."""
    offsets, data = byte_offsets(array)
    return Texts(np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), offsets)


def decoded_text(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> Any:
    """Return a column, maybe of dictionaries of text, as one of a type."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([decoded_text(chunk, kind) for chunk in column.chunks], kind)
    if pa.types.is_dictionary(column.type) and column.type.value_type == kind:
        return taken_entries(column.dictionary, column.indices)
    return column.cast(kind)


def taken_entries(entries: pa.Array, places: pa.Array) -> pa.Array:
    """Take entries by their indices, none out of bounds; a null index or entry gives null."""
    kind, count = entries.type, len(places)
    is_copied = kind in _COPIED and count and len(entries)
    if not is_copied or entries.null_count or places.null_count:
        return entries.take(places)
    from tessel.kernels.decode_rows import texts_of_codes

    codes, texts = numpy_array(places).astype(np.int64, copy=False), texts_of(entries)
    found = texts_of_codes(np.ascontiguousarray(codes), texts.offsets, texts.data, allocate)
    if found is None:
        return entries.take(places)
    return pa.Array.from_buffers(kind, count, [None, *map(pa.py_buffer, found)], 0)


_COPIED = (pa.string(), pa.binary())
"""Types whose entries a kernel copies in half of the time that Arrow takes."""


def words_at(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Read eight bytes, little-endian, at each byte position; bytes past the end are zero."""
    readable = len(data) - WORD_BYTES + 1
    tail_start = max(0, readable)
    tail = np.zeros(2 * WORD_BYTES, np.uint8)
    tail[: len(data) - tail_start] = data[tail_start:]
    late = at >= tail_start
    if readable > 0 and not late.any():
        return np.ndarray((readable,), "<u8", buffer=data, strides=(1,))[at]
    numbers = np.empty(len(at), np.uint64)
    if not late.all():
        everywhere = np.ndarray((readable,), "<u8", buffer=data, strides=(1,))
        numbers[~late] = everywhere[at[~late]]
    everywhere = np.ndarray((WORD_BYTES + 1,), "<u8", buffer=tail, strides=(1,))
    numbers[late] = everywhere[at[late] - tail_start]
    return numbers


def order_of_texts(array: pa.Array) -> NDArray[np.int64]:
    """Return the rows of text or binary without nulls by their bytes, equal ones as they come.

    Rows are ordered by eight bytes at a time, as numbers; those that are equal so far go on with
    the next eight (a radix sort from the first digit on). What is equal in many bytes is left to
    Arrow, which compares texts: 1 M texts of 7 bytes take it 274 ms, and this 73; behind 30 bytes
    that all have in common, 498 and 251.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    from tessel.kernels.order_words import order_of_integers

    texts = texts_of(array)
    starts, lengths = (
        each.astype(np.int64) for each in (texts.offsets[:-1], np.diff(texts.offsets))
    )
    order = np.arange(len(array))
    if len(array) < 2:
        return order
    # Rows whose places are open, those of a run side by side; a run is equal so far.
    places = np.arange(len(array))
    runs = np.zeros(len(array), np.int64)
    for skip in range(0, _MOST_ORDERED_BYTES, WORD_BYTES):
        rows = order[places]
        left = lengths[rows] - skip
        words = words_at(texts.data, starts[rows] + np.minimum(lengths[rows], skip)).byteswap()
        gone = 8 * (WORD_BYTES - np.clip(left, 0, WORD_BYTES)).astype(np.uint64)
        words = (words >> gone << gone) ^ _SIGN  # numpy shifts by 64 bits as one would think
        by = order_of_integers(words.view(np.int64))
        if runs[0] != runs[-1]:
            by = by[order_of_integers(runs[by])]
        order[places], words, runs, left = rows[by], words[by], runs[by], left[by]
        same = (runs[1:] == runs[:-1]) & (words[1:] == words[:-1])
        is_open = same & ((np.maximum(left[1:], left[:-1]) > WORD_BYTES) | (left[1:] != left[:-1]))
        if not is_open.any():
            return order
        runs = np.concatenate([[0], np.cumsum(~same)])
        open_runs = np.zeros(int(runs[-1]) + 1, np.bool_)
        open_runs[runs[1:][is_open]] = True
        kept = open_runs[runs]
        places, runs = places[kept], runs[kept]
    rows = order[places]
    found = numpy_array(pc.sort_indices(array.take(arrow_array(rows)))).astype(np.int64)
    order[places] = rows[found[order_of_integers(runs[found])]]
    return order

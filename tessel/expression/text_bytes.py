"""Text and binary of Arrow as the bytes that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import allocate, arrow_array, numpy_array
from tessel.kernels.group_rows import Texts

_WORD_BYTES = 8
_MOST_ORDERED_BYTES = 8 * _WORD_BYTES


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


def order_of_texts(array: pa.Array) -> NDArray[np.int64]:
    """Return the rows of text or binary without nulls by their bytes, equal ones as they come.

    Rows are ordered by eight bytes at a time, as numbers; those that are equal so far go on with
    the next eight (a radix sort from the first digit on). What is equal in many bytes is left to
    Arrow, which compares texts: 1 M texts of 7 bytes take it 272 ms, and this 61; behind 30 bytes
    that all have in common, 530 and 188.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    from tessel.kernels.order_words import order_of_integers, text_digits

    texts = texts_of(array)
    lengths = np.diff(texts.offsets).astype(np.int64)
    order = np.arange(len(array))
    if len(array) < 2:
        return order
    # Rows whose places are open, those of a run side by side; a run is equal so far.
    places = np.arange(len(array))
    runs = np.zeros(len(array), np.int64)
    for skip in range(0, _MOST_ORDERED_BYTES, _WORD_BYTES):
        rows = order[places]
        left = lengths[rows] - skip
        words = np.empty(len(rows), np.int64)
        text_digits(texts.data, texts.offsets, rows, skip, words)
        by = order_of_integers(words)
        if runs[0] != runs[-1]:
            by = by[order_of_integers(runs[by])]
        order[places], words, runs, left = rows[by], words[by], runs[by], left[by]
        same = (runs[1:] == runs[:-1]) & (words[1:] == words[:-1])
        is_open = same & ((np.maximum(left[1:], left[:-1]) > _WORD_BYTES) | (left[1:] != left[:-1]))
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

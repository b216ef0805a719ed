"""Text and binary of Arrow as the bytes that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array, one_array
from tessel.kernels.group_rows import Texts
from tessel.memory import allocate

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


def rows_at(column: Any, places: pa.Array) -> pa.Array:
    """Return values of rows, whose numbers are not checked: they must lie within the column.

    Arrow takes values and then whether there are any in 4 ns a row, both at once in 5 to 30.
    """
    values = one_array(column)
    if values.type in _COPIED:
        return taken_entries(values, places)
    if not (values.null_count and pa.types.is_primitive(values.type)):
        return pc.take(values, places, boundscheck=False)
    kind, buffers = values.type, values.buffers()
    whole = pa.Array.from_buffers(kind, len(values), [None, buffers[1]], 0, values.offset)
    pair = (pc.take(each, places, boundscheck=False) for each in (values.is_valid(), whole))
    return pa.Array.from_buffers(kind, len(places), [each.buffers()[1] for each in pair])


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


def ordered_texts(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows of text or binary without nulls by their bytes, equal ones as they come.

    Rows are ordered by eight bytes at a time, as numbers; those that are equal so far go on with
    the next eight (a radix sort from the first digit on). What is equal in many bytes is left to
    Arrow, which compares texts: 1 M texts of 7 bytes take it 272 ms, and this 61; behind 30 bytes
    that all have in common, 530 and 188.

    Returns
    -------
    order, repeats : numpy.ndarray
        Row numbers, int64, and which of them have the text of the one before them, bool; both of
        shape ``(rows,)``.
    """
    from tessel.kernels.order_words import order_of_integers, text_digits

    texts = texts_of(array)
    lengths = np.diff(texts.offsets).astype(np.int64)
    order, repeats = np.arange(len(array)), np.zeros(len(array), np.bool_)
    if len(array) < 2:
        return order, repeats
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
        repeats[places[1:]] = same & ~is_open
        if not is_open.any():
            return order, repeats
        runs = np.concatenate([[0], np.cumsum(~same)])
        open_runs = np.zeros(int(runs[-1]) + 1, np.bool_)
        open_runs[runs[1:][is_open]] = True
        kept = open_runs[runs]
        places, runs = places[kept], runs[kept]
    rows = order[places]
    found = numpy_array(pc.sort_indices(array.take(arrow_array(rows)))).astype(np.int64)
    order[places] = rows[found[order_of_integers(runs[found])]]
    left_texts = array.take(arrow_array(order[places]))
    alike = numpy_array(pc.equal(left_texts[1:], left_texts[:-1]))
    repeats[places[1:]] = alike & (runs[1:] == runs[:-1])
    return order, repeats

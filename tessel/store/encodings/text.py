"""Values of any length: putting bytes from many places behind one another, and checking text.

The encodings of text and binary enter here, and dictionaries of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.store.encodings.base import Bytes, Integers, Page, PhysicalValues
from tessel.store.encodings.codes import ValueKind

__all__ = ["check_text", "gather_spans", "repeated", "take_values"]

_LARGEST = (1 << 31) - 1
_LONG = 64
"""Bytes a value above which copying one by one beats indexing every byte (and needs no index)."""

_FEW = 256
"""Up to here, indexing byte by byte is cheaper than making Arrow arrays (about 20 µs)."""


def gather_spans(
    data: Bytes, starts: Integers, lengths: Integers
) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the bytes ``[start, start + length)`` behind one another, and int32 offsets.

    Raises
    ------
    InvalidInputError
        When that is more than 32-bit offsets reach.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    total = _fitting(int(ends[-1]) if len(ends) else 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    offsets[1:] = ends
    if total > _LONG * len(lengths):
        joined = np.empty(total, np.uint8)
        for start, length, end in zip(
            starts.tolist(), lengths.tolist(), ends.tolist(), strict=True
        ):
            joined[end - length : end] = data[start : start + length]
        return offsets, joined
    places = np.arange(total, dtype=np.int64)
    places += np.repeat(starts - (ends - lengths), lengths)
    return offsets, data[places]


def take_values(values: PhysicalValues, rows: npt.NDArray[Any]) -> PhysicalValues:
    """Return the values at ``rows`` (any integer dtype, inside): any order, repeats, maybe none.

    Raises
    ------
    InvalidInputError
        When they are text of more than 2 GiB.
    """
    if values.offsets is None:
        data = values.data[rows]
        return PhysicalValues(values.kind, values.width, len(rows), data)
    starts = values.offsets[rows].astype(np.int64)
    lengths = values.offsets[1:][rows] - starts
    if len(rows) <= _FEW:
        offsets, data = gather_spans(values.data, starts, lengths)
    else:
        _fitting(int(lengths.sum()))
        found = pc.take(_arrow(values), arrow_array(rows), boundscheck=False)
        offsets = np.frombuffer(found.buffers()[1], np.int32, len(rows) + 1)
        held = found.buffers()[2]
        data = np.empty(0, np.uint8) if held is None else np.frombuffer(held, np.uint8)
    return PhysicalValues(values.kind, values.width, len(rows), data, offsets)


def repeated(value: Bytes, times: int) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return one value ``times`` times, and its offsets.

    Raises
    ------
    InvalidInputError
        When that is more than 32-bit offsets reach.
    """
    _fitting(len(value) * times)
    offsets = np.arange(times + 1, dtype=np.int32) * np.int32(len(value))
    return offsets, np.tile(value, times)


def check_text(page: Page, offsets: npt.NDArray[np.int32], data: Bytes) -> None:
    """Raise ``CorruptSegmentError`` where one of the values is not UTF-8.

    ``offsets`` never decrease and lie inside ``data``.
    """
    length = len(offsets) - 1
    held = PhysicalValues(ValueKind.TEXT, 0, length, data, offsets)
    try:
        _arrow(held, pa.string()).validate(full=True)
    except pa.ArrowInvalid as error:
        raise page.damaged(f"its text is not UTF-8: {error}") from error


def _arrow(values: PhysicalValues, type_: pa.DataType | None = None) -> pa.Array:
    if values.offsets is None:
        raise ValueError("values of fixed width have no offsets")
    offsets = pa.py_buffer(np.ascontiguousarray(values.offsets))
    data = pa.py_buffer(np.ascontiguousarray(values.data))
    return pa.Array.from_buffers(type_ or pa.binary(), values.length, [None, offsets, data])


def _fitting(total: int) -> int:
    if total > _LARGEST:
        raise InvalidInputError(
            f"{total} bytes of text were asked for at once; 2 GiB is the most",
            hint="read fewer rows at a time",
        )
    return total

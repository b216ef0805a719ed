"""Rows as bytes: the header of a packed batch, the headers of aligned rows, and what is checked.

All lengths are compared as Python integers before anything is allocated for.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from tessel.errors import RowFormatError
from tessel.store.rows.schema import HEADER, Layout, RowSchema

BATCH_HEADER = struct.Struct("<4sHHIIQQ")
"""magic, version, reserved, schema id, row size, rows, bytes of the heap."""

_BEGIN = struct.Struct("<4sHHII")
"""What all batches of a schema begin with."""

_MAGIC = b"TSLR"
_VERSION = 1
_ROW_HEADER = struct.Struct("<II")
_MOST_HEAP_BYTES = 1 << 32
"""An offset has 32 bits."""

Parsed = tuple[npt.NDArray[np.void], npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]
BytesLike = bytes | bytearray | memoryview


def batch_header(schema: RowSchema, rows: int, heap_bytes: int) -> bytes:
    """Return the header of a packed batch."""
    if heap_bytes > _MOST_HEAP_BYTES:
        raise RowFormatError(
            f"the text of a batch has {heap_bytes} bytes, and an offset has 32 bits",
            hint="make batches of fewer rows",
        )
    return BATCH_HEADER.pack(
        _MAGIC, _VERSION, 0, schema.schema_id, schema.fixed_size, rows, heap_bytes
    )


def check_place(schema: RowSchema, data: bytes, start: int, stop: int) -> None:
    """Refuse a packed batch behind which no other begins, or which holds whole ones to its end.

    A header has no checksum. Its constant part tells where batches begin, and so whether a count
    or a length in it reaches too far, or not far enough, before any of its rows is given.

    Raises RowFormatError for a batch that its header does not describe.
    """
    begin = _BEGIN.pack(_MAGIC, _VERSION, 0, schema.schema_id, schema.fixed_size)
    behind = data[stop : stop + len(begin)]
    at = data.find(begin, start + 1, stop)
    while at >= 0 and begin.startswith(behind):
        end = at
        while end + BATCH_HEADER.size <= stop and data.startswith(begin, end):
            end += batch_length(schema, data[end : end + BATCH_HEADER.size])
        if end == stop:
            break
        at = data.find(begin, at + 1, stop)
    if at >= 0 or not begin.startswith(behind):
        raise RowFormatError.for_batch_of_wrong_length(stop - start)


def batch_length(schema: RowSchema, header: BytesLike) -> int:
    """Return the bytes of a packed batch from its header, which is checked.

    Raises RowFormatError for something that is not the header of a batch of the schema.
    """
    magic, version, reserved, schema_id, row_size, rows, heap_bytes = BATCH_HEADER.unpack_from(
        header
    )
    if magic != _MAGIC:
        raise RowFormatError(
            f"a batch of rows begins with {_MAGIC!r}, not {bytes(magic)!r}",
            hint="give what Rows.to_bytes() made, or describe a struct with RowSchema.from_struct",
        )
    if version != _VERSION or reserved:
        raise RowFormatError(
            f"a batch of rows of version {version}", hint=f"this release reads version {_VERSION}"
        )
    _check_schema_id(schema, schema_id)
    if row_size != schema.fixed_size or heap_bytes > _MOST_HEAP_BYTES:
        raise RowFormatError(
            f"a batch of rows of {row_size} bytes with {heap_bytes} bytes of text",
            hint=f"rows of the schema have {schema.fixed_size} bytes",
        )
    return BATCH_HEADER.size + int(rows) * int(row_size) + int(heap_bytes)


def parse_batch(schema: RowSchema, data: BytesLike) -> Parsed:
    """Return records and heap of exactly one packed batch."""
    if len(data) < BATCH_HEADER.size:
        raise RowFormatError(f"{len(data)} bytes are less than the header of a batch of rows")
    length = batch_length(schema, data)
    if length != len(data):
        raise RowFormatError(
            f"a batch of rows has {length} bytes by its header, and {len(data)} are here",
            hint="give whole batches one by one; RowStream cuts a stream of bytes into batches",
        )
    rows = BATCH_HEADER.unpack_from(data)[5]
    records = np.frombuffer(data, schema.dtype, rows, BATCH_HEADER.size)
    heap = np.frombuffer(data, np.uint8, offset=BATCH_HEADER.size + records.nbytes)
    return records, heap, None


def parse_records(schema: RowSchema, data: BytesLike) -> Parsed:
    """Return the records of aligned or foreign rows that lie end to end."""
    whole = whole_rows(schema, data)
    if whole != len(data):
        raise RowFormatError(
            f"{len(data) - whole} bytes after row {_rows_in(schema, data, whole)} are no whole row",
            hint="RowStream keeps half a row until the rest arrives",
        )
    if schema.layout is Layout.FOREIGN or schema.all_fixed:
        records = np.frombuffer(data, schema.dtype)
        if schema.layout is Layout.ALIGNED:
            _check_headers(schema, records)
        return records, np.zeros(0, np.uint8), None
    starts = np.fromiter(_starts(schema, data), np.int64)
    heap = np.frombuffer(data, np.uint8)
    fixed = heap[starts[:, None] + np.arange(schema.fixed_size)]
    return fixed.reshape(-1).view(schema.dtype), heap, starts


def whole_rows(schema: RowSchema, data: BytesLike) -> int:
    """Return how many bytes at the front are whole rows; the headers that are there are checked."""
    if schema.layout is Layout.FOREIGN or schema.all_fixed:
        return len(data) - len(data) % schema.fixed_size
    end = 0
    for start in _starts(schema, data):
        end = start + _ROW_HEADER.unpack_from(data, start)[1]
    return end


def next_row_length(schema: RowSchema, data: BytesLike) -> int:
    """Return the bytes of the aligned or foreign row at the front, or of what tells them."""
    if schema.layout is Layout.FOREIGN or schema.all_fixed:
        return schema.fixed_size
    if len(data) < _ROW_HEADER.size:
        return _ROW_HEADER.size
    return int(_ROW_HEADER.unpack_from(data)[1])


def _starts(schema: RowSchema, data: BytesLike) -> list[int]:
    """Return where each whole aligned row starts."""
    starts, at = [], 0
    while at + _ROW_HEADER.size <= len(data):
        schema_id, length = _ROW_HEADER.unpack_from(data, at)
        _check_schema_id(schema, schema_id)
        _check_row_length(schema, length)
        if at + length > len(data):
            break
        starts.append(at)
        at += length
    return starts


def _check_headers(schema: RowSchema, records: npt.NDArray[np.void]) -> None:
    headers = records[HEADER]
    wrong = headers[:, 0] != schema.schema_id
    wrong |= headers[:, 1] != schema.fixed_size
    for schema_id, length in headers[wrong][:1].tolist():
        _check_schema_id(schema, schema_id)
        _check_row_length(schema, length)


def _check_schema_id(schema: RowSchema, schema_id: int) -> None:
    if schema_id != schema.schema_id:
        raise RowFormatError(
            f"rows of the schema {schema_id:#010x}, not {schema.schema_id:#010x}",
            hint=f"the schema given here has the fields {', '.join(schema.names)}",
            schema_id=schema_id,
            expected=schema.schema_id,
        )


def _check_row_length(schema: RowSchema, length: int) -> None:
    if length < schema.fixed_size or (schema.all_fixed and length != schema.fixed_size):
        raise RowFormatError(
            f"a row of {length} bytes, and its fixed part has {schema.fixed_size}",
            hint="the second number of an aligned row's header is the length of the whole row",
        )


def _rows_in(schema: RowSchema, data: BytesLike, whole: int) -> int:
    if schema.layout is Layout.FOREIGN or schema.all_fixed:
        return whole // schema.fixed_size
    return len(_starts(schema, data))

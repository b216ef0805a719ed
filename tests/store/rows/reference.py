"""A plain reader of rows, written from the specification alone: loops over bytes, no numpy."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

NUMBERS = {
    "bool": ("B", 1), "int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4), "int64": ("q", 8),
    "uint8": ("B", 1), "uint16": ("H", 2), "uint32": ("I", 4), "uint64": ("Q", 8),
    "float": ("f", 4), "double": ("d", 8),
}  # fmt: skip


def size_of(kind: pa.DataType) -> tuple[str, int]:
    """Return the letter and bytes of a type; no letter for text and bytes."""
    if str(kind) in NUMBERS:
        return NUMBERS[str(kind)]
    if "string" in str(kind) or str(kind) in ("binary", "large_binary"):
        return "", 8
    return ("i", 4) if kind.bit_width == 32 else ("q", 8)


def value(kind: pa.DataType, letter: str, data: bytes) -> Any:
    (number,) = struct.unpack("<" + letter, data)
    if pa.types.is_boolean(kind):
        return bool(number)
    if pa.types.is_temporal(kind):
        integer = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([number], integer).view(kind)[0]
    return number


def read_packed(schema: pa.Schema, data: bytes) -> list[list[Any]]:
    """Return the values of a packed batch, a list a row; temporal ones as Arrow scalars."""
    assert data[:4] == b"TSLR"
    assert int.from_bytes(data[4:6], "little") == 1
    row_size = int.from_bytes(data[12:16], "little")
    count = int.from_bytes(data[16:24], "little")
    heap_size = int.from_bytes(data[24:32], "little")
    heap = data[32 + count * row_size :]
    assert len(heap) == heap_size
    bitmap = -(-len(schema) // 8)
    starts = range(32, 32 + count * row_size, row_size)
    return [read_row(schema, data[at : at + row_size], 0, bitmap, 1, heap) for at in starts]


def read_aligned(schema: pa.Schema, data: bytes) -> list[list[Any]]:
    """Return the values of aligned rows end to end."""
    rows, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        row = data[at : at + length]
        bitmap = (-(-len(schema) // 8) + 7) // 8 * 8
        rows.append(read_row(schema, row, 8, bitmap, 8, row))
        at += length
    return rows


def read_row(
    schema: pa.Schema, row: bytes, bitmap_at: int, bitmap_size: int, aligned: int, heap: bytes
) -> list[Any]:
    at = bitmap_at + bitmap_size
    values: list[Any] = []
    for position, field in enumerate(schema):
        letter, size = size_of(field.type)
        if aligned > 1:
            multiple = size if letter else 4
            at = (at + multiple - 1) // multiple * multiple
        stored, at = row[at : at + size], at + size
        if row[bitmap_at + position // 8] >> (position % 8) & 1:
            values.append(None)
        elif letter:
            values.append(value(field.type, letter, stored))
        else:
            start, length = struct.unpack("<II", stored)
            text = heap[start : start + length]
            values.append(text.decode() if "string" in str(field.type) else text)
    return values


def plain(batch: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """Return the rows of a batch in the form of the readers above."""
    columns = []
    for column in batch.columns:
        if pa.types.is_temporal(column.type):
            columns.append([scalar if scalar.is_valid else None for scalar in column])
        else:
            columns.append(column.to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]

"""Between rows and columns, a whole column at a time.

A fixed field becomes a column by one strided copy, since Arrow wants its values side by side; text
becomes one without a copy where the texts of the field lie one after the other in the heap, as the
writers here put them, unless the heap is memory that will be written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.errors import RowFormatError, SchemaMismatchError, UnsupportedTypeError
from tessel.expression.text_bytes import byte_offsets
from tessel.store.rows.schema import HEADER, NULLS, FieldLayout, Layout, RowSchema

if TYPE_CHECKING:
    from tessel.store.rows.rows import Rows

_MOST_SMALL_OFFSETS = 2**31 - 1


def arrow_columns(rows: Rows) -> list[pa.Array]:
    """Return all fields of all rows as Arrow arrays; bits of null are looked at once for all."""
    fields = rows.schema.fields
    nulls = np.zeros(len(fields), np.uint8)
    if rows.schema.null_bitmap_size and len(rows.records):
        nulls = np.unpackbits(np.bitwise_or.reduce(rows.records[NULLS], axis=0), bitorder="little")
    return [arrow_column(rows, each, has_nulls=nulls[each.null_bit] > 0) for each in fields]


def arrow_column(rows: Rows, field: FieldLayout, *, has_nulls: bool = True) -> pa.Array:
    """Return a field of all rows as an Arrow array; ``has_nulls`` is false where none is known."""
    count = len(rows.records)
    nulls = field_nulls(rows, field) if has_nulls else None
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    null_count = 0 if nulls is None else int(np.count_nonzero(nulls))
    if field.is_variable:
        buffers = _text_buffers(rows, field)
        return pa.Array.from_buffers(field.type.arrow, count, [validity, *buffers], null_count)
    stored = rows.records[field.name]
    if field.type.getter == "bool":
        values = np.packbits(stored != 0, bitorder="little")
    elif rows.schema.byte_order == "big":
        values = stored.astype(stored.dtype.newbyteorder("<"))
    else:
        values = stored.copy()  # always: the memory of the rows is used again
    buffer = pa.py_buffer(values.view(np.uint8))
    return pa.Array.from_buffers(field.type.arrow, count, [validity, buffer], null_count)


def field_nulls(rows: Rows, field: FieldLayout) -> npt.NDArray[np.bool_] | None:
    """Return which rows are null; None where none is."""
    if not rows.schema.null_bitmap_size:
        return None
    bits = rows.records[NULLS][:, field.null_bit >> 3] & np.uint8(1 << (field.null_bit & 7))
    return bits.astype(np.bool_) if bits.any() else None


def row_texts(
    rows: Rows, field: FieldLayout
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where in the heap each row's text begins, and its bytes; a null has none.

    Raises RowFormatError for a text that points outside its heap, or outside its row's tail.
    """
    pairs = rows.records[field.name].astype(np.int64)
    starts, lengths = pairs[:, 0], pairs[:, 1]
    nulls = field_nulls(rows, field)
    if nulls is not None:
        lengths[nulls] = 0
    ends = starts + lengths
    if rows.starts is None:
        limits, least = np.full(1, len(rows.heap)), 0
    else:
        limits = rows.records[HEADER][:, 1].astype(np.int64)
        least = rows.schema.fixed_size
    wrong = np.flatnonzero((lengths > 0) & ((ends > limits) | (starts < least)))
    if len(wrong):
        row = int(wrong[0])
        raise RowFormatError(
            f"the text of field {field.name!r} in row {row} lies outside its heap: "
            f"{lengths[row]} bytes from {starts[row]}",
            field=field.name,
            row=row,
        )
    return (starts if rows.starts is None else starts + rows.starts), lengths


def _text_buffers(rows: Rows, field: FieldLayout) -> list[pa.Buffer]:
    large = str(field.type.arrow).startswith("large")
    offset_type = np.int64 if large else np.int32
    starts, lengths = row_texts(rows, field)
    if not len(starts):
        return [pa.py_buffer(np.zeros(1, offset_type)), pa.py_buffer(b"")]
    total = int(lengths.sum())
    if total > _MOST_SMALL_OFFSETS and not large:
        raise RowFormatError(
            f"field {field.name!r} has {total} bytes of text in one batch, past what "
            f"{field.type.arrow} can hold",
            hint=f"make smaller batches, or declare the field as large_{field.type.arrow}",
        )
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    first = int(starts[0])
    if np.array_equal(starts, offsets[:-1] + first):
        data = rows.heap[first : first + total]
        data = data.copy() if data.flags.writeable else data  # a batch outlives such memory
    else:
        # Byte i of the result stands as far behind its text's start here as in the heap.
        data = rows.heap[np.repeat(starts - offsets[:-1], lengths) + np.arange(total)]
    return [pa.py_buffer(offsets.astype(offset_type)), pa.py_buffer(np.ascontiguousarray(data))]


# --- columns to rows ------------------------------------------------------------------------------


def records_of_batch(
    schema: RowSchema, batch: pa.RecordBatch | pa.Table
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8], None]:
    """Lay the rows of a batch out as records and a heap."""
    if schema.layout is Layout.ALIGNED and not schema.all_fixed:
        raise UnsupportedTypeError(
            "aligned rows carry text in tails of their own and are written by a RowArena",
            hint='lay a batch out as packed rows: RowSchema.from_arrow(schema, "packed")',
        )
    records = np.zeros(batch.num_rows, schema.dtype)
    if schema.layout is Layout.ALIGNED:
        records[HEADER] = (schema.schema_id, schema.fixed_size)
    texts: list[npt.NDArray[np.uint8]] = []
    end = 0
    for field in schema.fields:
        column = _column(batch, field)
        nulls = _write_nulls(schema, records, field, column)
        if field.is_variable:
            starts, lengths, data = _texts_of(column)
            records[field.name][:, 0] = starts + end
            records[field.name][:, 1] = lengths if nulls is None else np.where(nulls, 0, lengths)
            texts.append(data)
            end += len(data)
        else:
            records[field.name] = _numbers_of(column, field, nulls)
    if end > 2**32:
        raise RowFormatError(
            f"the text of a batch has {end} bytes, and an offset has 32 bits",
            hint="lay fewer rows out at a time",
        )
    heap = np.concatenate(texts) if texts else np.zeros(0, np.uint8)
    heap.flags.writeable = False
    return records, heap, None


def _column(batch: pa.RecordBatch | pa.Table, field: FieldLayout) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    found = None if at < 0 else batch.schema.field(at).type
    if found != field.type.arrow:
        raise SchemaMismatchError(
            f"rows have a field {field.name!r} of type {field.type.arrow}, and the batch "
            + ("does not" if found is None else f"has one of type {found}"),
            hint="cast the batch first",
            column=field.name,
        )
    column = batch.column(at)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _write_nulls(
    schema: RowSchema, records: npt.NDArray[np.void], field: FieldLayout, column: pa.Array
) -> npt.NDArray[np.bool_] | None:
    if not column.null_count:
        return None
    if not schema.null_bitmap_size:
        raise SchemaMismatchError(
            f"column {field.name!r} has nulls, and a struct of somebody else has none",
            hint="fill them first",
            column=field.name,
        )
    nulls: npt.NDArray[np.bool_] = numpy_array(column.is_null())
    bit = np.uint8(1 << (field.null_bit & 7))
    records[NULLS][:, field.null_bit >> 3] |= nulls * bit
    return nulls


def _numbers_of(
    column: pa.Array, field: FieldLayout, nulls: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.generic]:
    """Return the stored numbers; those of nulls are zero, so that equal rows have equal bytes."""
    buffer = column.buffers()[1]
    if field.type.getter == "bool":
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
        values = bits[column.offset : column.offset + len(column)]
    else:
        size = field.type.size
        values = np.frombuffer(buffer, field.type.view, len(column), column.offset * size)
    if nulls is None:
        return values
    values = values.copy()
    values[nulls] = np.zeros(1, values.dtype)[0]
    return values


def _texts_of(
    column: pa.Array,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return starts, lengths and the bytes of a text column, which begin at 0."""
    places, data = byte_offsets(column)
    offsets = places.astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]
    return offsets[:-1] - first, np.diff(offsets), held

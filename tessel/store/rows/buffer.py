"""RowBuffer: rows gathered one by one, or by thousands as bytes, until they become columns.

``append`` is written for each schema around one ``struct.pack_into``: it packs first and asks what
was wrong only where that fails, which is where a value is None, a date-time, or a mistake.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError, RowFormatError, SchemaMismatchError
from tessel.expression.scalars import is_missing
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import Layout, RowSchema

_FIRST_ROWS = 1024
_CHUNK_BYTES = 1 << 24
"""A chunk doubles up to here; then it is closed and the next one begun."""
_MOST_HEAP_BYTES = 2**32 - 1
_ABSENT: Any = object()
"""Stands for an argument that was not given."""


class RowBuffer:
    """Rows that wait to become columns.

    Parameters
    ----------
    schema
        Where the fields lie: packed rows, or a foreign struct. What is appended as values becomes
        rows of this layout; bytes are viewed where they lie.

    Attributes
    ----------
    append : callable
        ``append(*values)``: one row, a value a field in order, None for null. All or nothing: a
        value that its field does not take raises ``InvalidInputError`` and leaves the buffer as it
        was.
    """

    append: Callable[..., None]

    def __init__(self, schema: RowSchema) -> None:
        if schema.layout is Layout.ALIGNED and not schema.all_fixed:
            raise SchemaMismatchError(
                "aligned rows with text are written by a RowArena",
                hint='use RowSchema.from_arrow(schema, "packed")',
            )
        self.schema = schema
        self._taken: list[Rows] = []
        self._taken_rows = 0
        self._taken_bytes = 0
        self._chunk = bytearray(_FIRST_ROWS * schema.fixed_size)
        self._end = 0
        self._heaps = [bytearray() for field in schema.fields if field.is_variable]
        self.append = _appender(self)

    def extend(self, rows: Rows) -> None:
        """Add rows as they lie, without a copy; raises ``SchemaMismatchError`` for others."""
        if rows.schema is not self.schema and rows.schema != self.schema:
            raise SchemaMismatchError(
                f"rows of the fields {rows.schema.names} ({rows.schema.layout.value}) in a buffer "
                f"of {self.schema.names} ({self.schema.layout.value})",
                hint="make the buffer with the schema of the rows",
            )
        if len(rows):
            self._close_chunk()
            self._take(rows)

    def extend_bytes(self, data: BytesLike) -> int:
        """Add whole rows as bytes, checked and without a copy; return how many.

        The bytes must not change before the next :meth:`take`.

        Raises
        ------
        RowFormatError
            For bytes that are not whole rows of the schema; none of them is taken.
        """
        rows = Rows.from_bytes(self.schema, data)
        self.extend(rows)
        return len(rows)

    def __len__(self) -> int:
        return self._taken_rows + self._end // self.schema.fixed_size

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their text."""
        return self._taken_bytes + self._end + sum(map(len, self._heaps))

    def take(self) -> list[Rows]:
        """Return all rows, in their order, and hold none any more."""
        self._close_chunk()
        taken, self._taken = self._taken, []
        self._taken_rows = self._taken_bytes = 0
        return taken

    def take_batch(self) -> pa.RecordBatch:
        """Return all rows as columns, and hold none any more; the memory is used again."""
        if not self._taken:  # the common case: rows appended one by one become columns in place
            batch = self._chunk_rows().to_batch()
            self._forget_chunk()
            return batch
        table = pa.Table.from_batches([rows.to_batch() for rows in self.take()], self.schema.arrow)
        (batch,) = table.combine_chunks().to_batches()
        return batch

    # --- the rows appended one by one -------------------------------------------------------------

    def _chunk_rows(self) -> Rows:
        """Return the rows appended since the last chunk was closed, as they lie."""
        count = self._end // self.schema.fixed_size
        records = np.frombuffer(self._chunk, self.schema.dtype, count)
        if not self._heaps:
            return Rows(self.schema, records, np.zeros(0, np.uint8))
        # A heap a field, laid one after the other, so that each text column needs no gathering.
        heap = np.frombuffer(b"".join(self._heaps), np.uint8)
        before = 0
        variable = [field for field in self.schema.fields if field.is_variable]
        for field, part in zip(variable, self._heaps, strict=True):
            records[field.name][:, 0] += np.uint32(before)
            before += len(part)
        return Rows(self.schema, records, heap)

    def _close_chunk(self) -> None:
        if self._end:
            rows = self._chunk_rows()
            self._chunk = bytearray(len(self._chunk))
            self._forget_chunk()
            self._take(rows)

    def _forget_chunk(self) -> None:
        self._end = 0
        self._heaps[:] = [bytearray() for _ in self._heaps]

    def _take(self, rows: Rows) -> None:
        self._taken.append(rows)
        self._taken_rows += len(rows)
        self._taken_bytes += rows.nbytes

    def _grow(self) -> None:
        """Make room for one more row."""
        if len(self._chunk) - self._end >= self.schema.fixed_size:
            return
        if 2 * len(self._chunk) <= _CHUNK_BYTES:
            self._chunk = self._chunk + bytes(len(self._chunk))
        else:
            self._close_chunk()

    def _append_slowly(self, values: tuple[Any, ...]) -> None:
        """Append a row with nulls or values to be converted; say what is wrong with others."""
        schema = self.schema
        values = tuple(value for value in values if value is not _ABSENT)
        if len(values) != schema.field_count:
            raise InvalidInputError(
                f"a row of {len(values)} values, and the schema has {schema.field_count} fields",
                hint=f"give a value for each of {', '.join(schema.names)}; None for null",
            )
        record = bytearray(schema.fixed_size)
        stored: list[Any] = []
        for field, value in zip(schema.fields, values, strict=True):
            if is_missing(value):
                schema.mark_null(record, field)
                nothing = b"" if field.is_variable else bytes(field.size)
                stored.append(nothing if field.type.getter in ("str", "bytes") else 0)
            else:
                stored.append(field.type.stored(value, field.name))
        self._check_heap(sum(len(data) for data in stored if isinstance(data, bytes)))
        self._grow()
        heaps = iter(self._heaps)
        for field, codec, data in zip(schema.fields, schema.codecs, stored, strict=True):
            packed: tuple[Any, ...] = (data,)
            if field.is_variable:
                heap = next(heaps)
                packed = len(heap), len(data)
                heap += data
            codec.pack_into(record, field.offset, *packed)
        self._chunk[self._end : self._end + schema.fixed_size] = record
        self._end += schema.fixed_size

    def _check_heap(self, more: int) -> None:
        if sum(map(len, self._heaps)) + more > _MOST_HEAP_BYTES:
            raise RowFormatError(
                "the text of a batch passes what an offset of 32 bits can reach",
                hint="take the rows more often",
            )


def _appender(buffer: RowBuffer) -> Callable[..., None]:
    """Write ``append`` for a schema.

    A packed row is one call of ``pack_into``: bitmap and fields have no gaps. Other layouts go the
    slow way, which packs field by field.
    """
    schema = buffer.schema
    if schema.layout is not Layout.PACKED:
        return lambda *values: buffer._append_slowly(values)
    names = [f"v{at}" for at in range(schema.field_count)]
    checks, packed, codes = [], [], [f"{schema.null_bitmap_size}x"]  # no null: zeros
    texts = 0
    most_text = _MOST_HEAP_BYTES * schema.fixed_size // (_CHUNK_BYTES * schema.field_count)
    for name, field in zip(names, schema.fields, strict=True):
        if field.is_variable:
            method = f"{name}.encode()" if field.type.getter == "str" else f"bytes_of({name})"
            checks.append(f"d{texts} = {method}")
            # Texts up to this length cannot fill the heap of a chunk; longer ones are counted.
            checks.append(f"if len(d{texts}) > {most_text}: raise TypeError")
            packed.append(f"len(heaps[{texts}]), len(d{texts})")
            codes.append("II")
            texts += 1
            continue
        if field.type.getter == "bool":  # pack would take any number, and text for truth
            checks.append(f"if {name} is not True and {name} is not False: raise TypeError")
        elif field.type.code.endswith("s"):  # pack would cut, and pad with zeros
            checks.append(f"if len({name}) != {field.size}: raise TypeError")
        packed.append(name)
        codes.append(field.type.code)
    grown = [f"heaps[{at}] += d{at}" for at in range(texts)]
    lines = [
        f"def append({', '.join(f'{name}=absent' for name in names)}, *more):",
        "    if more:",
        f"        return buffer._append_slowly(({', '.join(names)}, *more))",
        "    at = buffer._end",
        "    try:",
        *(f"        {line}" for line in checks),
        f"        pack_into(buffer._chunk, at, {', '.join(packed)})",
        "    except (struct_error, TypeError, AttributeError, ValueError, OverflowError):",
        f"        return buffer._append_slowly(({', '.join(names)},))",
        *(f"    {line}" for line in grown),
        f"    buffer._end = at + {schema.fixed_size}",
    ]
    scope: dict[str, Any] = {
        "absent": _ABSENT,
        "buffer": buffer,
        "heaps": buffer._heaps,
        "bytes_of": _bytes_of,
        "pack_into": struct.Struct("<" + "".join(codes)).pack_into,
        "struct_error": struct.error,
    }
    exec("\n".join(lines), scope)
    append: Callable[..., None] = scope["append"]
    return append


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TypeError

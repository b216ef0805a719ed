"""Rows: many rows of one schema, read where they lie.

``rows[i]`` is a view of one row, ``rows.field("x")`` a strided view of a whole column; nothing is
copied. Bytes from outside enter through :meth:`Rows.from_bytes`, which checks them whole before any
of them is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import RowFormatError
from tessel.store.rows.columns import (
    arrow_column,
    arrow_columns,
    field_nulls,
    records_of_batch,
    row_texts,
)
from tessel.store.rows.event_row import EventRow
from tessel.store.rows.schema import Layout, RowSchema
from tessel.store.rows.wire import BATCH_HEADER, batch_header, parse_batch, parse_records

__all__ = ["Rows"]

BytesLike = bytes | bytearray | memoryview


class Rows(Sequence[EventRow]):
    """Rows in memory; made by :meth:`from_bytes`, :meth:`from_batch`, an arena or a buffer.

    Parameters
    ----------
    schema
        Where the fields lie.
    records
        One record a row, of ``schema.dtype``: contiguous, shape ``(rows,)``.
    heap
        The bytes of all text, uint8.
    starts
        What the offsets of each row's text count from, int64, shape ``(rows,)``; None for the start
        of the heap.
    """

    __slots__ = ("_raw", "heap", "records", "schema", "starts")

    def __init__(
        self,
        schema: RowSchema,
        records: npt.NDArray[np.void],
        heap: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.schema = schema
        self.records = records
        self.heap = heap
        self.starts = starts
        self._raw: memoryview | None = None

    @classmethod
    def from_bytes(cls, schema: RowSchema, data: BytesLike) -> Rows:
        """View bytes as rows: one packed batch, or aligned or foreign rows end to end.

        Raises
        ------
        RowFormatError
            For bytes that are not whole rows of the schema: another schema's number, half a row, a
            text that points outside its heap, text that is not UTF-8. Nothing is taken.
        """
        rows = (
            cls(schema, *parse_batch(schema, data))
            if schema.layout is Layout.PACKED
            else cls(schema, *parse_records(schema, data))
        )
        rows._check_texts()
        return rows

    @classmethod
    def from_batch(cls, schema: RowSchema, batch: pa.RecordBatch | pa.Table) -> Rows:
        """Lay the rows of an Arrow batch out as packed or foreign rows; columns go by name.

        Raises
        ------
        SchemaMismatchError
            For a batch without the columns, or of other types.
        UnsupportedTypeError
            For aligned rows with text, which only a :class:`RowArena` writes.
        """
        return cls(schema, *records_of_batch(schema, batch))

    def to_bytes(self) -> bytes:
        """Return the rows as bytes that :meth:`from_bytes` reads."""
        if self.schema.layout is Layout.PACKED:
            header = batch_header(self.schema, len(self.records), len(self.heap))
            return b"".join((header, self.records.tobytes(), self.heap.tobytes()))
        if self.schema.all_fixed:
            return self.records.tobytes()
        # Aligned rows carry their text themselves.
        assert self.starts is not None
        ends = self.starts + self.records[self.schema.header_field][:, 1]
        return b"".join(self.heap[a:b].data for a, b in zip(self.starts, ends, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their text, in memory and on the wire."""
        if self.starts is not None:
            return int(self.records[self.schema.header_field][:, 1].sum())
        header = BATCH_HEADER.size if self.schema.layout is Layout.PACKED else 0
        return header + self.records.nbytes + len(self.heap)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[EventRow]:
        return (EventRow(self, at) for at in range(len(self.records)))

    @overload
    def __getitem__(self, index: int) -> EventRow: ...

    @overload
    def __getitem__(self, index: slice) -> Rows: ...

    def __getitem__(self, index: int | slice) -> EventRow | Rows:
        if isinstance(index, slice):
            starts = None if self.starts is None else self.starts[index]
            records = np.ascontiguousarray(self.records[index])
            return Rows(self.schema, records, self.heap, starts)
        count = len(self.records)
        if not -count <= index < count:
            raise IndexError(f"row {index} of {count}")
        return EventRow(self, index % count)

    def taken(self, places: npt.NDArray[np.int64]) -> Rows:
        """Return the rows at some places, in their order; their text stays where it is."""
        starts = None if self.starts is None else self.starts[places]
        return Rows(self.schema, self.records.take(places), self.heap, starts)

    def field(self, name: str | int) -> npt.NDArray[np.generic]:
        """Return a whole column as it lies: a strided view, read only.

        Text and bytes give the pairs of offset and length, uint32 of shape ``(rows, 2)``. What
        stands where a value is null is anything: see :meth:`nulls`.
        """
        view = self.records[self.schema.field(name).name]
        view.flags.writeable = False
        return view

    def nulls(self, name: str | int) -> npt.NDArray[np.bool_]:
        """Return which rows have null in a field: shape ``(rows,)``."""
        found = field_nulls(self, self.schema.field(name))
        return np.zeros(len(self.records), np.bool_) if found is None else found

    def column(self, name: str | int) -> pa.Array:
        """Return a field of all rows as an Arrow array: one strided copy."""
        return arrow_column(self, self.schema.field(name))

    def to_batch(self) -> pa.RecordBatch:
        """Return the rows as columns."""
        return pa.RecordBatch.from_arrays(arrow_columns(self), schema=self.schema.arrow)

    @property
    def raw(self) -> memoryview:
        """The fixed parts of all rows as bytes, ``fixed_size`` each."""
        if self._raw is None:
            self._raw = self.records.view(np.uint8).data
        return self._raw

    def _check_texts(self) -> None:
        """Refuse text that points outside its heap, or that is not UTF-8."""
        for field in self.schema.fields:
            if field.is_variable:
                row_texts(self, field)
            if field.type.getter == "str" and len(self.records):
                try:
                    arrow_column(self, field).validate(full=True)
                except pa.ArrowInvalid as error:
                    raise RowFormatError(
                        f"field {field.name!r} holds text that is not UTF-8",
                        hint="declare the field as binary, or mend what writes it",
                        field=field.name,
                    ) from error

    def __repr__(self) -> str:
        return (
            f"Rows({len(self)} rows of {self.schema.field_count} fields, "
            f"{self.schema.layout.value}, {self.nbytes} bytes)"
        )

"""Rows: many rows of one schema, read where they lie, and EventRow, one of them.

``rows[i]`` is a view of one row, ``rows.field("x")`` a strided view of a whole column; nothing is
copied. Bytes from outside enter through :meth:`Rows.from_bytes`, which checks them whole before any
of them is taken.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import InvalidInputError, RowFormatError, SchemaMismatchError
from tessel.store.rows.columns import (
    arrow_column,
    arrow_columns,
    field_nulls,
    records_of_batch,
    row_texts,
)
from tessel.store.rows.schema import HEADER, FieldLayout, Layout, RowSchema
from tessel.store.rows.wire import BATCH_HEADER, batch_header, parse_batch, parse_records

Value = TypeVar("Value")

_EPOCH = dt.datetime(1970, 1, 1)


STORED_AS = "or the number that a date, time or duration of {} bits is stored as"
"""What the integers of a width are besides, in the texts of getters and setters."""


def _text(stored: Any) -> str:
    return str(stored, "utf-8")


def _getter(
    kind: str, what: str, made: Callable[[Any], Value]
) -> Callable[[EventRow, str | int], Value | None]:
    """Return the method that reads the fields of one kind."""

    def get(self: EventRow, field: str | int) -> Value | None:
        stored = self._typed(field, kind)
        return None if stored is None else made(stored)

    get.__name__, get.__qualname__ = f"get_{kind}", f"EventRow.get_{kind}"
    get.__doc__ = f"Return {what}; None for null."
    return get


class EventRow:
    """A view of one row: no copy; None stands for null.

    The typed getters refuse fields of other types. Each costs well under a microsecond; for many
    rows :meth:`Rows.field` reads a whole column at once.
    """

    __slots__ = ("_index", "_rows")

    def __init__(self, rows: Rows, index: int) -> None:
        self._rows = rows
        self._index = index

    @property
    def schema(self) -> RowSchema:
        """Where the fields lie."""
        return self._rows.schema

    def is_null(self, field: str | int) -> bool:
        """Return whether a field is null."""
        return self._is_null(self._rows.schema.field(field))

    def get(self, field: str | int) -> Any:
        """Return the value of a field.

        Timestamps and dates are ``numpy.datetime64``, durations and times of day ``timedelta64``,
        which lose nothing; see also :meth:`get_datetime`.
        """
        layout = self._rows.schema.field(field)
        stored = self._stored(layout)
        return None if stored is None else layout.type.shown(stored)

    get_bool = _getter("bool", "a bool", bool)
    get_i8 = _getter("i8", "an int8", int)
    get_i16 = _getter("i16", "an int16", int)
    get_i32 = _getter("i32", f"an int32, {STORED_AS.format(32)}", int)
    get_i64 = _getter("i64", f"an int64, {STORED_AS.format(64)}", int)
    get_u8 = _getter("u8", "a uint8", int)
    get_u16 = _getter("u16", "a uint16", int)
    get_u32 = _getter("u32", "a uint32", int)
    get_u64 = _getter("u64", "a uint64", int)
    get_f32 = _getter("f32", "a float32", float)
    get_f64 = _getter("f64", "a float64", float)
    get_str = _getter("str", "text", _text)
    get_bytes = _getter("bytes", "bytes", bytes)

    def get_datetime(self, field: str | int) -> dt.datetime | None:
        """Return a timestamp as a ``datetime`` in UTC where it has a zone; nanoseconds are cut."""
        layout = self._rows.schema.field(field)
        if not pa.types.is_timestamp(layout.type.arrow):
            raise _other_type(layout, "datetime")
        stored = self._stored(layout)
        if stored is None:
            return None
        microseconds = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
        times, by = microseconds[layout.type.arrow.unit]
        try:
            found = _EPOCH + dt.timedelta(microseconds=stored * times // by)
        except OverflowError as error:
            raise InvalidInputError(
                f"field {layout.name!r} lies outside the years 1 to 9999 of a datetime",
                hint="use get, or get_i64",
                field=layout.name,
            ) from error
        return found if layout.type.arrow.tz is None else found.replace(tzinfo=dt.UTC)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {field.name: self.get(field.position) for field in self._rows.schema.fields}

    def _typed(self, field: str | int, getter: str) -> Any:
        layout = self._rows.schema.field(field)
        if layout.type.getter != getter:
            raise _other_type(layout, getter)
        return self._stored(layout)

    def _is_null(self, layout: FieldLayout) -> bool:
        schema = self._rows.schema
        if not schema.null_bitmap_size:
            return False
        at = self._index * schema.fixed_size + schema.null_bitmap_offset + (layout.null_bit >> 3)
        return bool(self._rows.raw[at] >> (layout.null_bit & 7) & 1)

    def _stored(self, layout: FieldLayout) -> Any:
        """Return what is stored: a number, or a view of the bytes; None for null."""
        if self._is_null(layout):
            return None
        rows = self._rows
        codec = rows.schema.codecs[layout.position]
        found = codec.unpack_from(rows.raw, self._index * rows.schema.fixed_size + layout.offset)
        if not layout.is_variable:
            return found[0]
        start, length = found
        if rows.starts is not None:
            start += int(rows.starts[self._index])
        return rows.heap.data[start : start + length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventRow):
            return NotImplemented
        return self.schema.arrow == other.schema.arrow and self._bits() == other._bits()

    def _bits(self) -> list[object]:
        """Return what is stored in each field so that a NaN equals itself and not another NaN."""
        fields = self._rows.schema.fields
        stored = [self._stored(field) for field in fields]
        return [struct.pack("<d", value) if isinstance(value, float) else value for value in stored]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EventRow({', '.join(f'{k}={v!r}' for k, v in self.to_dict().items())})"


def _other_type(layout: FieldLayout, getter: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"field {layout.name!r} is {layout.type.arrow}, and get_{getter} was asked",
        hint=f"use get_{layout.type.getter}, or get",
        field=layout.name,
        type=str(layout.type.arrow),
    )


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
        ends = self.starts + self.records[HEADER][:, 1]
        return b"".join(self.heap[a:b].data for a, b in zip(self.starts, ends, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their text, in memory and on the wire."""
        if self.starts is not None:
            return int(self.records[HEADER][:, 1].sum())
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

"""EventRow: one row, read where it lies."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tessel.errors import InvalidInputError, SchemaMismatchError
from tessel.store.rows.schema import FieldLayout, RowSchema

if TYPE_CHECKING:
    from tessel.store.rows.rows import Rows

__all__ = ["STORED_AS", "EventRow"]

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

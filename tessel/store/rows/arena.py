"""RowArena: memory for rows that are filled field by field, and used again.

The memory is the wire form: :meth:`RowArena.rows` views what was written, without a copy.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tessel.errors import InvalidInputError, RowSpaceError
from tessel.expression.scalars import is_missing
from tessel.store.rows.rows import STORED_AS, EventRow, Rows
from tessel.store.rows.schema import FieldLayout, Layout, RowSchema

Value = TypeVar("Value")


class RowArena:
    """Hands out zeroed rows until its memory is used up.

    Parameters
    ----------
    schema
        Where the fields lie.
    row_capacity
        Rows that fit.
    var_capacity
        Bytes for text and bytes: of all rows together where they are packed, of each row where they
        are aligned.

    Examples
    --------
    >>> arena = RowArena(schema, row_capacity=1000, var_capacity=64_000)
    >>> row = arena.new_row()
    >>> row.set_f64("price", 101.5)
    >>> row.set_str("symbol", "ABC")
    >>> batch = arena.rows().to_batch()
    >>> arena.reset()
    """

    def __init__(
        self, schema: RowSchema, *, row_capacity: int = 1024, var_capacity: int = 0
    ) -> None:
        if row_capacity < 1 or var_capacity < 0:
            raise InvalidInputError(
                f"an arena for {row_capacity} rows and {var_capacity} bytes of text",
                hint="give at least one row, and no negative number of bytes",
            )
        self.schema = schema
        self._aligned = schema.layout is Layout.ALIGNED
        self._tail = -(-var_capacity // 8) * 8 if self._aligned and not schema.all_fixed else 0
        self._stride = schema.fixed_size + self._tail
        self._capacity = row_capacity
        self._memory = np.zeros(row_capacity * self._stride, np.uint8)
        self._heap = np.zeros(0 if self._aligned else var_capacity, np.uint8)
        self._count = 0
        self._heap_end = 0
        self._generation = 0

    def new_row(self) -> MutableEventRow:
        """Return a zeroed row: every number 0, every text empty, nothing null.

        Raises
        ------
        RowSpaceError
            Where all rows are used.
        """
        if self._count == self._capacity:
            raise RowSpaceError(
                f"all {self._capacity} rows of the arena are used",
                hint="take rows() and reset(), or make the arena with a larger row_capacity",
            )
        at = self._count * self._stride
        self._count += 1
        if self._aligned:
            header = self._memory[at : at + 8].view("<u4")
            header[:] = self.schema.schema_id, self._stride
        return MutableEventRow(self, at, self._generation)

    def rows(self) -> Rows:
        """Return the rows so far as they lie: a view that :meth:`reset` takes the memory from."""
        memory = self._memory[: self._count * self._stride]
        if self._aligned and not self.schema.all_fixed:
            starts = np.arange(self._count, dtype=np.int64) * self._stride
            fixed = memory.reshape(self._count, self._stride)[:, : self.schema.fixed_size]
            records = np.ascontiguousarray(fixed).reshape(-1).view(self.schema.dtype)
            return Rows(self.schema, records, memory, starts)
        heap = self._heap[: self._heap_end]
        return Rows(self.schema, memory.view(self.schema.dtype), heap)

    def reset(self) -> None:
        """Give all rows up and use their memory again; rows handed out before may not be set."""
        self._memory[: self._count * self._stride] = 0
        self._count = self._heap_end = 0
        self._generation += 1

    def __len__(self) -> int:
        return self._count

    # --- what rows do with the memory -------------------------------------------------------------

    def _check(self, generation: int) -> None:
        if generation != self._generation:
            raise InvalidInputError(
                "a row of an arena was set after the arena was reset",
                hint="set rows before reset(), and take new ones after it",
            )

    def _place_text(self, row: int, tail_end: int, data: bytes) -> tuple[int, int]:
        """Put text where there is room; return its offset, and the end of what the row uses."""
        if self._aligned:
            if tail_end + len(data) > self._stride:
                raise self._no_room(data, self._stride - tail_end, "the row's tail")
            at = row + tail_end
            self._memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
            return tail_end, tail_end + len(data)
        if self._heap_end + len(data) > len(self._heap):
            raise self._no_room(data, len(self._heap) - self._heap_end, "the heap")
        offset = self._heap_end
        self._heap[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        self._heap_end += len(data)
        return offset, tail_end

    @staticmethod
    def _no_room(data: bytes, left: int, where: str) -> RowSpaceError:
        return RowSpaceError(
            f"{len(data)} bytes of text, and {left} are left in {where}",
            hint="make the arena with a larger var_capacity",
        )


def _setter(
    kind: str, what: str, value_type: type[Value]
) -> Callable[[MutableEventRow, str | int, Value], None]:
    """Return the method that sets the fields of one kind to Python values of a type."""

    def set_typed(self: MutableEventRow, field: str | int, value: Value) -> None:
        self._typed(field, kind, value)

    set_typed.__name__, set_typed.__qualname__ = f"set_{kind}", f"MutableEventRow.set_{kind}"
    set_typed.__doc__ = f"Set {what}."
    return set_typed


class MutableEventRow:
    """A row of an arena that is being filled; every setter clears the field's null bit."""

    __slots__ = ("_arena", "_at", "_generation", "_tail_end")

    def __init__(self, arena: RowArena, at: int, generation: int) -> None:
        self._arena = arena
        self._at = at
        self._generation = generation
        self._tail_end = arena.schema.fixed_size

    def set(self, field: str | int, value: Any) -> None:
        """Set a field to a Python value of its type; None and what else is missing set null.

        Raises
        ------
        InvalidInputError
            For a value that the type does not hold.
        RowSpaceError
            Where no room is left for a text.
        """
        layout = self._arena.schema.field(field)
        if is_missing(value):
            self.set_null(field)
        else:
            self._store(layout, layout.type.stored(value, layout.name))

    def set_null(self, field: str | int) -> None:
        """Make a field null.

        Raises
        ------
        InvalidInputError
            For a struct of somebody else, which has no nulls.
        """
        self._arena._check(self._generation)
        layout, memory = self._arena.schema.field(field), self._arena._memory
        self._arena.schema.mark_null(memory, layout, self._at)
        at = self._at + layout.offset
        memory[at : at + layout.size] = 0

    set_bool = _setter("bool", "a bool", bool)
    set_i8 = _setter("i8", "an int8", int)
    set_i16 = _setter("i16", "an int16", int)
    set_i32 = _setter("i32", f"an int32, {STORED_AS.format(32)}", int)
    set_i64 = _setter("i64", f"an int64, {STORED_AS.format(64)}", int)
    set_u8 = _setter("u8", "a uint8", int)
    set_u16 = _setter("u16", "a uint16", int)
    set_u32 = _setter("u32", "a uint32", int)
    set_u64 = _setter("u64", "a uint64", int)
    set_f32 = _setter("f32", "a float32", float)
    set_f64 = _setter("f64", "a float64", float)
    set_str = _setter("str", "text", str)
    set_bytes = _setter("bytes", "bytes", bytes)

    def set_datetime(self, field: str | int, value: dt.datetime) -> None:
        """Set a timestamp; one with a zone for a field with one, and without for one without."""
        self._typed(field, "i64", value)

    def view(self) -> EventRow:
        """Return the row for reading."""
        self._arena._check(self._generation)
        return self._arena.rows()[self._at // self._arena._stride]

    def _typed(self, field: str | int, setter: str, value: Any) -> None:
        layout = self._arena.schema.field(field)
        if layout.type.getter != setter:
            raise InvalidInputError(
                f"field {layout.name!r} is {layout.type.arrow}, and set_{setter} was asked",
                hint=f"use set_{layout.type.getter}, or set",
                field=layout.name,
            )
        self._store(layout, layout.type.stored(value, layout.name))

    def _store(self, layout: FieldLayout, stored: Any) -> None:
        arena = self._arena
        arena._check(self._generation)
        values: tuple[Any, ...] = (stored,)
        if layout.is_variable:
            offset, self._tail_end = arena._place_text(self._at, self._tail_end, stored)
            values = (offset, len(stored))
        codec = arena.schema.codecs[layout.position]
        codec.pack_into(arena._memory.data, self._at + layout.offset, *values)
        if arena.schema.null_bitmap_size:
            at = self._at + arena.schema.null_bitmap_offset + (layout.null_bit >> 3)
            arena._memory[at] &= ~(1 << (layout.null_bit & 7)) & 0xFF

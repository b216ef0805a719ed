"""RowSchema: where every field of a row lies, computed once and never changed.

Three layouts, one way to read them all: each is a numpy structured dtype made of offsets and
formats. The bytes are specified in ``docs/format.md``.

========= ===================================================================================
packed    a null bitmap of ⌈fields / 8⌉ bytes, then the fields in order, nothing between; text
          and bytes as (offset, length) into one heap a batch; one header a batch
aligned   an 8-byte header a row, a bitmap padded to 8, fields at their natural alignment, text
          in the row's own tail: what compiled producers write
foreign   somebody else's struct, with offsets, padding and byte order of its own, and no nulls
========= ===================================================================================
"""

from __future__ import annotations

import enum
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tessel.cached import cached
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    InvalidInputError,
    UnsupportedTypeError,
    repeated,
)
from tessel.lazy import dataclass
from tessel.store.rows.field_types import FieldType, field_type

NULLS = "\0nulls"
"""Name of the null bitmap among the fields of the dtype; no column can have it."""

HEADER = "\0header"
"""Name of the header among the fields of the dtype of an aligned row."""

_ROW_HEADER_BYTES = 8
_MOST_ROW_BYTES = 1 << 24
_MOST_FIELDS = 65_535


class Layout(enum.Enum):
    """How the bytes of a row are laid out."""

    PACKED = "packed"
    ALIGNED = "aligned"
    FOREIGN = "foreign"


@dataclass(frozen=True)
class FieldLayout:
    """Where one field lies.

    Attributes
    ----------
    name, position
        Its name, and its place among the fields.
    type
        Its type, and how values of it lie in bytes.
    offset
        From the first byte of the row.
    null_bit
        Its bit in the null bitmap, counted from the lowest of the first byte.
    """

    name: str
    position: int
    type: FieldType
    offset: int
    null_bit: int

    @property
    def size(self) -> int:
        """Bytes in the fixed part of a row: 8 for text and bytes."""
        return self.type.size

    @property
    def is_variable(self) -> bool:
        """Whether the value lies in the heap, or the row's tail."""
        return self.type.is_variable


@dataclass(frozen=True)
class RowSchema:
    """The fields of a row and where they lie.

    Made by :meth:`from_arrow` or :meth:`from_struct`.

    Attributes
    ----------
    arrow
        Names and types; what batches made of the rows have.
    layout
        One of the three.
    fields
        In order.
    fixed_size
        Bytes of a row, text outside: the stride of a batch.
    null_bitmap_offset, null_bitmap_size
        Bytes; a foreign struct has no bitmap, and a size of 0.
    byte_order
        Of the numbers.
    """

    arrow: pa.Schema
    layout: Layout
    fields: tuple[FieldLayout, ...]
    fixed_size: int
    null_bitmap_offset: int
    null_bitmap_size: int
    byte_order: Literal["little", "big"] = "little"

    @classmethod
    def from_arrow(
        cls, schema: pa.Schema, layout: Literal["packed", "aligned"] = "packed"
    ) -> RowSchema:
        """Lay out the fields of an Arrow schema.

        Raises
        ------
        UnsupportedTypeError
            For a type that rows do not hold, by name.
        InvalidInputError, DuplicateColumnError
            For a layout that does not exist, no fields, or two of one name.
        """
        if layout not in ("packed", "aligned"):
            raise InvalidInputError(
                f"there is no row layout {layout!r}",
                hint='write "packed" or "aligned"; for other structs see RowSchema.from_struct',
            )
        kinds = _kinds(schema)
        aligned = layout == "aligned"
        header, multiple = (_ROW_HEADER_BYTES, 8) if aligned else (0, 1)
        bitmap = _padded(-(-len(kinds) // 8), multiple)
        offsets, end = _laid_out(kinds, header + bitmap, aligned=aligned)
        fields, size = _fields(schema.names, kinds, offsets), _padded(end, multiple)
        return cls(_bare(schema), Layout(layout), fields, size, header, bitmap)

    @classmethod
    def from_struct(
        cls,
        schema: pa.Schema,
        offsets: Mapping[str, int],
        row_size: int,
        *,
        byte_order: Literal["little", "big"] = "little",
    ) -> RowSchema:
        """Describe a struct of somebody else: an exchange's message, a sensor's packet.

        Parameters
        ----------
        schema
            The fields that are read, of fixed size: texts of a fixed width are ``pa.binary(n)``.
        offsets
            Of each field, in bytes from the start of a struct.
        row_size
            Bytes from one struct to the next, padding included.
        byte_order
            Of its numbers.

        Raises
        ------
        InvalidInputError
            For an offset that is missing, or a field that does not lie inside the struct.
        """
        kinds = _kinds(schema)
        if byte_order not in ("little", "big"):
            raise InvalidInputError(f"the byte order is little or big, not {byte_order!r}")
        if not 0 < row_size <= _MOST_ROW_BYTES:
            raise InvalidInputError(f"a struct of {row_size} bytes", hint="give row_size in bytes")
        unknown = [name for name in offsets if name not in schema.names]
        if unknown:
            raise ColumnNotFoundError.for_name(unknown[0], schema.names, where="the struct")
        for name, kind in zip(schema.names, kinds, strict=True):
            if kind.is_variable:
                raise UnsupportedTypeError(
                    f"field {name!r} of a struct is {kind.arrow}, which has no fixed size",
                    hint="read text of a fixed width as pa.binary(width)",
                    field=name,
                )
            at = offsets.get(name)
            if at is None or not 0 <= at <= row_size - kind.size:
                raise InvalidInputError(
                    f"field {name!r} ({kind.size} bytes) lies at {at} in a struct of {row_size}",
                    hint="offsets are bytes from the start of the struct",
                    field=name,
                )
        fields = _fields(schema.names, kinds, [offsets[name] for name in schema.names])
        return cls(_bare(schema), Layout.FOREIGN, fields, row_size, 0, 0, byte_order)

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    @property
    def field_count(self) -> int:
        """How many fields there are."""
        return len(self.fields)

    @cached
    def all_fixed(self) -> bool:
        """Whether no field is text or bytes of any length."""
        return not any(field.is_variable for field in self.fields)

    @cached
    def schema_id(self) -> int:
        """A number of 32 bits that follows from names and types alone, the same everywhere.

        The first four bytes, little endian, of BLAKE2s of the lines ``name<TAB>type``.
        """
        lines = "".join(f"{field.name}\t{field.type.arrow}\n" for field in self.fields)
        return int.from_bytes(hashlib.blake2s(lines.encode()).digest()[:4], "little")

    @cached
    def dtype(self) -> np.dtype[np.void]:
        """The dtype of a row: a field each, the bitmap as :data:`NULLS`; the stride is its size."""
        names = list(self.names)
        formats = [_format(self, field) for field in self.fields]
        offsets = [field.offset for field in self.fields]
        if self.null_bitmap_size:
            names.append(NULLS)
            formats.append(("|u1", (self.null_bitmap_size,)))
            offsets.append(self.null_bitmap_offset)
        if self.layout is Layout.ALIGNED:
            names.append(HEADER)
            formats.append(("<u4", (2,)))
            offsets.append(0)
        return np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": self.fixed_size}
        )

    @cached
    def codecs(self) -> tuple[struct.Struct, ...]:
        """What packs and unpacks each field: its value, or the pair of offset and length."""
        order = "<" if self.byte_order == "little" else ">"
        return tuple(struct.Struct(order + (field.type.code or "II")) for field in self.fields)

    def field(self, name: str | int) -> FieldLayout:
        """Return a field by name or position; raises ``ColumnNotFoundError`` for others."""
        if isinstance(name, str):
            found = self._by_name.get(name)
            if found is None:
                raise ColumnNotFoundError.for_name(name, self.names, where="the rows")
            return found
        if not -len(self.fields) <= name < len(self.fields):
            raise ColumnNotFoundError(
                f"no field {name} in rows of {len(self.fields)} fields", existing=self.names
            )
        return self.fields[name]

    def mark_null(self, row: Any, field: FieldLayout, start: int = 0) -> None:
        """Set the null bit of a field of the row that begins at a place of some memory.

        Raises InvalidInputError for a struct of somebody else, which has no nulls.
        """
        if not self.null_bitmap_size:
            raise InvalidInputError(
                f"field {field.name!r} of a struct of somebody else cannot be null",
                field=field.name,
            )
        row[start + self.null_bitmap_offset + (field.null_bit >> 3)] |= 1 << (field.null_bit & 7)

    @cached
    def _by_name(self) -> dict[str, FieldLayout]:
        return {field.name: field for field in self.fields}


def _kinds(schema: pa.Schema) -> list[FieldType]:
    if not len(schema):
        raise InvalidInputError("a row needs a field", hint="give a schema with columns")
    if len(schema) > _MOST_FIELDS:
        raise InvalidInputError(f"a row of {len(schema)} fields", hint=f"at most {_MOST_FIELDS}")
    twice = repeated(schema.names)
    if twice is not None:
        raise DuplicateColumnError(f"two fields are named {twice!r}", column=twice)
    for name in schema.names:
        if name.startswith("\0"):
            raise InvalidInputError(f"a field cannot be named {name!r}")
    return [field_type(field.name, field.type) for field in schema]


def _bare(schema: pa.Schema) -> pa.Schema:
    """Return names and types alone: metadata are no part of a row."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _laid_out(kinds: Sequence[FieldType], start: int, *, aligned: bool) -> tuple[list[int], int]:
    offsets = []
    for kind in kinds:
        start = _padded(start, kind.alignment) if aligned else start
        offsets.append(start)
        start += kind.size
    if start > _MOST_ROW_BYTES:
        raise InvalidInputError(f"a row of {start} bytes", hint=f"at most {_MOST_ROW_BYTES}")
    return offsets, start


def _fields(
    names: Sequence[str], kinds: Sequence[FieldType], offsets: Sequence[int]
) -> tuple[FieldLayout, ...]:
    places = enumerate(zip(names, kinds, offsets, strict=True))
    return tuple(FieldLayout(name, at, kind, offset, at) for at, (name, kind, offset) in places)


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _format(schema: RowSchema, field: FieldLayout) -> object:
    view = field.type.view
    if schema.byte_order == "big":
        view = view.replace("<", ">")
    return (view, (2,)) if field.is_variable else view

"""Forged segments: fields and bytes changed, and every checksum made right again.

What a flipped byte cannot test: here validation has to find the damage, no checksum does. Places of
fields are those of ``docs/format.md``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

FOOTER_BYTES = 96
COLUMN_BYTES = 64
PAGE_BYTES = 112


@dataclass(frozen=True)
class Field:
    """Where a field of a record lies, and the :mod:`struct` letter of its type."""

    place: int
    letter: str

    @property
    def bits(self) -> int:
        return 8 * struct.calcsize(self.letter)


def _fields(layout: str) -> dict[str, Field]:
    """``name:letter`` in the order of the record; names with ``_`` first are not changed."""
    place, found = 0, {}
    for name, letter in (entry.split(":") for entry in layout.split()):
        found[name] = Field(place, letter)
        place += struct.calcsize("<" + letter)
    return {name: field for name, field in found.items() if not name.startswith("_")}


PAGE_FIELDS = _fields(
    "first_row:Q offset:Q length:I payload_length:I base:Q step:Q minimum:Q maximum:Q item_start:Q"
    " row_count:I checksum:I null_count:I nan_count:I start_1:I start_2:I start_3:I start_4:I"
    " count:I exceptions:I encoding:B inner:B bit_width:B inner_width:B codec:B exponent:b flags:H"
)
COLUMN_FIELDS = _fields(
    "column_id:Q value_count:Q page_table:Q page_table_checksum:I page_count:I node:I parent:i"
    " dictionary_count:I width:I prefix_start:I prefix_length:H role:B kind:B page_shift:B"
    " has_dictionary:B"
)
FOOTER_FIELDS = _fields(
    "segment_length:Q row_count:Q metadata_start:Q directory_start:Q prefixes_start:Q"
    " schema_start:Q page_count:Q column_count:I prefixes_length:I schema_length:I"
    " directory_checksum:I _reserved:I footer_checksum:I version_major:H version_minor:H"
    " _reserved_2:I"
)


class Forgery:
    """A segment that is changed in place; :meth:`signed` gives it with the right checksums."""

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        self._footer = len(data) - FOOTER_BYTES
        self._directory = self.footer("directory_start")
        self._schema = self.footer("schema_start")
        # Where records and pages really lie is remembered: forged places do not mislead changes.
        self.columns = self.footer("column_count")
        self._tables = [self.column(node, "page_table") for node in range(self.columns)]
        self._records = [
            self.column(node, "page_count") + self.column(node, "has_dictionary")
            for node in range(self.columns)
        ]
        self._pages = {
            (node, page): (self.page(node, page, "offset"), self.page(node, page, "length"))
            for node in range(self.columns)
            for page in range(self._records[node])
        }

    def records(self, node: int) -> int:
        """Page records of a node, its dictionary's included."""
        return self._records[node]

    def _get(self, start: int, field: Field) -> int:
        return int(struct.unpack_from("<" + field.letter, self._data, start + field.place)[0])

    def _set(self, start: int, field: Field, value: int) -> None:
        value %= 1 << field.bits
        if field.letter.islower() and value >> (field.bits - 1):
            value -= 1 << field.bits
        struct.pack_into("<" + field.letter, self._data, start + field.place, value)

    def footer(self, name: str, value: int | None = None) -> int:
        """Return a field of the footer; with a value, change it first."""
        if value is not None:
            self._set(self._footer, FOOTER_FIELDS[name], value)
        return self._get(self._footer, FOOTER_FIELDS[name])

    def column(self, node: int, name: str, value: int | None = None) -> int:
        """Return a field of a column's record; with a value, change it first."""
        start = self._directory + COLUMN_BYTES * node
        if value is not None:
            self._set(start, COLUMN_FIELDS[name], value)
        return self._get(start, COLUMN_FIELDS[name])

    def page(self, node: int, page: int, name: str, value: int | None = None) -> int:
        """Return a field of a page's record; with a value, change it first."""
        start = self._tables[node] + PAGE_BYTES * page
        if value is not None:
            self._set(start, PAGE_FIELDS[name], value)
        return self._get(start, PAGE_FIELDS[name])

    def payload(self, node: int, page: int) -> memoryview:
        """Return the stored bytes of a page, to be changed in place."""
        offset, length = self._pages[node, page]
        return memoryview(self._data)[offset : offset + length]

    def schema(self) -> memoryview:
        """Return the bytes of the schema, to be changed in place."""
        return memoryview(self._data)[self._schema : self._footer]

    def signed(self) -> bytes:
        """Return the segment with every checksum made right, inside out."""
        for node, records in enumerate(self._records):
            for page in range(records):
                offset, length = self.page(node, page, "offset"), self.page(node, page, "length")
                self.page(node, page, "checksum", self._checksum(offset, offset + length))
        for node in range(self.columns):
            start = self.column(node, "page_table")
            count = self.column(node, "page_count") + self.column(node, "has_dictionary")
            checksum = self._checksum(start, start + PAGE_BYTES * count)
            self.column(node, "page_table_checksum", checksum)
        checksum = self._checksum(self.footer("directory_start"), self._footer)
        self.footer("directory_checksum", checksum)
        self.footer("footer_checksum", 0)
        self.footer("footer_checksum", self._checksum(self._footer, len(self._data)))
        return bytes(self._data)

    def _checksum(self, start: int, end: int) -> int:
        return google_crc32c.value(bytes(self._data[start:end]))

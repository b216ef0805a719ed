"""A slow, plain decoder of segment files, written from ``docs/format.md`` and from nothing else.

The second oracle of the segment format: it shares no line with the store, so a mistake has to be
made twice to go unseen. It uses ``int.from_bytes`` and :mod:`struct`; pyarrow only takes LZ4 and
Zstandard blocks apart and reads the schema message. One page at a time, one value at a time,
nothing is kept back: :func:`decode_segment` checks every rule of the page that a file can break.

Values come out as plain Python objects, floats as the integers of their bits:

======================================== ====================================================
kind                                     value
======================================== ====================================================
BOOLEAN                                  bool
SIGNED, and the unscaled DECIMAL         int
UNSIGNED, and the bits of a FLOAT        int, not negative
TEXT, BINARY, FIXED                      bytes
list, fixed-size list                    list of values
struct                                   tuple of values
null                                     None
======================================== ====================================================
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import CorruptSegmentError, FormatVersionError
from tests.store.reference.encodings import (
    DICTIONARY,
    OFFSETS,
    PAGE_BYTES,
    PageEntry,
    Value,
    check_offsets,
    check_values,
    crc32c,
    page_entry,
    page_slots,
    page_values,
    require,
    with_nulls,
)

__all__ = [
    "ColumnEntry",
    "PageEntry",
    "ReferencePage",
    "ReferenceSegment",
    "Value",
    "crc32c",
    "decode_segment",
    "read_segment",
]

MAGIC: Final = b"TSLSEG\r\n"
VERSIONS: Final = ((1, 0), (0, 1))
VALUES, LIST, FIXED_LIST, STRUCT = range(4)

_FOOTER = struct.Struct("<7Q4I4xI2H4x8s")
_COLUMN = struct.Struct("<3Q3Ii3IH4B6x")


@dataclass(frozen=True)
class FooterEntry:
    """The footer; fields as on the format page."""

    segment_length: int
    row_count: int
    metadata_start: int
    directory_start: int
    prefixes_start: int
    schema_start: int
    page_count: int
    column_count: int
    prefixes_length: int
    schema_length: int
    directory_checksum: int
    footer_checksum: int
    version_major: int
    version_minor: int
    magic: bytes


@dataclass(frozen=True)
class ColumnEntry:
    """A record of the column directory; fields as on the format page."""

    column_id: int
    value_count: int
    page_table: int
    page_table_checksum: int
    page_count: int
    node: int
    parent: int
    dictionary_count: int
    width: int
    prefix_start: int
    prefix_length: int
    role: int
    kind: int
    page_shift: int
    has_dictionary: int


@dataclass(frozen=True)
class ReferencePage:
    """A decoded page: its record and its values, nulls as None."""

    entry: PageEntry
    values: list[Value]


@dataclass(frozen=True)
class ReferenceSegment:
    """A segment whose metadata is read; pages are decoded when asked for.

    Attributes
    ----------
    data
        All bytes of the segment.
    footer, schema
        As stored.
    columns
        The column directory; record *n* is node *n*.
    types
        Per node its Arrow type.
    pages
        Per node its data pages.
    dictionaries
        Per node the record of its dictionary, or None.
    prefixes
        Per node the common prefix of its text.
    decoded_dictionaries
        Per node its dictionary, once it was needed.
    """

    data: bytes
    footer: FooterEntry
    schema: pa.Schema
    columns: list[ColumnEntry]
    types: list[pa.DataType]
    pages: list[list[PageEntry]]
    dictionaries: list[PageEntry | None]
    prefixes: list[bytes]
    decoded_dictionaries: dict[int, list[Value]] = field(default_factory=dict)

    def children(self, node: int) -> list[int]:
        """Return the nodes directly below a node."""
        return [column.node for column in self.columns if column.parent == node]

    def page(self, node: int, number: int) -> ReferencePage:
        """Decode page ``number`` of a node, with all that is below it."""
        column, entry = self.columns[node], self.pages[node][number]
        slots = self._slots(entry)
        if column.role == STRUCT:
            parts = [self.page(child, number).values for child in self.children(node)]
            require(all(len(part) == entry.row_count for part in parts), "children of other sizes")
            values: list[Value] = [
                tuple(part[row] for part in parts) for row in range(entry.row_count)
            ]
        elif column.role == FIXED_LIST:
            items = self.page(node + 1, number).values
            size = column.width
            require(len(items) == entry.row_count * size, "items of a fixed-size list are missing")
            values = [items[row * size : (row + 1) * size] for row in range(entry.row_count)]
        elif column.role == LIST:
            values = self._lists(node, number, slots)
        else:
            values = self._values(column, entry, slots, self.dictionary(node))
        values = with_nulls(values, entry, slots[0])
        check_values(values, self.types[node])
        return ReferencePage(entry, values)

    def dictionary(self, node: int) -> list[Value] | None:
        """Return the values of a node's dictionary, or None where it has none."""
        entry = self.dictionaries[node]
        if entry is None:
            return None
        if node not in self.decoded_dictionaries:
            column = self.columns[node]
            require(entry.row_count == column.dictionary_count, "dictionary counts differ")
            require(entry.encoding != DICTIONARY, "a dictionary held by a dictionary")
            require(entry.null_count == 0, "a null in a dictionary")
            values = self._values(column, entry, self._slots(entry), None)
            kind = self.types[node]
            check_values(values, kind.value_type if pat.is_dictionary(kind) else kind)
            self.decoded_dictionaries[node] = values
        return self.decoded_dictionaries[node]

    def column(self, node: int) -> list[Value]:
        """Decode all pages of a node."""
        count = len(self.pages[node])
        return [value for number in range(count) for value in self.page(node, number).values]

    def _slots(self, entry: PageEntry) -> list[bytes]:
        stored = self.data[entry.offset : entry.offset + entry.length]
        require(entry.offset % 64 == 0, "a page begins at no multiple of 64")
        require(entry.offset + entry.length <= self.footer.metadata_start, "a page ends too late")
        require(crc32c(stored) == entry.checksum, "checksum of a page")
        return page_slots(stored, entry)

    def _values(
        self,
        column: ColumnEntry,
        entry: PageEntry,
        slots: list[bytes],
        dictionary: list[Value] | None,
    ) -> list[Value]:
        count = entry.row_count
        if column.kind == OFFSETS:
            count = count + 1 if count else 0
        return page_values(entry, slots, column.kind, column.width, count, dictionary)

    def _lists(self, node: int, number: int, slots: list[bytes]) -> list[Value]:
        entry = self.pages[node][number]
        offsets = self._values(self.columns[node], entry, slots, None) or [0]
        items = self.page(node + 1, number)
        check_offsets(offsets, len(items.values))
        require(offsets[-1] == len(items.values), "the last offset is not the number of items")
        require(entry.item_start == items.entry.first_row, "item_start is another page's")
        return [items.values[a:b] for a, b in itertools.pairwise(offsets)]


def _read_footer(data: bytes) -> FooterEntry:
    require(len(data) >= _FOOTER.size, "shorter than a footer")
    tail = data[-_FOOTER.size :]
    footer = FooterEntry(*_FOOTER.unpack(tail))
    require(footer.magic == MAGIC, "not a segment")
    zeroed = tail[:76] + bytes(4) + tail[80:]
    require(crc32c(zeroed) == footer.footer_checksum, "checksum of the footer")
    version = (footer.version_major, footer.version_minor)
    if version not in VERSIONS:
        raise FormatVersionError(f"reference decoder reads {VERSIONS}, not {version}")
    require(footer.segment_length == len(data), "segment_length")
    directory_end = footer.directory_start + 64 * footer.column_count
    require(footer.prefixes_start == directory_end, "prefixes do not follow the directory")
    schema_start = footer.prefixes_start + footer.prefixes_length
    require(footer.schema_start == schema_start, "the schema does not follow the prefixes")
    schema_end = footer.schema_start + footer.schema_length
    require(schema_end == len(data) - _FOOTER.size, "the schema does not end at the footer")
    directory = data[footer.directory_start : schema_end]
    require(crc32c(directory) == footer.directory_checksum, "checksum of the directory")
    return footer


def read_segment(data: bytes) -> ReferenceSegment:
    """Read the metadata of a segment.

    Parameters
    ----------
    data
        The bytes of one segment, footer included.

    Raises
    ------
    CorruptSegmentError
        When the bytes break a rule of the format page.
    FormatVersionError
        For a segment of another version.
    """
    footer = _read_footer(data)
    schema_end = footer.schema_start + footer.schema_length
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data[footer.schema_start : schema_end]))
    except (OSError, ValueError) as error:
        raise CorruptSegmentError(f"reference decoder: schema: {error}") from error
    columns = [
        ColumnEntry(*_COLUMN.unpack_from(data, footer.directory_start + 64 * node))
        for node in range(footer.column_count)
    ]
    pages: list[list[PageEntry]] = []
    dictionaries: list[PageEntry | None] = []
    table = footer.metadata_start
    for node, column in enumerate(columns):
        require(column.node == node and column.parent < node, "nodes are not in preorder")
        require(column.page_table == table, "page tables are not contiguous")
        records = column.page_count + column.has_dictionary
        table += PAGE_BYTES * records
        require(table <= footer.directory_start, "page tables run into the directory")
        entries = data[column.page_table : table]
        require(crc32c(entries) == column.page_table_checksum, "checksum of a page table")
        made = [
            page_entry(entries[at : at + PAGE_BYTES]) for at in range(0, len(entries), PAGE_BYTES)
        ]
        pages.append(made[: column.page_count])
        dictionaries.append(made[-1] if column.has_dictionary else None)
        _check_pages(column, pages[-1], footer.row_count)
    prefixes = []
    for column in columns:
        start = footer.prefixes_start + column.prefix_start
        prefixes.append(data[start : start + column.prefix_length])
    require(
        sum(map(len, pages)) + sum(d is not None for d in dictionaries) == footer.page_count,
        "page_count of the footer",
    )
    types = [kind for field in schema for kind in _node_types(field.type)]
    require(len(types) == len(columns), "the schema has another number of nodes")
    return ReferenceSegment(data, footer, schema, columns, types, pages, dictionaries, prefixes)


def _node_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of a tree of fields in preorder."""
    if pat.is_struct(kind):
        return [kind, *(node for field in kind for node in _node_types(field.type))]
    if pat.is_list(kind) or pat.is_fixed_size_list(kind):
        return [kind, *_node_types(kind.value_type)]
    return [kind]


def _check_pages(column: ColumnEntry, pages: list[PageEntry], rows: int) -> None:
    shift = column.page_shift
    require(shift <= 16, "pages are too long")
    require(column.page_count == -(-rows >> shift), "another number of pages than rows need")
    first = 0
    for number, page in enumerate(pages):
        require(page.first_row == first, "the rows of pages do not follow each other")
        if column.parent < 0:
            expected = min((number + 1) << shift, rows) - (number << shift)
            require(page.row_count == expected, "a page has another number of rows")
        if column.kind != 0:
            claimed = page.row_count * (column.width or 4)
            require(claimed <= (16 << 20) + 512 * page.length, "a page claims too many values")
        first += page.row_count
    require(first == column.value_count, "the rows of the pages do not add up")


def decode_segment(data: bytes) -> dict[str, list[Value]]:
    """Decode a whole segment.

    Parameters
    ----------
    data
        The bytes of one segment, footer included.

    Returns
    -------
    dict
        Per top-level column, by its name in the segment's schema, its values.

    Raises
    ------
    CorruptSegmentError
        When the bytes break a rule of the format page.
    FormatVersionError
        For a segment of another version.
    """
    segment = read_segment(data)
    tops = [column.node for column in segment.columns if column.parent < 0]
    require(len(tops) == len(segment.schema), "the schema has another number of columns")
    return {
        name: segment.column(node) for name, node in zip(segment.schema.names, tops, strict=True)
    }

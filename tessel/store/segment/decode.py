"""From pages to Arrow: rows of a column, in one allocation where they span pages.

Readers and the decode stream enter here. Physical columns are decoded one by one, each page into
its place of a buffer that was allocated once, and put together by
:func:`tessel.store.encodings.fields.assemble`. Where a page holds the Arrow buffers themselves,
nothing is copied. Where all pages of a column are arithmetic (no nulls, no exceptions, no codec),
its values are written by machine code, in one pass over all pages and without the interpreter's
lock; others are decoded page by page by the encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.decode_rows import decode_numbers, texts_of_codes
from tessel.lazy import dataclass
from tessel.memory import allocate
from tessel.store.encodings.base import PageEncoding
from tessel.store.encodings.codes import VARIABLE_KINDS, EncodingCode, Role, ValueKind
from tessel.store.encodings.fields import (
    FieldNode,
    NodeValues,
    assemble,
    to_arrow,
)
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import Bytes, Page, PhysicalValues, native_dtype
from tessel.store.segment.page_tables import PageTable
from tessel.store.segment.pages import SegmentPages

_LARGEST_OFFSET = (1 << 31) - 1
_ALREADY_ARROW = frozenset({EncodingCode.FLAT, EncodingCode.VARIABLE})


@dataclass(frozen=True, slots=True, eq=False)
class PagePart:
    """Rows of one page that are wanted.

    Attributes
    ----------
    start, stop
        Rows of the page, ``[start, stop)``, at least one.
    at
        Where they go: a place among the rows wanted.
    """

    number: int
    page: Page
    start: int
    stop: int
    at: int

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.stop - self.start

    @property
    def encoding(self) -> PageEncoding:
        """What decodes the page."""
        return encoding_by_code(self.page.encoding)


def page_parts(segment: SegmentPages, node: int, start: int, stop: int) -> list[PagePart]:
    """Return what pages hold rows ``[start, stop)`` of a physical column; touches those pages."""
    parts: list[PagePart] = []
    if start >= stop:
        return parts
    first_rows = segment.first_rows(node)
    first, last = np.searchsorted(first_rows, [start, stop - 1], "right").tolist()
    for number in range(first - 1, last):
        begin, end = int(first_rows[number]), int(first_rows[number + 1])
        low, high = max(start, begin), min(stop, end)
        if low < high:
            page = segment.page(node, number)
            parts.append(PagePart(number, page, low - begin, high - begin, low - start))
    return parts


def decode_column(segment: SegmentPages, node: FieldNode, start: int, stop: int) -> pa.ChunkedArray:
    """Return rows ``[start, stop)`` of a top-level column, or of a struct's child projected alone.

    Returns
    -------
    pa.ChunkedArray
        Of one chunk; where pages hold the Arrow buffers themselves, of one chunk a page, all of
        them views of the segment.
    """
    if node.role == Role.VALUES:
        plain = decode_plain(segment, node, start, stop)
        if plain is not None:
            return pa.chunked_array([plain], type=node.type)
        parts = page_parts(segment, node.number, start, stop)
        whole = node.kind != ValueKind.BOOLEAN and len(parts) > 1
        if whole and all(part.page.encoding in _ALREADY_ARROW for part in parts):
            chunks = [_leaf_array(segment, node, [replace(p, at=0)], p.rows) for p in parts]
            return pa.chunked_array(chunks, type=node.type)
        return pa.chunked_array([_leaf_array(segment, node, parts, stop - start)], type=node.type)
    values: list[NodeValues | None] = [None] * len(segment.nodes)
    decode_node(segment, node, start, stop, values)
    return pa.chunked_array([assemble(node, segment.nodes, values)], type=node.type)


def _leaf_array(
    segment: SegmentPages, node: FieldNode, parts: Sequence[PagePart], rows: int
) -> pa.Array:
    values: list[NodeValues | None] = [None] * len(segment.nodes)
    values[node.number] = _leaf(segment, node, parts, rows)
    return assemble(node, segment.nodes, values)


def decode_node(
    segment: SegmentPages,
    node: FieldNode,
    start: int,
    stop: int,
    into: list[NodeValues | None],
) -> None:
    """Decode rows ``[start, stop)`` of a node and of all below it.

    Parameters
    ----------
    start, stop
        Counted in rows of the node.
    into
        By node number: gets what was decoded.
    """
    rows = stop - start
    parts = page_parts(segment, node.number, start, stop)
    if node.role == Role.VALUES:
        into[node.number] = _leaf(segment, node, parts, rows)
        return
    validity, nulls = join_validity(parts, rows)
    if node.role == Role.LIST:
        offsets, first_item, end_item = _list_offsets(segment, node, parts, rows)
        into[node.number] = NodeValues(rows, offsets, validity, nulls)
        decode_node(segment, segment.nodes[node.number + 1], first_item, end_item, into)
        return
    into[node.number] = NodeValues(rows, None, validity, nulls)
    size = node.width if node.role == Role.FIXED_LIST else 1
    at = node.number + 1
    while at < node.end:
        child = segment.nodes[at]
        decode_node(segment, child, start * size, stop * size, into)
        at = child.end


def _list_offsets(
    segment: SegmentPages, node: FieldNode, parts: Sequence[PagePart], rows: int
) -> tuple[PhysicalValues, int, int]:
    """Return the offsets of some lists from the first item of them, and what items these are."""
    offsets = allocate(rows + 1, np.int32)
    offsets[0] = 0
    first_item = end_item = 0
    for part in parts:
        held = part.encoding.decode(part.page, part.start, part.stop + 1).data.astype(np.int64)
        item_start = int(segment.first_rows(node.number + 1)[part.number])
        if part.at == 0:
            first_item = item_start + int(held[0])
        end_item = item_start + int(held[-1])
        if end_item - first_item > _LARGEST_OFFSET:
            raise part.page.damaged("it has more items than an array can hold")
        offsets[part.at + 1 : part.at + part.rows + 1] = held[1:] + (item_start - first_item)
    return PhysicalValues(ValueKind.OFFSETS, 4, rows, offsets), first_item, end_item


def _leaf(
    segment: SegmentPages, node: FieldNode, parts: Sequence[PagePart], rows: int
) -> NodeValues:
    if node.kind == ValueKind.NONE:
        return NodeValues(rows, None)
    validity, nulls = join_validity(parts, rows)
    if node.is_dictionary:
        codes = decode_codes(parts, rows, np.dtype(node.type.index_type.to_pandas_dtype()))
        values = PhysicalValues(node.kind, node.width, rows, np.empty(0, np.uint8), codes=codes)
        dictionary = segment.dictionary_array(node.number, rows)
        return NodeValues(rows, values, validity, nulls, dictionary)
    if node.kind in VARIABLE_KINDS:
        return NodeValues(rows, _variable(parts, node.kind, rows), validity, nulls)
    return NodeValues(rows, _fixed(parts, node, rows), validity, nulls)


def decode_codes(parts: Sequence[PagePart], rows: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the places in the dictionary of rows that are in pages of a dictionary column."""
    codes = allocate(rows, dtype)
    for part in parts:
        held = part.encoding.codes(part.page, part.start, part.stop)
        codes[part.at : part.at + part.rows] = held
    return codes


def _fixed(parts: Sequence[PagePart], node: FieldNode, rows: int) -> PhysicalValues:
    if len(parts) == 1:
        part = parts[0]
        held = part.encoding.decode(part.page, part.start, part.stop)
        if (held.kind, held.width) == (node.kind, node.width):
            return held
    dtype = native_dtype(node.kind, node.width)
    per_value = node.width // dtype.itemsize
    tall = node.kind in (ValueKind.DECIMAL, ValueKind.FIXED)
    out = allocate((rows, per_value) if tall else rows, dtype)
    for part in parts:
        here = out[part.at : part.at + part.rows]
        narrow = node.kind == ValueKind.DECIMAL and part.page.kind != ValueKind.DECIMAL
        low = here[:, 0] if narrow else here
        part.encoding.decode_into(part.page, part.start, part.stop, low)
        if narrow:  # unscaled values that fit 64 bits: the high words are their signs
            np.right_shift(low, 63, out=here[:, 1])
    return PhysicalValues(node.kind, node.width, rows, out)


def _variable(parts: Sequence[PagePart], kind: ValueKind, rows: int) -> PhysicalValues:
    if len(parts) == 1:
        part = parts[0]
        return part.encoding.decode(part.page, part.start, part.stop)
    dictionary = _shared_dictionary(parts)
    if dictionary is not None:
        found = _texts_of(dictionary, decode_codes(parts, rows, np.dtype(np.int64)))
        if found is not None:
            return found
    held = [part.encoding.decode(part.page, part.start, part.stop) for part in parts]
    offsets = allocate(rows + 1, np.int32)
    offsets[0] = 0
    pieces: list[npt.NDArray[Any]] = []
    total = 0
    for part, values in zip(parts, held, strict=True):
        assert values.offsets is not None  # text and binary have them
        low, high = int(values.offsets[0]), int(values.offsets[-1])
        if total + high - low > _LARGEST_OFFSET:
            raise part.page.damaged("its column has more bytes than an array can hold")
        target = offsets[part.at + 1 : part.at + part.rows + 1]
        np.add(values.offsets[1:], np.int32(total - low), out=target)
        pieces.append(values.data[low:high])
        total += high - low
    data = allocate(total, np.uint8)
    if pieces:
        np.concatenate(pieces, out=data)
    return PhysicalValues(kind, 0, rows, data, offsets)


def _shared_dictionary(parts: Sequence[PagePart]) -> PhysicalValues | None:
    """Return the one dictionary that all rows refer to; None where some do not."""
    dictionary = parts[0].page.dictionary if parts else None
    if dictionary is None or any(
        part.page.encoding != EncodingCode.DICTIONARY or part.page.dictionary is not dictionary
        for part in parts
    ):
        return None
    return dictionary


def _texts_of(dictionary: PhysicalValues, codes: npt.NDArray[np.int64]) -> PhysicalValues | None:
    """Return the texts of codes; None where there are none, or they are more than 31 bits count."""
    if not dictionary.length or dictionary.offsets is None:
        return None
    found = texts_of_codes(codes, dictionary.offsets, dictionary.data, allocate)
    if found is None:
        return None
    return PhysicalValues(dictionary.kind, 0, len(codes), found[1], found[0])


def join_validity(parts: Sequence[PagePart], rows: int) -> tuple[Bytes | None, int]:
    """Return one validity bitmap for the rows of several pages, or None, and the nulls if known.

    The count is -1 where a page is cut, so that nobody knows how many of its nulls are in it.
    """
    if not any(part.page.null_count for part in parts):
        return None, 0
    whole = all(part.rows == part.page.rows for part in parts)
    nulls = sum(part.page.null_count for part in parts) if whole else -1
    if all(part.at % 8 == 0 and part.start % 8 == 0 for part in parts):
        # Bits past the end of the last part belong to no row.
        bitmap = allocate((rows + 7) // 8, np.uint8)
        for part in parts:
            target = bitmap[part.at // 8 : (part.at + part.rows + 7) // 8]
            held = part.page.validity()
            if held is None:
                target[:] = 0 if part.page.null_count else 0xFF
            else:
                target[:] = held[part.start // 8 : (part.stop + 7) // 8]
        return bitmap, nulls
    present = np.empty(rows, np.bool_)
    for part in parts:
        present[part.at : part.at + part.rows] = _presence(part)
    return np.packbits(present, bitorder="little"), nulls


def _presence(part: PagePart) -> npt.NDArray[np.bool_] | bool:
    """Return which rows of a part are not null; one answer where it is the same for all."""
    held = part.page.validity()
    if held is None:
        return part.page.null_count == 0
    bits = np.unpackbits(held[part.start // 8 : (part.stop + 7) // 8], bitorder="little")
    return bits[part.start % 8 : part.start % 8 + part.rows].view(np.bool_)


_LEAST_ROWS = 1 << 10


def decode_plain(segment: SegmentPages, node: FieldNode, start: int, stop: int) -> pa.Array | None:
    """Return rows ``[start, stop)`` of a top-level leaf; None where its pages must be asked.

    Raises CorruptSegmentError when one of the pages is damaged.
    """
    rows = stop - start
    if rows < _LEAST_ROWS:
        return None
    table = segment.page_table(node.number)
    if table is None or not table.is_plain or table.is_flat:
        return None
    if table.is_coded:
        return _texts(segment, table, start, stop)
    if node.kind == ValueKind.FLOAT and node.width != 8:
        return None
    values = allocate(rows, native_dtype(node.kind, node.width))
    decode_numbers(_blocks(segment, table, start, stop), values)
    physical = PhysicalValues(node.kind, node.width, rows, values)
    return to_arrow(node.type, NodeValues(rows, physical))


def _texts(segment: SegmentPages, table: PageTable, start: int, stop: int) -> pa.Array | None:
    node = table.node
    texts = segment.dictionary(node.number)
    if texts is None:
        return None
    codes = allocate(stop - start, np.int64)
    decode_numbers(_blocks(segment, table, start, stop), codes)
    found = _texts_of(texts, codes)
    return None if found is None else to_arrow(node.type, NodeValues(stop - start, found))


def _blocks(segment: SegmentPages, table: PageTable, start: int, stop: int) -> StoredBlocks:
    """Return rows of one column, whose pages are found sound."""
    segment.touch(table.node.number, np.arange(start >> table.shift, (stop - 1 >> table.shift) + 1))
    facts = segment.page_stack([table]).facts
    return StoredBlocks(segment.data, facts, table.shift, start, stop)

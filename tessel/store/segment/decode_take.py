"""Single rows of a segment: any order, repeats allowed; one pass for all pages of a column.

Readers enter here, for random access and for the few survivors of a filter. Where the pages are
not compressed and arithmetic finds a value, it is loaded from the bytes of the whole segment,
whatever the number of pages; other pages are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.kernels.load_rows import load_rows
from tessel.store.encodings.base import words_as_values
from tessel.store.encodings.codes import (
    VARIABLE_KINDS,
    Codec,
    EncodingCode,
    PageFlag,
    Role,
    ValueKind,
)
from tessel.store.encodings.fields import (
    FieldNode,
    NodeValues,
    assemble,
    physical_values,
    to_arrow,
)
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.scaled import POWERS
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    PhysicalValues,
    native_dtype,
    stored_kind,
    widen,
)
from tessel.store.encodings.variable import gather_spans, take_values
from tessel.store.segment.page_tables import PageFact
from tessel.store.segment.pages import SegmentPages

_LARGEST_OFFSET = (1 << 31) - 1
_PAGE_SHIFT = 40
"""Where the number of a page is in a place, above the row: pages may have any number of rows."""

_FEW_TEXTS, _MOST_SAME_BYTES = 1 << 12, 1 << 22
_PHYSICAL = {ValueKind.TEXT: pa.string(), ValueKind.BINARY: pa.binary()}


def take_column(segment: SegmentPages, node: FieldNode, rows: Integers) -> pa.Array:
    """Return rows of a top-level column, or of a struct's child projected alone.

    Raises InvalidInputError for a row that the segment does not have; CorruptSegmentError when a
    page that holds one of the rows is damaged.

    Parameters
    ----------
    rows
        int64, in any order, repeats allowed.
    """
    check_rows(segment, rows)
    values: list[NodeValues | None] = [None] * len(segment.nodes)
    _take_node(segment, node, rows, values)
    return assemble(node, segment.nodes, values)


def check_rows(segment: SegmentPages, rows: Integers) -> None:
    """Refuse rows that the segment does not have.

    Raises InvalidInputError, which names the first of them.
    """
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < segment.row_count:
        wrong = rows[(rows < 0) | (rows >= segment.row_count)]
        raise InvalidInputError(
            f"row {int(wrong[0])} was asked for, the segment has {segment.row_count}",
            row=int(wrong[0]),
        )


def _take_node(
    segment: SegmentPages, node: FieldNode, rows: Integers, into: list[NodeValues | None]
) -> None:
    if node.kind == ValueKind.NONE and node.role == Role.VALUES:
        into[node.number] = NodeValues(len(rows), None)
        return
    pages = RowsOfPages(segment, node, rows)
    validity, nulls = pages.validity()
    if node.role == Role.VALUES:
        dictionary = None
        if node.is_dictionary:
            dictionary = segment.dictionary_array(node.number, len(rows))
        values = pages.codes() if node.is_dictionary else pages.values()
        into[node.number] = NodeValues(len(rows), values, validity, nulls, dictionary)
        return
    if node.role == Role.LIST:
        offsets, items = pages.lists()
        into[node.number] = NodeValues(len(rows), offsets, validity, nulls)
        _take_node(segment, segment.nodes[node.number + 1], items, into)
        return
    into[node.number] = NodeValues(len(rows), None, validity, nulls)
    below = rows
    if node.role == Role.FIXED_LIST:
        below = (rows[:, None] * node.width + np.arange(node.width)).reshape(-1)
    at = node.number + 1
    while at < node.end:
        _take_node(segment, segment.nodes[at], below, into)
        at = segment.nodes[at].end


class RowsOfPages:
    """Rows of one physical column, and the pages that hold them."""

    def __init__(self, segment: SegmentPages, node: FieldNode, rows: Integers) -> None:
        self._segment = segment
        self._node = node
        self._number = segment.page_of(node.number, rows)
        self._row = rows - segment.first_rows(node.number)[self._number]
        self._records = segment.records(node.number)
        self._words_of = segment.page_words(node.number)
        segment.touch(node.number, self._number)

    def validity(self) -> tuple[Bytes | None, int]:
        """Return the validity of the rows as a bitmap, or None; and how many are null."""
        records, number = self._records, self._number
        some = records["null_count"][number] > 0
        if not some.any():
            return None, 0
        present = ~some
        held = (records["flags"][number] & PageFlag.VALIDITY) != 0
        in_place = records["codec"][number] == Codec.NONE
        direct = np.flatnonzero(held & in_place)
        places = records["offset"][number[direct]].astype(np.int64) + (self._row[direct] >> 3)
        bits = self._segment.data[places] >> (self._row[direct] & 7).astype(np.uint8)
        present[direct] = (bits & 1).astype(np.bool_)
        for page, at in _groups(number, held & ~in_place):
            bitmap = self._segment.page_for_rows(self._node.number, page).validity()
            assert bitmap is not None  # the flag says so
            bits = bitmap[self._row[at] >> 3] >> (self._row[at] & 7).astype(np.uint8)
            present[at] = (bits & 1).astype(np.bool_)
        nulls = len(present) - int(np.count_nonzero(present))
        return (np.packbits(present, bitorder="little"), nulls) if nulls else (None, 0)

    def codes(self) -> PhysicalValues:
        """Return places in the dictionary, for a column of dictionary type."""
        node = self._node
        codes = np.zeros(len(self._row), node.type.index_type.to_pandas_dtype())
        for number, at in _groups(self._number, None):
            page = self._segment.page_for_rows(node.number, number)
            codes[at] = encoding_by_code(page.encoding).take_codes(page, self._row[at])
        empty = np.empty(0, np.uint8)
        return PhysicalValues(node.kind, node.width, len(codes), empty, codes=codes)

    def values(self) -> PhysicalValues:
        """Return the values of a leaf."""
        node = self._node
        return self._merged(self._found(self._row), node.kind, node.width)

    def lists(self) -> tuple[PhysicalValues, Integers]:
        """Return offsets from 0 on, and the rows of the items that they are of."""
        items = self._segment.first_rows(self._node.number + 1)[self._number]
        starts, ends = (
            items + self._merged(self._found(rows), ValueKind.SIGNED, 4).data
            for rows in (self._row, self._row + 1)
        )
        lengths = ends - starts
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] > _LARGEST_OFFSET:
            raise InvalidInputError(
                f"{len(lengths)} lists have {offsets[-1]} items, more than an array can hold",
                hint="take fewer rows at a time",
            )
        wanted = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        held = offsets.astype(np.int32)
        return PhysicalValues(ValueKind.OFFSETS, 4, len(lengths), held), wanted

    def _found(self, rows: Integers) -> list[tuple[Integers, PhysicalValues]]:
        """Return values with the places they belong to: in one pass where arithmetic finds them."""
        node, number, held = self._node, self._number, self._words_of
        words, texts = held.words[number], held.texts[number]
        found: list[tuple[Integers, PhysicalValues]] = []
        if words.any():
            found += self._values(np.flatnonzero(words), rows)
        if texts.any() and self._are_few(texts):
            found.append(self._texts(np.flatnonzero(texts), rows))
            words |= texts
        for page_number, places in _groups(number, ~words):
            page = self._segment.page_for_rows(node.number, page_number)
            found.append((places, encoding_by_code(page.encoding).take(page, rows[places])))
        return found

    def _words(self, number: Integers, rows: Integers) -> npt.NDArray[np.int64]:
        """Return the integers, or bits, of rows of pages."""
        placed = number << _PAGE_SHIFT | rows
        words, _ = load_rows(self._segment.data, self._words_of.facts, _PAGE_SHIFT, placed)
        return words.view(np.int64).reshape(-1)

    def _values(self, at: Integers, rows: Integers) -> list[tuple[Integers, PhysicalValues]]:
        node, held, number = self._node, self._words_of, self._number[at]
        words = self._words(number, rows[at])
        found: list[tuple[Integers, PhysicalValues]] = []
        coded = held.coded[number]
        if coded.any():
            dictionary = self._segment.dictionary(node.number)
            assert dictionary is not None  # without one no page is coded
            found.append((at[coded], take_values(dictionary, words[coded])))
            at, words, number = at[~coded], words[~coded], number[~coded]
        if len(at):
            kind, width = stored_kind(node.kind, node.width, EncodingCode.LINEAR)
            values = words_as_values(words.view(np.uint64), kind, width)
            scaled = held.scaled[number]
            if scaled.any():
                # Divided, never multiplied: only so are decimals what they were.
                powers = POWERS[held.facts[PageFact.EXPONENT, 0, number[scaled]]]
                values.data[scaled] = words[scaled] / powers
            found.append((at, values))
        return found

    def _are_few(self, texts: npt.NDArray[np.bool_]) -> bool:
        """Return whether texts are copied sooner than they are decoded page by page."""
        same = texts & self._words_of.same[self._number]
        if np.count_nonzero(texts) - np.count_nonzero(same) > _FEW_TEXTS:
            return False
        return int(self._records["count"][self._number[same]].sum()) <= _MOST_SAME_BYTES

    def _texts(self, at: Integers, rows: Integers) -> tuple[Integers, PhysicalValues]:
        """Return texts of pages that hold one, or one behind the other."""
        number, records = self._number[at], self._records
        both = np.concatenate((rows[at], rows[at] + 1))
        starts, stops = self._words(np.concatenate((number, number)), both).reshape(2, -1)
        offsets, slots = records["offset"][number].astype(np.int64), records["starts"][number]
        same = self._words_of.same[number]
        lengths = np.where(same, records["count"][number], stops - starts)
        places = offsets + np.where(same, slots[:, 0], slots[:, 1] + starts)
        found, data = gather_spans(self._segment.data, places, lengths)
        return at, PhysicalValues(self._node.kind, self._node.width, len(at), data, found)

    def _merged(
        self, found: Sequence[tuple[Integers, PhysicalValues]], kind: ValueKind, width: int
    ) -> PhysicalValues:
        rows = len(self._row)
        if kind in VARIABLE_KINDS:
            return _merged_text(found, kind, rows)
        parts = [(at, _widened(values, kind)) for at, values in found]
        if len(parts) == 1:
            return PhysicalValues(kind, width, rows, parts[0][1])
        dtype = native_dtype(kind, width)
        tall = kind in (ValueKind.DECIMAL, ValueKind.FIXED)
        out: npt.NDArray[Any] = np.zeros((rows, width // dtype.itemsize) if tall else rows, dtype)
        for at, data in parts:
            out[at] = data
        return PhysicalValues(kind, width, rows, out)


def _widened(values: PhysicalValues, kind: ValueKind) -> npt.NDArray[Any]:
    if kind == ValueKind.DECIMAL and values.kind != ValueKind.DECIMAL:
        return widen(values.data)
    return values.data


def _merged_text(
    found: Sequence[tuple[Integers, PhysicalValues]], kind: ValueKind, rows: int
) -> PhysicalValues:
    if len(found) == 1:
        return found[0][1]
    if not found:
        return physical_values(arrow_array([], _PHYSICAL[kind]))
    arrays = [to_arrow(_PHYSICAL[kind], NodeValues(v.length, v)) for _, v in found]
    place = np.empty(rows, np.int64)
    place[np.concatenate([at for at, _ in found])] = np.arange(rows)
    return physical_values(pa.concat_arrays(arrays).take(arrow_array(place)))


def _groups(numbers: Integers, mask: npt.NDArray[np.bool_] | None) -> list[tuple[int, Integers]]:
    """Return each page number with the places where it stands."""
    at = np.arange(len(numbers)) if mask is None else np.flatnonzero(mask)
    if not len(at):
        return []
    order = at[np.argsort(numbers[at], kind="stable")]
    sorted_numbers = numbers[order]
    begins = np.flatnonzero(np.diff(sorted_numbers, prepend=-1))
    parts = np.split(order, begins[1:])
    return [(int(sorted_numbers[b]), part) for b, part in zip(begins, parts, strict=True)]

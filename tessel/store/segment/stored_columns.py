"""Columns of a segment as stored integers, ready for kernels.

:class:`~tessel.store.segment.lazy_rows.LazyRows` enters here with the columns that a program
computes on. Kernels read a column in place where all its pages are arithmetic and without gaps.
Otherwise the rows that have a value are listed too, and packed pages are unpacked for the rows that
are read.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, different
from tessel.cached import cached
from tessel.expression.block_columns import ColumnForm
from tessel.expression.block_entries import Entries
from tessel.kernels.blocks import ALL_MISSING, ALL_PRESENT, Gap, StoredBlocks, beside
from tessel.lazy import dataclass
from tessel.store.encodings.arithmetic import proven_bounds
from tessel.store.encodings.codes import EncodingCode, ValueKind, aligned
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.inner import inner_of
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import Bytes, Integers, Page
from tessel.store.lru_cache import LruCache
from tessel.store.segment.page_tables import (
    NOT_SCALED,
    PageFact,
    PageForm,
    PageTable,
)
from tessel.store.segment.pages import SegmentPages

_WORD_BYTES = 8
_ONE_PAGE = 40
"""Rows of no column lie in one page, whatever their number."""
_MOST_MASKED = 1 << 28
"""Rows of the pages that a mask is made for."""
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """One column of one segment.

    Attributes
    ----------
    exponents
        By page; else as in :class:`~tessel.expression.block_columns.ColumnForm`.
    """

    type: pa.DataType
    entries: Entries | None
    exponents: npt.NDArray[np.int64] | None
    bounds: tuple[Any, Any] | None
    has_missing: bool = False

    @cached
    def exact_form(self) -> ColumnForm:
        """What programs are compiled for that depend on the very bounds."""
        held = None if self.exponents is None else tuple(different(self.exponents).tolist())
        return ColumnForm(self.type, self.entries, held, self.bounds, self.has_missing)

    @cached
    def program_form(self) -> ColumnForm:
        """What other programs are compiled for."""
        return self.exact_form.widened

    @property
    def form(self) -> str:
        """How kernels see the column; for people."""
        if self.entries is not None:
            return "dictionary codes"
        if self.exponents is None:
            return "integers"
        scaled = self.exponents >= 0
        if scaled.all():
            return "scaled integers"
        return "scaled integers and floats" if scaled.any() else "floats"


def _are_instants(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether both are of instants in the same unit, each on the clocks of a zone."""
    zoned = all(pa.types.is_timestamp(kind) and kind.tz is not None for kind in (one, other))
    return zoned and bool(one.unit == other.unit)


@lru_cache(maxsize=64)
def _absent(kind: pa.DataType) -> StoredColumn | None:
    """Return a column that was added after its rows; None for types that are not integers."""
    types = pa.types
    held = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(held):
        entries = Entries(arrow_array([""], held), are_shared=True)  # no row has a code of it
        return StoredColumn(kind, entries, None, None, True)
    if types.is_float32(kind) or types.is_float64(kind):
        exponents = np.full(1, NOT_SCALED, np.int64)
        return StoredColumn(kind, None, exponents, (0.0, 0.0), True)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal128(kind):
        return StoredColumn(kind, None, None, (0, 0), True)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return StoredColumn(kind, None, None, (0, 0), True)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumns:
    """Columns of one segment that are cut alike, and where their integers are.

    Attributes
    ----------
    columns
        In the order in which they were asked for.
    memos
        What was found out of the segment before, or is now.
    """

    columns: tuple[StoredColumn, ...]
    blocks: StoredBlocks
    memos: LruCache[Hashable, Any]

    @classmethod
    def nothing(cls, start: int, stop: int) -> StoredColumns:
        """Return rows of no column."""
        data, facts = np.zeros(_WORD_BYTES, np.uint8), np.zeros((PageFact.COUNT, 0, 1), np.int64)
        blocks = StoredBlocks(_read_only(data), facts, _ONE_PAGE, start, stop)
        return cls((), blocks, LruCache(1))

    @classmethod
    def beside(cls, parts: Sequence[StoredColumns]) -> StoredColumns | None:
        """Return the columns of several segments with the same rows; None for other page edges."""
        blocks = beside([part.blocks for part in parts])
        if blocks is None:
            return None
        columns = tuple(column for part in parts for column in part.columns)
        return cls(columns, blocks, parts[0].memos)

    def with_mask(self, mask: npt.NDArray[np.bool_]) -> StoredColumns | None:
        """Return the rows with one more column of truths, which has a value a row of the blocks."""
        held = self.blocks
        pages = held.facts.shape[2]
        first, last = held.start >> held.shift, (held.stop - 1 >> held.shift) + 1
        if last - first << held.shift > _MOST_MASKED:
            return None
        at = held.start - (first << held.shift)
        data = np.zeros((last - first << held.shift) + _WORD_BYTES, np.uint8)
        data[at : at + len(mask)] = mask
        facts = np.zeros((PageFact.COUNT, 1, pages), np.int64)
        facts[PageFact.START, 0, first:last] = np.arange(last - first) << held.shift
        facts[PageFact.WIDTH], facts[PageFact.MASK] = 8, 0xFF
        facts[PageFact.EXPONENT] = NOT_SCALED
        blocks = StoredBlocks(_read_only(data), facts, held.shift, held.start, held.stop)
        column = StoredColumn(pa.bool_(), None, None, (0, 1))
        return self.beside([self, StoredColumns((column,), blocks, self.memos)])

    def in_order(self, places: Sequence[int]) -> StoredColumns:
        """Return the columns in another order."""
        held = self.blocks
        facts = _read_only(held.facts[:, places])
        gaps = None if held.gaps is None else _read_only(held.gaps[:, places])
        blocks = StoredBlocks(held.data, facts, held.shift, held.start, held.stop, gaps)
        return StoredColumns(tuple(self.columns[place] for place in places), blocks, self.memos)

    def read_as(self, types: Sequence[pa.DataType]) -> StoredColumns | None:
        """Return the columns as of these types; None where they are not stored as such.

        Instants are the same in every time zone.
        """
        if all(column.type == kind for column, kind in zip(self.columns, types, strict=True)):
            return self

        def found() -> tuple[StoredColumn, ...]:
            pairs = list(zip(self.columns, types, strict=True))
            if not all(each.type == kind or _are_instants(each.type, kind) for each, kind in pairs):
                return ()
            return tuple(replace(each, type=kind) for each, kind in pairs)

        columns = self.memos.get_or_make(("read as", self.columns, tuple(types)), found)
        return StoredColumns(columns, self.blocks, self.memos) if columns else None

    def with_absent(self, added: Mapping[int, pa.DataType]) -> StoredColumns | None:
        """Return the rows with columns in which no value is there; None where one cannot be.

        Parameters
        ----------
        added
            Their types, by their places among all columns.
        """
        blocks, pages = self.blocks, self.blocks.facts.shape[2]
        others = iter(self.columns)
        columns: list[StoredColumn] = []
        for place in range(len(self.columns) + len(added)):
            column = _absent(added[place]) if place in added else next(others)
            if column is None:
                return None
            columns.append(column)
        kept = [place for place in range(len(columns)) if place not in added]
        facts = np.zeros((PageFact.COUNT, len(columns), pages), np.int64)
        facts[PageFact.EXPONENT] = NOT_SCALED
        facts[:, kept] = blocks.facts
        gaps = np.zeros((Gap.COUNT, len(columns), pages), np.int64)
        gaps[Gap.VALIDITY] = ALL_MISSING
        gaps[Gap.VALIDITY, kept] = ALL_PRESENT
        if blocks.gaps is not None:
            gaps[:, kept] = blocks.gaps
        held = StoredBlocks(
            blocks.data,
            _read_only(facts),
            blocks.shift,
            blocks.start,
            blocks.stop,
            _read_only(gaps),
        )
        return StoredColumns(tuple(columns), held, self.memos)


def may_be_stored(segment: SegmentPages, nodes: Sequence[FieldNode]) -> bool:
    """Return whether page tables allow for all columns to be integers; no page is read."""
    return bool(nodes) and all(segment.page_table(node.number) is not None for node in nodes)


def stored_columns(
    segment: SegmentPages, nodes: Sequence[FieldNode], start: int, stop: int
) -> StoredColumns | None:
    """Return rows ``[start, stop)`` of columns; None where one is not kept as integers.

    The pages are verified, where they were not before; their bytes are there.

    Raises CorruptSegmentError when one of the pages is damaged.
    """
    if start >= stop:
        return None
    tables: list[PageTable] = []
    columns: list[StoredColumn] = []
    for node in nodes:
        table = segment.page_table(node.number)
        if table is None or table.shift != (tables[0] if tables else table).shift:
            return None
        column = _kept_column(segment, table)
        if column is None:
            return None
        tables.append(table)
        columns.append(column)
    shift = tables[0].shift
    numbers = np.arange(start >> shift, (stop - 1 >> shift) + 1)
    if (np.array([table.forms[numbers] for table in tables]) == PageForm.IN_PLACE).all():
        stack = segment.page_stack(tables)
        segment.touch_stack(stack, numbers)
        data, facts, gaps = _read_only(segment.data), stack.facts, stack.gaps
    else:
        pages = [[segment.page(t.node.number, n) for n in numbers.tolist()] for t in tables]
        data, facts, gaps = _placed_pages(tables, pages, numbers)
    blocks = StoredBlocks(data, facts, shift, start, stop, gaps)
    return StoredColumns(tuple(columns), blocks, segment.memos)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _kept_column(segment: SegmentPages, table: PageTable) -> StoredColumn | None:
    number = table.node.number
    if number not in segment.stored:
        segment.stored[number] = _column(segment, table)
    return segment.stored[number]


def _column(segment: SegmentPages, table: PageTable) -> StoredColumn | None:
    """Return what is known of a column; None for one whose integers are not its values."""
    node = table.node
    zones = segment.zone_maps(node.number)
    has_missing = bool(zones.nulls.any())
    if table.is_coded:
        entries = segment.entries(node.number)
        return StoredColumn(node.type, entries, None, None, has_missing)
    held = zones.nulls + zones.nans < zones.rows
    bounds: tuple[Any, Any] | None = None
    if not held.any():
        bounds = 0, 0  # of nothing
    elif zones.bounded[held].all() and not (zones.low_open | zones.high_open)[held].any():
        bounds = zones.minimum[held].min().item(), zones.maximum[held].max().item()
    if node.kind == ValueKind.BOOLEAN:
        return StoredColumn(node.type, None, None, (0, 1), has_missing)
    if node.kind == ValueKind.DECIMAL:
        return StoredColumn(node.type, None, None, _proven_bounds(segment, table), has_missing)
    if node.kind == ValueKind.FLOAT and node.width != 8:
        exponents = np.full(len(zones.rows), NOT_SCALED, np.int64)
        has_missing |= bool(zones.nans.any())
        return StoredColumn(node.type, None, exponents, bounds, has_missing)
    if node.kind == ValueKind.FLOAT:
        records = segment.records(node.number)
        # Where every exception is a NaN, integers stand for all values that are not missing.
        others = records["exceptions"] > records["nan_count"]
        exponents = np.where(others, NOT_SCALED, table.facts[PageFact.EXPONENT])
        has_missing |= bool(zones.nans.any())
        return StoredColumn(node.type, None, exponents, bounds, has_missing)
    if bounds is None or bounds[1] >= 1 << 63:
        return None
    return StoredColumn(node.type, None, None, bounds, has_missing)


def _proven_bounds(segment: SegmentPages, table: PageTable) -> tuple[int, int]:
    """Return bounds of integers that follow from their linear forms alone.

    Page tables say little of decimals.
    """
    lows, highs = [0], [0]
    for page, rows in enumerate(segment.records(table.node.number)["row_count"].tolist()):
        _, width, _, base, step, _ = table.facts[:, page].tolist()
        if table.forms[page] == PageForm.DECODED:
            return _LEAST, _GREATEST
        low, high = proven_bounds(base, step, width, rows)
        lows.append(low)
        highs.append(high)
    low, high = min(lows), max(highs)
    return (low, high) if _LEAST <= low <= high <= _GREATEST else (_LEAST, _GREATEST)


# --- unpacking ------------------------------------------------------------------------------------


def _placed_pages(
    tables: Sequence[PageTable], pages: Sequence[Sequence[Page]], numbers: Integers
) -> tuple[Bytes, Integers, Integers]:
    """Lay pages of columns one behind the other, so that all of them are read in place.

    Parameters
    ----------
    tables
        Columns that are cut alike.
    pages
        Of each column, those of some numbers; verified.
    numbers
        Ascending.

    Returns
    -------
    data, facts, gaps : numpy.ndarray
        The bytes, and both tables of all columns for these bytes; nothing is said of other pages.
    """
    place = 0
    places: list[list[tuple[int, int]]] = []
    for table, held in zip(tables, pages, strict=True):
        own: list[tuple[int, int]] = []
        for number, page in zip(numbers.tolist(), held, strict=True):
            words = aligned(place + len(page.payload))
            own.append((place, words))
            decoded = table.forms[number] == PageForm.DECODED
            place = aligned(words + page.length * _WORD_BYTES) if decoded else words
        places.append(own)
    data = np.empty(place + _WORD_BYTES, np.uint8)
    data[place:] = 0
    facts = np.stack([table.facts for table in tables], axis=1)
    gaps = np.stack([table.gaps for table in tables], axis=1)
    for column, table in enumerate(tables):
        for number, page, (at, words) in zip(
            numbers.tolist(), pages[column], places[column], strict=True
        ):
            data[at : at + len(page.payload)] = page.payload
            moved = at - int(table.starts[number])
            facts[PageFact.START, column, number] += moved
            gaps[[Gap.PLACES, Gap.VALUES], column, number] += moved
            if gaps[Gap.VALIDITY, column, number] >= 0:
                gaps[Gap.VALIDITY, column, number] += moved
            if table.forms[number] == PageForm.DECODED:
                held_words = data[words : words + page.length * _WORD_BYTES].view(np.int64)
                _decode(page, held_words)
                kept = facts[PageFact.EXPONENT, column, number]
                facts[:, column, number] = words, 64, -1, 0, 0, kept
    for array in (data, facts, gaps):
        array.flags.writeable = False
    return data, facts, gaps


def _decode(page: Page, out: npt.NDArray[np.int64]) -> None:
    """Write the integers of a page, or the bits of its floats."""
    if page.encoding in (EncodingCode.SCALED, EncodingCode.DICTIONARY):
        inner_of(page).integers_into(page, 0, page.length, out)
        return
    values: npt.NDArray[Any] = encoding_by_code(page.encoding).decode(page, 0, page.length).data
    if values.dtype == np.float32:
        values = values.view(np.uint32)
    out[...] = values.view(np.int64) if values.dtype.itemsize == _WORD_BYTES else values

"""The pages of one segment, ready to decode: verified, uncompressed, and looked up by number.

Everything that decodes enters here. A page is verified and checked when it is first touched in the
process; uncompressed pages are kept as views, so that touching one again is a lookup. Others are
kept for random access only (:mod:`tessel.store.segment.known_pages`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from tessel.arrays import arrow_array
from tessel.store.encodings.block_codec import decompress_blocks
from tessel.store.encodings.codes import Codec, EncodingCode, Role, ValueKind
from tessel.store.encodings.fields import FieldNode, NodeValues, to_arrow
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    Page,
    PhysicalValues,
    check_validity,
    page_from_record,
    widen,
)
from tessel.store.lru_cache import LruCache
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.known_pages import UNPACKED, SoundPages, is_running, summed
from tessel.store.segment.page_tables import PageStack, PageTable, PageWords, page_table
from tessel.store.segment.validation import damaged

if TYPE_CHECKING:
    from tessel.expression.block_entries import Entries
    from tessel.store.segment.stored_columns import StoredColumn
    from tessel.store.segment.zone_maps import ZoneMaps

_Value = TypeVar("_Value")

_MOST_CHOICES = 32
"""Choices of columns for which something is remembered."""

_NARROW_TYPES = (pat.is_decimal, pat.is_date64, pat.is_time)
"""Types of which not all bits are values; text is checked by its encodings."""

_WITHOUT_VALUES = frozenset(
    {EncodingCode.NOTHING, EncodingCode.ALL_MISSING, EncodingCode.DICTIONARY}
)
"""Pages with no values of their own: what a dictionary holds is checked with the dictionary."""


_MOST_MEMOS = 32


class SegmentPages:
    """One opened segment and its bytes; safe to use from several threads.

    Parameters
    ----------
    file
        Its metadata, validated.
    data
        All bytes of the segment. Where they are fetched as needed, those of a page are there before
        the page is touched.
    sound
        Which pages were found sound already; updated here.
    views
        Whether all bytes are there; else pages are fetched before they are touched.

    Attributes
    ----------
    nodes
        The physical columns, by number.
    fetched
        Which pages are there, with flags as of ``sound``; empty where all are.
    memos
        What queries found out of the segment alone, such as what page tables say of a predicate:
        the same query asks again.
    stored
        What :mod:`~tessel.store.segment.stored_columns` found out of columns, by node.
    """

    def __init__(
        self,
        file: SegmentFile,
        data: Bytes,
        sound: SoundPages,
        *,
        always_verify: bool = False,
        views: bool = True,
    ) -> None:
        self.file = file
        self.data = data
        self.row_count = file.row_count
        self.nodes: tuple[FieldNode, ...] = file.nodes
        self.tops: tuple[FieldNode, ...] = tuple(node for node in self.nodes if node.parent < 0)
        directory = file.directory
        records = directory["page_count"].astype(np.int64) + directory["has_dictionary"]
        self._first_flag: list[int] = (np.cumsum(records) - records).tolist()
        self._sound = sound
        self.fetched = np.zeros(0 if views else len(sound), np.bool_)
        self._always = always_verify
        self._known: dict[int, list[Page | None]] = {}
        self._first_rows: dict[int, Integers] = {}
        self._dictionaries: dict[int, PhysicalValues | None] = {}
        self._entries: dict[int, Entries] = {}
        self._zone_maps: dict[int, ZoneMaps] = {}
        self._columns: dict[tuple[int, ...], tuple[FieldNode, ...]] = {}
        self._page_tables: dict[int, PageTable | None] = {}
        self._page_words: dict[int, PageWords] = {}
        self._stacks: dict[tuple[int, ...], PageStack] = {}
        self.memos: LruCache[Hashable, Any] = LruCache(_MOST_MEMOS)
        self.stored: dict[int, StoredColumn | None] = {}

    def flag_of(self, node: int, number: int) -> int:
        """Return where the flag of a page is; that of a dictionary follows those of its column."""
        return self._first_flag[node] + number

    def records(self, node: int) -> npt.NDArray[np.void]:
        """Return the records of the data pages of a physical column."""
        return self.file.pages(node)

    def page_count(self, node: int) -> int:
        """Return how many data pages a physical column has."""
        return len(self.records(node))

    def first_rows(self, node: int) -> Integers:
        """Return the first row of each page and the number of rows: int64 of pages + 1."""
        if node not in self._first_rows:
            values = int(self.file.directory["value_count"][node])
            rows = self.records(node)["first_row"].astype(np.int64)
            self._first_rows[node] = np.append(rows, values)
        return self._first_rows[node]

    def page(self, node: int, number: int) -> Page:
        """Return a page that may be decoded.

        Raises CorruptSegmentError when its checksum or its contents are wrong; names object, column
        and page.
        """
        known = self._known.get(node)
        if known is None:
            known = self._known.setdefault(node, [None] * self.page_count(node))
        found = known[number]
        if found is not None and not self._always:
            return found
        record = self.records(node)[number]
        page = self._load(node, number, record, self._dictionary_of(node, number))
        if record["codec"] == Codec.NONE:
            known[number] = page  # a view; what was decompressed would hold memory
        return page

    def page_for_rows(self, node: int, number: int) -> Page:
        """Return a page as :meth:`page` does, to find single rows in it.

        What had to be unpacked is kept for a while, and maybe in another encoding: go by that of
        the page, not by that of its record.
        """
        if self._always:
            return self.page(node, number)
        known = self._known.get(node)
        found = None if known is None else known[number]
        if found is not None and not is_running(found):
            return found
        key = self.file.number, node, number
        kept = UNPACKED.get(key)
        if kept is None:
            page = self.page(node, number) if found is None else found
            kept = summed(page) if is_running(page) else page
            if self._known[node][number] is not kept:
                UNPACKED.put(key, kept)
        return kept

    def dictionary(self, node: int) -> PhysicalValues | None:
        """Return the values of a column's dictionary; None where it has none."""
        if node not in self._dictionaries:
            record = self.file.dictionary(node)
            found = None
            if record is not None:
                page = self._load(node, self.page_count(node), record, None)
                found = self._all_values(node, page)
            self._dictionaries[node] = found
        return self._dictionaries[node]

    def _dictionary_of(self, node: int, number: int) -> PhysicalValues | None:
        """Return the dictionary that a page refers to."""
        return self.dictionary(node)

    def entries(self, node: int) -> Entries:
        """Return a column's dictionary as an Arrow array of its values' type; maybe empty."""
        found = self._entries.get(node)
        if found is None:
            from tessel.expression.block_entries import Entries

            kind = self.nodes[node].type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            values = self.dictionary(node)
            found = self._entries[node] = Entries.shared(
                arrow_array([], kind)
                if values is None
                else to_arrow(kind, NodeValues(values.length, values))
            )
        return found

    def dictionary_array(self, node: int, rows: int) -> pa.Array:
        """Return the array of the dictionary that so many rows of a column refer to.

        No rows refer to none, and where bytes come from afar none was read for them.
        """
        if rows:
            return self.entries(node).values
        kind = self.nodes[node].type
        return arrow_array([], kind.value_type if pa.types.is_dictionary(kind) else kind)

    def zone_maps(self, node: int) -> ZoneMaps:
        """Return the bounds and counts of all data pages of a column; they are kept."""
        if node not in self._zone_maps:
            self._zone_maps[node] = self.file.zone_maps(node)
        return self._zone_maps[node]

    # --- many pages at once -----------------------------------------------------------------------

    def columns(self, column_ids: tuple[int, ...]) -> tuple[FieldNode, ...]:
        """Return the top-level nodes of columns, with their page tables read.

        Raises ColumnNotFoundError for an id that the segment does not have.
        """
        found = self._columns.get(column_ids)
        if found is None:
            self.file.load(column_ids)
            found = tuple(self.file.top(column_id) for column_id in column_ids)
            _remember(self._columns, column_ids, found)
        return found

    def page_table(self, node: int) -> PageTable | None:
        """Return how the integers of a column are found; None where some page has none.

        None too where pages are verified each time they are touched.
        """
        if node not in self._page_tables:
            table = None if self._always else page_table(self.file, self.nodes[node])
            self._page_tables[node] = table
        return self._page_tables[node]

    def page_words(self, node: int) -> PageWords:
        """Return where arithmetic finds values of a column."""
        if node not in self._page_words:
            coded = self.dictionary(node) is not None
            made = PageWords.of(self.records(node), self.nodes[node], has_dictionary=coded)
            self._page_words[node] = made
        return self._page_words[node]

    def page_stack(self, tables: Sequence[PageTable]) -> PageStack:
        """Return tables of this segment together; their columns are cut alike."""
        numbers = tuple([table.node.number for table in tables])
        found = self._stacks.get(numbers)
        if found is None:
            found = PageStack.of(tables, [self._first_flag[number] for number in numbers])
            _remember(self._stacks, numbers, found)
        return found

    def touch_stack(self, stack: PageStack, numbers: Integers) -> None:
        """Verify the pages of these numbers of all columns, where not yet found sound."""
        sound = self._sound[numbers + stack.first_flags]
        if np.count_nonzero(sound) < sound.size:
            for table in stack.tables:
                self.touch(table.node.number, numbers)

    def page_of(self, node: int, rows: Integers) -> Integers:
        """Return the number of the page that holds each row of a physical column."""
        if self.nodes[node].parent < 0:
            return rows >> self.file.page_shift(node)
        return np.searchsorted(self.first_rows(node), rows, "right") - 1

    def touch(self, node: int, numbers: Integers) -> None:
        """Verify the pages of these numbers that were not yet found sound."""
        missing = numbers
        if not self._always:
            sound = self._sound[numbers + self._first_flag[node]]
            if np.count_nonzero(sound) == sound.size:
                return
            missing = numbers[~sound]
        for number in np.flatnonzero(np.bincount(missing)).tolist():
            self.page_for_rows(node, number)

    def verify(self) -> None:
        """Read all pages, whether or not that was done before.

        Raises CorruptSegmentError for the first page that is damaged.
        """
        for node in range(len(self.nodes)):
            self.verify_column(node)

    def verify_column(self, node: int) -> None:
        """Read all pages of one physical column, as :meth:`verify` does."""
        dictionary = None
        record = self.file.dictionary(node)
        if record is not None:
            page = self._load(node, self.page_count(node), record, None, again=True)
            dictionary = self._all_values(node, page)
        for number, record in enumerate(self.records(node)):
            self._load(node, number, record, dictionary, again=True)

    def place(self, node: int, number: int) -> dict[str, Any]:
        """Return what a page is called in errors."""
        return self.file.place(node, number if number < self.page_count(node) else "dictionary")

    def _all_values(self, node: int, page: Page) -> PhysicalValues:
        found = encoding_by_code(page.encoding).decode(page, 0, page.rows)
        if self.nodes[node].kind == ValueKind.DECIMAL and found.kind != ValueKind.DECIMAL:
            return PhysicalValues(ValueKind.DECIMAL, 16, found.length, widen(found.data))
        return found

    def _load(
        self,
        node: int,
        number: int,
        record: np.void,
        dictionary: PhysicalValues | None,
        *,
        again: bool = False,
    ) -> Page:
        place = self.place(node, number)
        start, length = int(record["offset"]), int(record["length"])
        stored = self.data[start : start + length]
        flag = self.flag_of(node, number)
        sound = bool(self._sound[flag]) and not self._always and not again
        if not sound:
            _verify(stored, record, place)
        codec = int(record["codec"])
        if codec != Codec.NONE:
            stored = decompress_blocks(stored, codec, int(record["payload_length"]), place)
        column = self.nodes[node]
        page = page_from_record(
            record, stored, column.kind, column.width, dictionary=dictionary, place=place
        )
        if not sound:
            check_validity(page)
            encoding_by_code(page.encoding).check(page)
            if column.role == Role.LIST:
                self._check_lists(node, number, page)
            self._check_values(node, page)
            self._sound[flag] = True
        return page

    def _check_lists(self, node: int, number: int, page: Page) -> None:
        """Refuse lists that are not made of the items in the page of the same number."""
        offsets = encoding_by_code(page.encoding).decode(page, 0, page.length).data
        first, end = self.first_rows(node + 1)[number : number + 2].tolist()
        # Compared, not subtracted: differences of 32-bit offsets that go back could wrap.
        back = (offsets[1:] < offsets[:-1]).any()
        if page.rows and (offsets[0] or back or offsets[-1] != end - first):
            raise page.damaged("its offsets are not those of its items")

    def _check_values(self, node: int, page: Page) -> None:
        """Refuse what the bytes of a type can say and the type cannot: a time past midnight."""
        column = self.nodes[node]
        if page.encoding in _WITHOUT_VALUES or not holds_narrow_values(column):
            return
        kind = column.type.value_type if column.is_dictionary else column.type
        values = self._all_values(node, page)
        part = NodeValues(page.rows, values, page.validity(), page.null_count)
        try:
            to_arrow(kind, part).validate(full=True)
        except pa.ArrowInvalid as error:
            raise page.damaged(f"it holds what is no {kind}: {error}") from error


def holds_narrow_values(column: FieldNode) -> bool:
    """Return whether not all bits of a column's type are values."""
    kind = column.type.value_type if column.is_dictionary else column.type
    return any(is_one(kind) for is_one in _NARROW_TYPES)


def _remember(
    memos: dict[tuple[int, ...], _Value], columns: tuple[int, ...], found: _Value
) -> None:
    """Store a memo for a choice of columns; few choices are in use at a time."""
    if len(memos) >= _MOST_CHOICES:
        memos.clear()
    memos[columns] = found


def _verify(stored: Bytes, record: np.void, place: dict[str, Any]) -> None:
    found = google_crc32c.value(stored)
    if found != int(record["checksum"]):
        what = f"its checksum is {found:#010x}, not {int(record['checksum']):#010x}"
        name, column, page = place["object"], place["column"], place["page"]
        raise damaged(name, what, column=column, page=page)

"""Every number of a file's metadata is checked once, before anything is believed or allocated.

:class:`~tessel.store.segment.file.SegmentFile` enters here. All checks are arithmetic on arrays
over the pages of all columns at once, so that opening a file costs microseconds. What only the
bytes of a page can show (codes out of range, offsets that go backwards) its encoding checks when
the page is first touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.base import INTEGER_ENCODINGS, Integers
from tessel.store.encodings.block_codec import fewest_stored_bytes
from tessel.store.encodings.codes import (
    ALIGNMENT,
    PAGE_RECORD,
    Codec,
    EncodingCode,
    PageFlag,
    Role,
    ValueKind,
)
from tessel.store.encodings.registry import ENCODINGS
from tessel.store.segment.expectations import Expectations
from tessel.store.segment.records import LARGEST_PAGE_SHIFT

__all__ = ["PageSet", "check_directory", "check_pages", "damaged"]

_MOST_VALUES = 1 << 48
_LARGEST_DICTIONARY = (1 << 31) - 1
_INTEGER_CODES = np.isin(np.arange(256), sorted(INTEGER_ENCODINGS))
_FLAGS = int(sum(PageFlag))

# Plain integers: operators of numpy with members of an enum take several times as long.
_VALIDITY = int(PageFlag.VALIDITY)
_NONE, _FLOAT, _DECIMAL = int(ValueKind.NONE), int(ValueKind.FLOAT), int(ValueKind.DECIMAL)
_OFFSETS, _SIGNED = int(ValueKind.OFFSETS), int(ValueKind.SIGNED)
_ALL_MISSING, _DICTIONARY = int(EncodingCode.ALL_MISSING), int(EncodingCode.DICTIONARY)
_NO_CODEC, _LAST_CODEC = int(Codec.NONE), int(max(Codec))

Check: TypeAlias = "tuple[Any, str]"
"""An array of bool, and what is wrong where it is False."""


def damaged(name: str, what: str, **place: Any) -> CorruptSegmentError:
    """Make the error for a damaged segment; ``place`` may name column and page."""
    where = "".join(f", {word} {value}" for word, value in place.items())
    return CorruptSegmentError(
        f"{name} is damaged{where}: {what}",
        hint="restore the object from a copy of the store",
        object=name,
        **place,
    )


def check_directory(
    directory: npt.NDArray[np.void],
    expected: Expectations,
    *,
    name: str,
    rows: int,
    metadata_start: int,
    page_records: int,
    prefixes_length: int,
) -> None:
    """Check the column directory against the schema, the footer and itself.

    Raises
    ------
    CorruptSegmentError
        Names the object and the column.
    """
    checks: list[Check] = []

    def require(holds: Any, what: str) -> None:
        checks.append((holds, what))

    for field in ("column_id", "parent", "role", "kind", "width"):
        require(directory[field] == getattr(expected, field), f"{field} does not fit the schema")
    require(directory["node"] == np.arange(len(directory)), "nodes are out of order")
    shift = directory["page_shift"].astype(np.int64)
    require(shift <= LARGEST_PAGE_SHIFT, "pages have more rows than they may")
    require(shift == shift[expected.top], "the parts of one field are cut differently")
    pages = directory["page_count"].astype(np.int64)
    require(
        pages == (rows + (1 << shift) - 1) >> shift, "it has not as many pages as its rows need"
    )
    has_dictionary = directory["has_dictionary"].astype(np.int64)
    counts = directory["dictionary_count"]
    require((has_dictionary == (counts > 0)) & (counts <= _LARGEST_DICTIONARY), "a dictionary size")
    require(
        (has_dictionary == 0) | expected.may_have_dictionary,
        "it has a dictionary, which its type cannot have",
    )
    records = pages + has_dictionary
    begins = metadata_start + PAGE_RECORD.itemsize * (np.cumsum(records) - records)
    require(directory["page_table"] == begins, "its page table lies elsewhere")
    values = directory["value_count"]
    fixed = expected.multiplier > 0
    require(values <= _MOST_VALUES, "it has more values than a segment can have")
    require(~fixed | (values == expected.multiplier * rows), "it has not as many values as rows")
    prefix = directory["prefix_length"].astype(np.int64)
    require(directory["prefix_start"] + prefix <= prefixes_length, "its prefix lies outside")
    require((prefix == 0) | expected.is_bytes, "it has a prefix, being no text")
    found = _first_failure(checks)
    if found is not None:
        raise damaged(name, found[1], column=int(expected.column_id[found[0]]))
    if int(records.sum()) != page_records:
        raise damaged(name, "the page tables do not add up")


@dataclass(frozen=True, slots=True, eq=False)
class PageSet:
    """Page records of some columns, each column's contiguous, in the order of the directory.

    Attributes
    ----------
    records
        The records.
    columns
        Numbers of the columns (nodes), ascending; with a field, all its nodes are there.
    first
        Where the records of each of ``columns`` begin, and their number in all.
    """

    records: npt.NDArray[np.void]
    columns: Integers
    first: Integers


def _first_failure(checks: Sequence[Check]) -> tuple[int, str] | None:
    """Return the place and the text of the first check that fails, or None where all hold."""
    together = checks[0][0].copy() if checks else np.ones(0, np.bool_)
    for holds, _ in checks:
        together &= holds
    if together.all():
        return None
    for holds, what in checks:
        if not holds.all():
            return int(np.argmin(holds)), what
    raise AssertionError("a check that fails is among the checks")


class _Checker:
    """Checks over the records of a set of columns; an instance lives for one call."""

    def __init__(
        self,
        pages: PageSet,
        directory: npt.NDArray[np.void],
        expected: Expectations,
        name: str,
        rows: int,
        metadata_start: int,
    ) -> None:
        self.records = pages.records
        self.set = pages
        self.directory = directory
        self.expected = expected
        self.name = name
        self.rows = rows
        self.metadata_start = metadata_start
        counts = pages.first[1:] - pages.first[:-1]
        self.owner = np.repeat(pages.columns, counts)
        place = np.repeat(pages.first[:-1], counts)
        self.number = np.arange(len(self.records)) - place
        self.of_dictionary = self.number == directory["page_count"][self.owner]
        self.kind = expected.kind[self.owner]
        self.row_count = self.records["row_count"].astype(np.int64)
        self.encoding = self.records["encoding"]
        self.payload = self.records["payload_length"].astype(np.int64)

        self.checks: list[Check] = []

    def require(self, holds: Any, what: str) -> None:
        self.checks.append((holds, what))

    def settle(self) -> None:
        """Raise for the first check that does not hold; nothing is believed before."""
        found = _first_failure(self.checks)
        if found is not None:
            self.fail(*found)
        self.checks.clear()

    def fail(self, at: int, what: str) -> NoReturn:
        column = int(self.expected.column_id[self.owner[at]])
        page: Any = "dictionary" if self.of_dictionary[at] else int(self.number[at])
        raise damaged(self.name, what, column=column, page=page)

    def places(self) -> None:
        """Check that stored bytes lie among the pages, and that their lengths fit the codec."""
        records, payload = self.records, self.payload
        offset = records["offset"].astype(np.int64)
        length = records["length"].astype(np.int64)
        self.require(
            (offset >= 0) & (offset % ALIGNMENT == 0) & (offset <= self.metadata_start - length),
            "its bytes lie outside the pages of the file",
        )
        codec = records["codec"]
        plain = codec == _NO_CODEC
        self.require(
            (codec <= _LAST_CODEC) & (payload % ALIGNMENT == 0) & (~plain | (length == payload)),
            "its codec or its lengths are none",
        )
        if not plain.all():
            fewest = fewest_stored_bytes(payload)
            self.require(plain | (length >= fewest), "it is too short for what it should hold")
        starts = records["starts"]
        self.require(
            (starts % ALIGNMENT == 0).all(axis=1)
            & (starts[:, 1:] >= starts[:, :-1]).all(axis=1)
            & (starts[:, -1] <= payload),
            "its buffers are out of order",
        )

    def counts(self) -> None:
        """Check that rows, nulls and NaNs add up, and say whether there is a validity bitmap."""
        records, rows, kind = self.records, self.row_count, self.kind
        nulls = records["null_count"].astype(np.int64)
        nans = records["nan_count"]
        self.require(nulls <= rows, "it has more nulls than rows")
        self.require(
            (nans == 0) | ((kind == _FLOAT) & (nans <= rows - nulls)),
            "it has more NaNs than values",
        )
        flags = records["flags"]
        partly = (nulls > 0) & (nulls < rows)
        self.require(
            (flags <= _FLAGS) & (((flags & _VALIDITY) != 0) == partly),
            "its flags are none",
        )
        self.require(
            ~partly | (records["starts"][:, 0] >= (rows + 7) >> 3), "its validity is cut short"
        )
        missing = self.encoding == _ALL_MISSING
        self.require(
            (missing == (nulls == rows)) | (kind == _NONE),
            "its encoding and its nulls contradict each other",
        )
        self.require(~self.of_dictionary | (nulls == 0), "a dictionary holds nulls")

    def cuts(self) -> None:
        """Check that pages follow each other without gap, cut where their top-level rows are."""
        records, owner, directory = self.records, self.owner, self.directory
        first = records["first_row"].astype(np.int64)
        follows = np.zeros_like(first)
        follows[1:] = first[:-1] + self.row_count[:-1]
        begins = (self.number == 0) | self.of_dictionary
        self.require(first == np.where(begins, 0, follows), "its rows do not follow the last page")
        self.require(
            ~self.of_dictionary | (self.row_count == directory["dictionary_count"][owner]),
            "the dictionary has another size",
        )
        shift = directory["page_shift"].astype(np.int64)[owner]
        expected = np.minimum(1 << shift, self.rows - (self.number << shift))
        times = self.expected.multiplier[owner]
        self.require(
            (times == 0) | self.of_dictionary | (self.row_count == times * expected),
            "it has not the rows of its place",
        )
        for node in self.expected.varying:
            self.items(node)

    def items(self, node: int) -> None:
        """Check that pages below a list hold exactly the items of the lists above."""
        at = np.searchsorted(self.set.columns, node)
        if at == len(self.set.columns) or self.set.columns[at] != node:
            return
        above = self.expected.nodes[self.expected.nodes[node].parent]
        mine, theirs = self.slice_of(node), self.slice_of(above.number)
        records, parents = self.records[mine], self.records[theirs]
        if above.role == Role.LIST:
            holds = records["first_row"] == parents["item_start"]
        else:
            times = above.width if above.role == Role.FIXED_LIST else 1
            holds = self.row_count[mine] == self.row_count[theirs] * times
        if not holds.all():
            self.fail(mine.start + int(np.argmin(holds)), "it does not fit the page above it")
        held = int(self.row_count[mine].sum())
        if held != int(self.directory["value_count"][node]):
            self.fail(mine.start, "its pages do not hold all values")

    def slice_of(self, node: int) -> slice:
        at = int(np.searchsorted(self.set.columns, node))
        start = int(self.set.first[at])
        return slice(start, start + int(self.directory["page_count"][node]))

    def encodings(self) -> None:
        """Check that encodings are ones of the type, with buffers long enough for the values."""
        owner, encoding = self.owner, self.encoding
        known = encoding < self.expected.legal.shape[1]
        code = np.where(known, encoding, 0)
        legal = np.where(
            self.of_dictionary,
            self.expected.legal_dictionary[owner, code],
            self.expected.legal[owner, code],
        )
        self.require(known & legal, "its encoding is none of its type")
        self.settle()
        codes = encoding == _DICTIONARY
        if codes.any():
            has = self.directory["has_dictionary"][owner] == 1
            self.require(~codes | has, "it refers to a dictionary that is not there")
        lists = self.kind == _OFFSETS
        lengths = self.row_count + (lists & (self.row_count > 0))
        kinds, widths = self.stored_kinds(lists)
        needed = np.zeros((len(encoding), 4), np.int64)
        # Columns of one type and encoding are asked about together.
        groups = (widths << 16) | (kinds << 8) | encoding
        for group in sorted(set(groups.tolist())):
            each, kind, width = group & 255, (group >> 8) & 255, group >> 16
            if each > _ALL_MISSING:
                chosen = groups == group
                needed[chosen] = ENCODINGS[each].slot_bytes(
                    self.records[chosen], ValueKind(kind), width, lengths[chosen]
                )
        self.require((needed >= 0).all(axis=1), "its encoding has parameters that mean nothing")
        starts = self.records["starts"].astype(np.int64)
        room = np.empty_like(starts)
        room[:, :3] = starts[:, 1:]
        room[:, 3] = self.payload
        self.require((needed <= room - starts).all(axis=1), "its buffers are too short")

    def stored_kinds(self, lists: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
        kinds, widths = self.kind, self.expected.width[self.owner]
        narrow = (kinds == _DECIMAL) & _INTEGER_CODES[self.encoding]
        if lists.any() or narrow.any():
            kinds = np.where(lists | narrow, _SIGNED, kinds)
            widths = np.where(narrow, 8, widths)
        return kinds, widths


def check_pages(
    pages: PageSet,
    directory: npt.NDArray[np.void],
    expected: Expectations,
    *,
    name: str,
    rows: int,
    metadata_start: int,
) -> None:
    """Check all page records of some columns.

    Raises
    ------
    CorruptSegmentError
        Names the object, the column id and the page (its number, or ``"dictionary"``).
    """
    if not len(pages.records):
        return
    checker = _Checker(pages, directory, expected, name, rows, metadata_start)
    checker.places()
    checker.counts()
    checker.cuts()
    checker.encodings()
    checker.settle()

"""Small segments that follow one another, opened in one pass and read as if they were one.

Readers enter here with the segments of many small appends. Opening a segment takes some hundred
calls of numpy whatever its size, so here the metadata of all of them are checked together: footers,
directories and page tables are stacked and go through the same checks as those of one file. Pages
are found by their first row, because segments of any length follow one another.

Whatever does not hold, or is not alike, leaves the segments to be opened one by one: then the error
names what is wrong with which of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import different
from tessel.ecs.piece import SegmentKey
from tessel.lazy import dataclass
from tessel.store.encodings.codes import (
    PAGE_RECORD,
    Codec,
    EncodingCode,
    PageFlag,
    Role,
    ValueKind,
)
from tessel.store.encodings.values import Integers, PhysicalValues
from tessel.store.encodings.variable import gather_spans
from tessel.store.segment.expectations import Expectations, expectations
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.frame import Frame, RecordFacts, frame, wrong_lines
from tessel.store.segment.page_tables import NUMBERS, PageTable
from tessel.store.segment.pages import SegmentPages, holds_narrow_values
from tessel.store.segment.records import (
    COLUMN_RECORD,
    FOOTER_RECORD,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    MAGIC,
    field_place,
)
from tessel.store.segment.validation import check_pages, damaged

_FOOTER_BYTES: Final = FOOTER_RECORD.itemsize
_CHECKSUM_PLACE: Final = field_place(FOOTER_RECORD, "footer_checksum")
_WORD_BYTES: Final = 8
"""Words are loaded from any place of the pages, so that many bytes follow the last of them."""

_AS_STORED: Final = np.isin(np.arange(256), (EncodingCode.CONSTANT, EncodingCode.FLAT))
"""By code, whether any bytes that a page of numbers may hold are values."""

_STARTS: Final = ("metadata_start", "directory_start", "prefixes_start", "schema_start")


@dataclass(frozen=True, slots=True, eq=False)
class _Metadata:
    """What several files of one schema say of themselves, checked; one file after the other.

    Attributes
    ----------
    footers
        One a file.
    """

    footers: npt.NDArray[np.void]
    expected: Expectations
    facts: RecordFacts
    records: npt.NDArray[np.void]


class _JoinedFile(SegmentFile):
    """The metadata of several files, seen as those of one.

    Parameters
    ----------
    starts
        Where the pages of each file begin among those of all.
    """

    def __init__(self, metadata: _Metadata, starts: Integers, names: Sequence[str]) -> None:
        self.nodes = metadata.expected.nodes
        self.schema = metadata.expected.schema
        self.row_count = int(metadata.footers["row_count"].sum())
        self.object = names[0]
        self.number = self.next_number()
        self._names = names
        self._expected = metadata.expected
        self._tables = {}
        self.directory = np.zeros(len(self.nodes), COLUMN_RECORD)
        facts, columns = metadata.facts, len(self.nodes)
        file_of, node_of = np.divmod(facts.owner, max(columns, 1))
        records = metadata.records.copy()
        records["offset"] += starts[file_of].astype(np.uint64)
        self.page_files: list[Integers] = []
        self.dictionaries: list[dict[int, np.void]] = []
        for node in range(columns):
            own = node_of == node
            at = np.flatnonzero(own & ~facts.of_dictionary)
            kept = np.flatnonzero(own & facts.of_dictionary)
            pages = records.take(at)
            rows = pages["row_count"].astype(np.uint64)
            pages["first_row"] = np.cumsum(rows) - rows
            self._tables[node] = pages
            self.page_files.append(file_of[at])
            self.dictionaries.append({int(file_of[each]): records[each] for each in kept.tolist()})
            line = self.directory[node]
            line["page_count"], line["value_count"] = len(pages), rows.sum()
            line["has_dictionary"] = len(kept) > 0

    def load(self, columns: Sequence[int]) -> None:
        """Do nothing: all page tables are there."""

    def pages(self, node: int) -> npt.NDArray[np.void]:
        """Return the page records of a physical column, without those of dictionaries."""
        return self._tables[node]

    def dictionary(self, node: int) -> np.void | None:
        """Return None: each file has a dictionary of its own."""
        return None

    def place(self, node: int, page: int | str) -> dict[str, Any]:
        """Return object, column id and page of a page, counted over all files."""
        files = self.page_files[node]
        name = self._names[int(files[page])] if isinstance(page, int) else self.object
        return {**super().place(node, page), "object": name}


class JoinedPages(SegmentPages):
    """The pages of several small segments, as of one; made by :func:`join_segments`."""

    file: _JoinedFile

    def __init__(self, metadata: _Metadata, names: Sequence[str], parts: Sequence[bytes]) -> None:
        starts = np.cumsum([0, *map(len, parts)])
        file = _JoinedFile(metadata, starts, names)
        self._bytes = b"".join([*parts, bytes(_WORD_BYTES)])
        # Of each column, one more than it has pages: the flag of a dictionary.
        sound = np.zeros(sum(map(len, file.page_files)) + len(file.nodes), np.bool_)
        super().__init__(file, np.frombuffer(self._bytes, np.uint8), sound)
        rows = metadata.footers["row_count"].astype(np.int64)
        self._file_rows = np.concatenate([[0], np.cumsum(rows)])
        self._own_dictionaries: dict[tuple[int, int], PhysicalValues] = {}

    def rows(self, spans: Integers) -> Integers:
        """Return which rows of all are rows ``[start, stop)`` of each segment, int64.

        Raises CorruptSegmentError when a segment has not so many rows.
        """
        starts, stops = spans[:, 0] + self._file_rows[:-1], spans[:, 1] + self._file_rows[:-1]
        holds = (spans[:, 0] >= 0) & (starts <= stops) & (stops <= self._file_rows[1:])
        _require(self.file.object, holds)
        counts = stops - starts
        before = np.cumsum(counts) - counts
        rows: Integers = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
        return rows

    def page_of(self, node: int, rows: Integers) -> Integers:
        """Return the number of the page that holds each row of a physical column."""
        return np.searchsorted(self.first_rows(node), rows, "right") - 1

    def page_table(self, node: int) -> PageTable | None:
        """Return None: rows are not found by shifting them."""
        return None

    def touch(self, node: int, numbers: Integers) -> None:
        """Verify the pages of these numbers, those that need no look at each value together."""
        first = self._first_flag[node]
        numbers = different(numbers)
        numbers = numbers[~self._sound[first + numbers]]
        records = self.records(node)[numbers]
        sound = self._sound_together(node, records)
        self._sound[first + numbers[sound]] = True
        super().touch(node, numbers[~sound])

    def _sound_together(self, node: int, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Return which pages are sound by what can be asked of all at once; others may be so."""
        column = self.nodes[node]
        constant: npt.NDArray[np.bool_] = records["encoding"] == EncodingCode.CONSTANT
        found: npt.NDArray[np.bool_]
        if column.kind in NUMBERS:
            found = _AS_STORED[records["encoding"]]
        elif column.kind in (ValueKind.TEXT, ValueKind.BINARY):
            found = constant
        else:
            found = np.zeros(len(records), np.bool_)
        if column.role != Role.VALUES or holds_narrow_values(column):
            return np.zeros(len(records), np.bool_)
        found &= (records["codec"] == Codec.NONE) & (records["null_count"] == 0)
        found &= (records["flags"] & int(PageFlag.VALIDITY)) == 0
        at = np.flatnonzero(found)
        starts, lengths = records["offset"][at].tolist(), records["length"][at].tolist()
        sums = [
            google_crc32c.value(self._bytes[start : start + length])
            for start, length in zip(starts, lengths, strict=True)
        ]
        found[at] = np.array(sums, np.int64) == records["checksum"][at]
        if column.kind == ValueKind.TEXT and found.any() and not self._is_text(records[found]):
            found[:] = False
        return found

    def _is_text(self, records: npt.NDArray[np.void]) -> bool:
        """Return whether the values of constant pages are UTF-8."""
        lengths = records["count"].astype(np.int64)
        places = records["offset"].astype(np.int64) + records["starts"][:, 0]
        offsets, data = gather_spans(self.data, places, lengths)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        try:
            pa.Array.from_buffers(pa.string(), len(records), buffers).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True

    def dictionary_array(self, node: int, rows: int) -> pa.Array:
        """Refuse: a column of dictionary type has another dictionary in each segment.

        Raises CorruptSegmentError always, as for all segments that are not alike.
        """
        raise _unlike(self.file.object)

    def _dictionary_of(self, node: int, number: int) -> PhysicalValues | None:
        """Return the dictionary of the file that a page belongs to."""
        file = int(self.file.page_files[node][number])
        record = self.file.dictionaries[node].get(file)
        if record is None:
            return None
        found = self._own_dictionaries.get((node, file))
        if found is None:
            page = self._load(node, self.page_count(node), record, None, again=True)
            found = self._own_dictionaries[node, file] = self._all_values(node, page)
        return found


def join_segments(keys: Sequence[SegmentKey], held: Sequence[pa.Buffer]) -> JoinedPages:
    """Open segments of one schema together.

    Raises CorruptSegmentError when they are not alike, or something is wrong with one of them; it
    does not say with which; ValueError when their schema is none, or their rows need other page
    tables than there are.

    Parameters
    ----------
    keys
        At least one.
    held
        All bytes of each.
    """
    # Copies, which small slices of bytes are made of faster than views.
    parts = [each.to_pybytes() for each in held]
    metadata = _metadata(keys, parts)
    starts = metadata.footers["metadata_start"].tolist()
    pages = [part[:start] for part, start in zip(parts, starts, strict=True)]
    return JoinedPages(metadata, [key.object for key in keys], pages)


def _metadata(keys: Sequence[SegmentKey], parts: Sequence[bytes]) -> _Metadata:
    """Return the metadata of segments that are alike, after the checks of a single one."""
    name = keys[0].object
    footers = _footers(keys, parts)
    ends = footers["segment_length"].astype(np.int64) - _FOOTER_BYTES
    first, second = footers["metadata_start"].tolist(), footers["directory_start"].tolist()
    third, fourth = footers["prefixes_start"].tolist(), footers["schema_start"].tolist()
    message = parts[0][fourth[0] : int(ends[0])]
    bodies = [part[at:end] for part, at, end in zip(parts, second, ends.tolist(), strict=True)]
    sums = [google_crc32c.value(body) for body in bodies]
    _require(name, np.array(sums, np.int64) == footers["directory_checksum"])
    same = (
        part[at:end] == message for part, at, end in zip(parts, fourth, ends.tolist(), strict=True)
    )
    _require(name, np.fromiter(same, np.bool_, len(parts)))
    expected = expectations(message)
    columns = len(expected.nodes)
    _require(name, footers["column_count"] == columns)
    directory = np.frombuffer(
        b"".join(part[low:high] for part, low, high in zip(parts, second, third, strict=True)),
        COLUMN_RECORD,
    )
    stack = _stacked(_frames(message, footers, directory, columns), columns)
    starts = footers["metadata_start"].astype(np.int64)
    begins = np.repeat(footers["metadata_start"], columns)
    lengths = np.repeat(footers["prefixes_length"], columns)
    _require(name, ~wrong_lines(directory, expected, stack, begins, lengths))
    tables = b"".join(part[low:high] for part, low, high in zip(parts, first, second, strict=True))
    places = (stack.first * PAGE_RECORD.itemsize).tolist()
    sums = [google_crc32c.value(tables[low:high]) for low, high in itertools.pairwise(places)]
    _require(name, np.array(sums, np.int64) == directory["page_table_checksum"])
    records = np.frombuffer(tables, PAGE_RECORD)
    limits = np.repeat(starts, footers["page_count"].astype(np.int64))
    check_pages(records, None, directory, expected, stack, name=name, metadata_start=limits)
    return _Metadata(footers, expected, stack.records, records)


def _footers(keys: Sequence[SegmentKey], parts: Sequence[bytes]) -> npt.NDArray[np.void]:
    """Return the footers of segments, each that of its key, whose parts make up its length."""
    name = keys[0].object
    lengths = np.array([len(part) for part in parts], np.int64)
    _require(name, (lengths >= _FOOTER_BYTES) & (lengths == [key.length for key in keys]))
    held = [part[-_FOOTER_BYTES:] for part in parts]
    footers = np.frombuffer(b"".join(held), FOOTER_RECORD)
    _require(name, footers["magic"] == MAGIC.rstrip(b"\0"))
    _require(
        name,
        (footers["version_major"] == FORMAT_MAJOR) & (footers["version_minor"] <= FORMAT_MINOR),
    )
    low, high = _CHECKSUM_PLACE, _CHECKSUM_PLACE + 4
    sums = [google_crc32c.value(each[:low] + bytes(4) + each[high:]) for each in held]
    _require(name, np.array(sums, np.int64) == footers["footer_checksum"])
    _require(name, footers["footer_checksum"] == [key.checksum for key in keys])
    # None is longer than its file, so that no sum below wraps.
    for field in (*_STARTS, "segment_length", "page_count"):
        _require(name, footers[field] <= lengths.astype(np.uint64))
    _require(name, footers["row_count"] < 1 << 40)
    begin, directory, prefixes, schema = (footers[each].astype(np.int64) for each in _STARTS)
    tables = footers["page_count"].astype(np.int64) * PAGE_RECORD.itemsize
    lines = footers["column_count"].astype(np.int64) * COLUMN_RECORD.itemsize
    end = schema + footers["schema_length"].astype(np.int64)
    _require(
        name,
        (footers["segment_length"] == lengths.astype(np.uint64))
        & (begin % 64 == 0)
        & (begin + tables == directory)
        & (directory + lines == prefixes)
        & (prefixes + footers["prefixes_length"].astype(np.int64) == schema)
        & (end == lengths - _FOOTER_BYTES),
    )
    return footers


def _frames(
    message: bytes, footers: npt.NDArray[np.void], directory: npt.NDArray[np.void], columns: int
) -> list[Frame]:
    """Return the frame of each file; files that are cut alike share one."""
    shifts = directory["page_shift"].reshape(-1, columns).tobytes()
    dictionaries = directory["has_dictionary"].reshape(-1, columns).tobytes()
    rows, records = footers["row_count"].tolist(), footers["page_count"].tolist()
    lines = range(0, len(shifts), max(columns, 1))
    return [
        frame(message, count, shifts[at : at + columns], dictionaries[at : at + columns], pages)
        for at, count, pages in zip(lines, rows, records, strict=True)
    ]


def _stacked(frames: Sequence[Frame], columns: int) -> Frame:
    """Return the frames of files of one schema as one: the columns of a file after another's."""
    counts = [len(each.records.owner) for each in frames]
    starts = np.cumsum([0, *counts])
    held = {
        field.name: np.concatenate([getattr(each.records, field.name) for each in frames])
        for field in fields(RecordFacts)
    }
    held["owner"] = held["owner"] + np.repeat(np.arange(len(frames)) * columns, counts)
    firsts = np.concatenate([each.first[:-1] for each in frames])
    return Frame(
        first=np.append(firsts + np.repeat(starts[:-1], columns), starts[-1]),
        pages=np.concatenate([each.pages for each in frames]),
        table_start=np.concatenate([each.table_start for each in frames]),
        words=np.concatenate([each.words for each in frames]),
        words_mask=np.concatenate([each.words_mask for each in frames]),
        records=RecordFacts(**held),
        any_list=frames[0].any_list,
        any_decimal=frames[0].any_decimal,
    )


def _require(name: str, holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise _unlike(name)


def _unlike(name: str) -> Exception:
    return damaged(name, "it, or one of the segments behind it, is not like the others")

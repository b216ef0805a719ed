"""One segment file, opened: its schema, its directory, and page tables that may be believed.

Readers, planners and reports enter here. Opening costs one read of the tail (or of exactly the
metadata, for those who know where they start), and a projected open of a wide file one more for
the page tables of its columns. Nothing is kept of the file but these tables; page bytes are a
matter of whoever reads them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import ColumnNotFoundError, CorruptStoreError, FormatVersionError, NotFoundError
from tessel.lazy import dataclass
from tessel.store.encodings.codes import PAGE_RECORD
from tessel.store.encodings.fields import FieldNode
from tessel.store.segment.expectations import Expectations, SchemaDamageError, expectations
from tessel.store.segment.frame import Frame, FrameError, frame, wrong_lines
from tessel.store.segment.records import (
    COLUMN_RECORD,
    FOOTER_RECORD,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    MAGIC,
    READABLE_BEFORE_ONE,
    TAIL_BYTES,
    field_place,
)
from tessel.store.segment.validation import check_pages, damaged

if TYPE_CHECKING:
    from tessel.store.segment.zone_maps import ZoneMaps

ReadBytes: TypeAlias = Callable[[int, int], pa.Buffer]
"""``(start, stop) -> bytes`` of the object that the segment lies in; places in the object."""

_numbers = itertools.count()

_FOOTER_BYTES = FOOTER_RECORD.itemsize
_FOOTER = struct.Struct("<7Q4I4sI2H4s8s")
_FOOTER_FIELDS = FOOTER_RECORD.names or ()
_CHECKSUM_PLACE = field_place(FOOTER_RECORD, "footer_checksum")


_Footer: TypeAlias = Mapping[str, Any]
"""The footer as plain numbers, by the names of its record; checked."""


class SegmentFile:
    """A segment whose metadata were read and checked; made by :meth:`open`.

    Attributes
    ----------
    schema
        Its columns, named by column id in decimal.
    nodes
        All nodes of the tree of fields; a node's number is that of its physical column.
    directory
        The column directory: a structured array, one element a node.
    metadata_start
        Where pages end and metadata begin, from the start of the segment.
    number
        Tells the files that this process opened apart.
    checksum
        Of the footer; since every part states the checksums of those below it, that of the whole.
    """

    def __init__(
        self,
        source: _Source,
        footer: _Footer,
        expected: Expectations,
        frame_: Frame,
        directory: npt.NDArray[np.void],
        prefixes: bytes,
    ) -> None:
        self.object, self.length = source.name, source.length
        self.number = self.next_number()
        self.row_count = footer["row_count"]
        self.metadata_start = footer["metadata_start"]
        self.checksum = footer["footer_checksum"]
        self.schema: pa.Schema = expected.schema
        self.nodes = expected.nodes
        self.directory = directory
        self._source = source
        self._expected = expected
        self._prefixes = prefixes
        self._frame = frame_
        self._tables: dict[int, npt.NDArray[np.void]] = {}

    @staticmethod
    def next_number() -> int:
        """Return a number that no other file of this process has."""
        return next(_numbers)

    @classmethod
    def open(
        cls,
        read: ReadBytes,
        *,
        object: str,  # noqa: A002  (the word of the store for it)
        offset: int,
        length: int,
        metadata_start: int | None = None,
        columns: Sequence[int] | None = None,
    ) -> SegmentFile:
        """Read and check the metadata of a segment.

        Raises CorruptSegmentError when the bytes are no segment, are damaged, or contradict
        themselves; names the object and, where one is to blame, column id and page;
        FormatVersionError for a version that this release does not read; ColumnNotFoundError for an
        id that the segment does not have.

        Parameters
        ----------
        metadata_start
            Where its metadata begin, counted from its first byte, if that is known.
        columns
            Ids of the columns whose page tables are wanted now; all of them by default. Those of
            other columns are read when they are asked for.
        """
        source = _Source(read, object, offset, length)
        wanted = TAIL_BYTES if metadata_start is None else length - metadata_start
        if columns is not None:
            wanted = min(wanted, TAIL_BYTES)
        start, tail = source.tail(max(wanted, _FOOTER_BYTES))
        footer = _footer(tail, start, length, object)
        if footer["directory_start"] < start:
            missing = footer["metadata_start"] if columns is None else footer["directory_start"]
            tail = np.concatenate([source.bytes(missing, start), tail])
            start = missing
        file = cls._from_tail(source, footer, tail, start)
        file._load_columns(columns, tail, start)
        return file

    @classmethod
    def _from_tail(
        cls, source: _Source, footer: _Footer, tail: npt.NDArray[np.uint8], start: int
    ) -> SegmentFile:
        body = tail[footer["directory_start"] - start : -_FOOTER_BYTES]
        if google_crc32c.value(body) != footer["directory_checksum"]:
            raise damaged(source.name, "the checksum of its directory does not fit")
        size = footer["column_count"] * COLUMN_RECORD.itemsize
        directory = np.ndarray((footer["column_count"],), COLUMN_RECORD, body)
        prefixes = body[size : size + footer["prefixes_length"]].tobytes()
        message = body[size + footer["prefixes_length"] :].tobytes()
        try:
            expected = expectations(message)
        except SchemaDamageError as error:
            raise damaged(source.name, str(error)) from error
        if len(expected.nodes) != footer["column_count"]:
            raise damaged(source.name, "its directory has not the columns of its schema")
        shifts, dictionaries = directory["page_shift"], directory["has_dictionary"]
        try:
            frame_ = frame(
                message,
                footer["row_count"],
                shifts.tobytes(),
                dictionaries.tobytes(),
                footer["page_count"],
            )
        except FrameError as error:
            raise damaged(source.name, str(error)) from error
        start, prefixes_length = footer["metadata_start"], footer["prefixes_length"]
        wrong = wrong_lines(directory, expected, frame_, start, prefixes_length)
        if wrong.any():
            raise damaged(
                source.name,
                "its line of the directory contradicts the schema, the rows or the file",
                column=int(expected.column_id[int(wrong.argmax())]),
            )
        return cls(source, footer, expected, frame_, directory, prefixes)

    # --- page tables ------------------------------------------------------------------------------

    def top(self, column_id: int) -> FieldNode:
        """Return the top-level node of a column.

        Raises ColumnNotFoundError, which lists the ids there are.
        """
        node = self._expected.tops.get(column_id)
        if node is None:
            raise ColumnNotFoundError.for_name(
                str(column_id), [str(i) for i in self._expected.tops], where=self.object
            )
        return node

    @property
    def column_ids(self) -> list[int]:
        """Ids of the columns, in the order of the schema."""
        return list(self._expected.tops)

    def load(self, columns: Sequence[int]) -> None:
        """Read and check the page tables of some columns, unless that was done."""
        self._load_columns(columns, np.empty(0, np.uint8), self.length)

    def pages(self, node: int) -> npt.NDArray[np.void]:
        """Return the page records of a physical column, without its dictionary's; read-only."""
        return self._table(node)[: int(self.directory["page_count"][node])]

    def dictionary(self, node: int) -> np.void | None:
        """Return the page record of a column's dictionary, or None where it has none."""
        if not self.directory["has_dictionary"][node]:
            return None
        record: np.void = self._table(node)[-1]
        return record

    def page_shift(self, node: int) -> int:
        """Return k: page *p* of the column belongs to top-level rows from ``p << k`` on."""
        return int(self.directory["page_shift"][node])

    def prefix(self, node: int) -> bytes:
        """Return what all values of a text column begin with."""
        record = self.directory[node]
        start = int(record["prefix_start"])
        return self._prefixes[start : start + int(record["prefix_length"])]

    def zone_maps(self, node: int) -> ZoneMaps:
        """Return the bounds and counts of all data pages of a column, as arrays."""
        from tessel.store.segment.zone_maps import ZoneMaps

        return ZoneMaps.of(self.nodes[node].kind, self.pages(node), self.prefix(node))

    def place(self, node: int, page: int | str) -> dict[str, Any]:
        """Return object, column id and page, as errors about a page name them."""
        column = int(self._expected.column_id[node])
        return {"object": self.object, "column": column, "page": page}

    def _table(self, node: int) -> npt.NDArray[np.void]:
        if node not in self._tables:
            self.load([int(self._expected.column_id[node])])
        return self._tables[node]

    def _load_columns(
        self, columns: Sequence[int] | None, known: npt.NDArray[np.uint8], start: int
    ) -> None:
        """Read page tables, unless they are among ``known`` bytes, which begin at ``start``."""
        if columns is None:
            numbers = list(range(len(self.nodes)))
        else:
            tops = sorted({self.top(column_id).number for column_id in columns})
            numbers = [n for top in tops for n in range(top, self.nodes[top].end)]
            numbers = [n for n in numbers if n not in self._tables]
        if not numbers:
            return
        first = self._frame.first.tolist()
        parts = []
        for begin, end in _stretches(numbers):
            places = [at * PAGE_RECORD.itemsize for at in first[begin : end + 1]]
            part = self._bytes(places[0], places[-1], known, start)
            self._verify(begin, part, [place - places[0] for place in places])
            parts.append(part)
        held = parts[0] if len(parts) == 1 else np.concatenate(parts)
        records = np.ndarray((len(held) // PAGE_RECORD.itemsize,), PAGE_RECORD, held)
        picked = None
        if len(records) != first[-1]:
            picked = np.concatenate([np.arange(first[n], first[n + 1]) for n in numbers])
        check_pages(
            records,
            picked,
            self.directory,
            self._expected,
            self._frame,
            name=self.object,
            metadata_start=self.metadata_start,
        )
        at = 0
        for number in numbers:
            size = first[number + 1] - first[number]
            self._tables[number] = records[at : at + size]
            at += size

    def _bytes(
        self, begin: int, end: int, known: npt.NDArray[np.uint8], start: int
    ) -> npt.NDArray[np.uint8]:
        """Return bytes of the page tables; places count from the first one."""
        begin, end = begin + self.metadata_start, end + self.metadata_start
        if begin >= start:
            return known[begin - start : end - start]
        if end <= start or not len(known):
            return self._source.bytes(begin, end)
        return np.concatenate([self._source.bytes(begin, start), known[: end - start]])

    def _verify(self, first: int, part: npt.NDArray[np.uint8], places: list[int]) -> None:
        """Check the tables of the columns from ``first`` on, which adjoin in ``part``."""
        stated = self.directory["page_table_checksum"][first : first + len(places)].tolist()
        for at, (begin, end) in enumerate(pairwise(places)):
            if google_crc32c.value(part[begin:end]) != stated[at]:
                column = int(self._expected.column_id[first + at])
                raise damaged(
                    self.object, "the checksum of a page table does not fit", column=column
                )


@dataclass(frozen=True, slots=True)
class _Source:
    """The bytes of one segment, by places counted from its first byte."""

    read: ReadBytes
    name: str
    offset: int
    length: int

    def bytes(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        try:
            held = self.read(self.offset + start, self.offset + stop)
        except (NotFoundError, CorruptStoreError) as error:
            raise damaged(self.name, f"it is missing or cut short: {error.message}") from error
        if held.size != stop - start:
            raise damaged(self.name, f"{stop - start} bytes were wanted, {held.size} came")
        return np.frombuffer(held, np.uint8)

    def tail(self, wanted: int) -> tuple[int, npt.NDArray[np.uint8]]:
        if self.length < _FOOTER_BYTES:
            raise damaged(self.name, f"{self.length} bytes are too few for a segment")
        start = max(0, self.length - wanted)
        return start, self.bytes(start, self.length)


def _footer(tail: npt.NDArray[np.uint8], start: int, length: int, name: str) -> _Footer:
    held = tail[-_FOOTER_BYTES:].tobytes()
    footer = dict(zip(_FOOTER_FIELDS, _FOOTER.unpack(held), strict=True))
    if footer["magic"] != MAGIC:
        raise damaged(name, "it is not a segment file, or it is cut short")
    version = (footer["version_major"], footer["version_minor"])
    ours = version[0] == FORMAT_MAJOR and version[1] <= FORMAT_MINOR
    if not ours and version not in READABLE_BEFORE_ONE:
        raise FormatVersionError(
            f"{name} has segment format {version[0]}.{version[1]}, "
            f"this release reads {FORMAT_MAJOR}.{FORMAT_MINOR}",
            hint="read it with the release that wrote it, and write it again with this one",
            object=name,
            version=f"{version[0]}.{version[1]}",
        )
    unsigned = held[:_CHECKSUM_PLACE] + bytes(4) + held[_CHECKSUM_PLACE + 4 :]
    if google_crc32c.value(unsigned) != footer["footer_checksum"]:
        raise damaged(name, "the checksum of its footer does not fit")
    end = length - _FOOTER_BYTES
    if (
        footer["segment_length"] != length
        or footer["row_count"] >= 1 << 40
        or footer["metadata_start"] % 64
        or footer["metadata_start"] + footer["page_count"] * PAGE_RECORD.itemsize
        != footer["directory_start"]
        or footer["directory_start"] + footer["column_count"] * COLUMN_RECORD.itemsize
        != footer["prefixes_start"]
        or footer["prefixes_start"] + footer["prefixes_length"] != footer["schema_start"]
        or footer["schema_start"] + footer["schema_length"] != end
    ):
        raise damaged(name, "the parts that its footer names do not make up its length")
    return footer


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges [begin, end)."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found

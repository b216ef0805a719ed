"""A table as the bytes of one segment file.

Whoever writes segments enters here, with :func:`encode_segment`. Columns are encoded one by one,
on a pool if the caller has one; then their pages are laid out row by row, and the metadata last.
The layout is that of ``docs/format.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.lazy import dataclass
from tessel.store.encodings.base import FAST, Profile
from tessel.store.encodings.chooser import PROFILES, check_override
from tessel.store.encodings.codes import PAGE_RECORD, Role, aligned
from tessel.store.encodings.fields import FieldNode, field_nodes
from tessel.store.encodings.values import Bytes
from tessel.store.segment.column_writer import EncodedColumn, encode_column
from tessel.store.segment.paging import cut_field
from tessel.store.segment.records import (
    COLUMN_RECORD,
    FOOTER_RECORD,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    LARGEST_PAGE_SHIFT,
    MAGIC,
)
from tessel.store.segment.statistics import ColumnStatistics, summarise

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class RunTasks(Protocol):
    """Runs a function on each of some tasks, in any thread, and returns results in their order."""

    def __call__(
        self, function: Callable[[_Task], _Result], tasks: Iterable[_Task], /
    ) -> Iterable[_Result]:
        """Run them; :func:`map` does, and so does ``map`` of an executor."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a segment is written; answers never depend on it.

    Raises InvalidInputError for a page shift that is not from 0 to 16.

    Attributes
    ----------
    profile
        Fast to read, or small.
    encodings
        By column name, the name of an encoding to use wherever it can hold a page of the leaves of
        that column.
    page_shifts
        By column name, k where pages hold 2**k rows; chosen by the width of rows otherwise.
    """

    profile: Profile = FAST
    encodings: Mapping[str, str] = field(default_factory=dict)
    page_shifts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, shift in self.page_shifts.items():
            if not 0 <= shift <= LARGEST_PAGE_SHIFT:
                raise InvalidInputError(
                    f"pages of column {name!r} cannot have 2**{shift} rows",
                    hint=f"the page shift is from 0 to {LARGEST_PAGE_SHIFT}",
                    column=name,
                )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSegment:
    """The bytes of a segment, in pieces.

    Attributes
    ----------
    pieces
        To be written one after the other; views of the table's own memory where possible.
    metadata_start
        Where the metadata begin: readers that are told need one read to open the file.
    statistics
        Those of each top-level column, in their order.
    """

    pieces: Sequence[Bytes]
    length: int
    metadata_start: int
    columns: Sequence[EncodedColumn]
    statistics: Sequence[ColumnStatistics]

    @property
    def checksum(self) -> int:
        """That of the footer: it vouches for the whole segment."""
        footer = self.pieces[-1][-FOOTER_RECORD.itemsize :].view(FOOTER_RECORD)
        return int(footer["footer_checksum"][0])

    def to_buffer(self) -> pa.Buffer:
        """Return all bytes as one buffer: a copy."""
        joined = np.concatenate(self.pieces) if self.pieces else np.empty(0, np.uint8)
        return pa.py_buffer(joined)


def profile_by_name(name: str) -> Profile:
    """Return the profile of that name.

    Raises NameNotFoundError, which lists the names that exist.
    """
    if name not in PROFILES:
        raise NameNotFoundError.for_name("profile", name, sorted(PROFILES))
    return PROFILES[name]


def check_encodings(schema: pa.Schema, encodings: Mapping[str, str]) -> None:
    """Refuse encodings that cannot hold the columns they are meant for.

    Raises NameNotFoundError for a name that is no encoding; InvalidInputError for an encoding of
    other types; lists those that would do.

    Parameters
    ----------
    schema
        Of stored types.
    encodings
        By column name; of a nested column they are meant for its leaves.
    """
    names = schema.names
    for node in field_nodes(schema):
        encoding = encodings.get(names[node.top])
        if encoding is not None and node.role == Role.VALUES:
            check_override(encoding, node)


def encode_segment(
    table: pa.Table, options: WriteOptions | None = None, run_tasks: RunTasks = map
) -> EncodedSegment:
    """Encode a table as one segment; see :func:`begin_segment`."""
    return begin_segment(table, options, run_tasks)()


def begin_segment(
    table: pa.Table,
    options: WriteOptions | None = None,
    run_tasks: RunTasks = map,
) -> Callable[[], EncodedSegment]:
    """Begin to encode a table as one segment; return what waits for it.

    Whoever has several segments to write begins the next before it waits for one, so that threads
    that are done with the columns of one go on with those of the next.

    Raises UnsupportedTypeError for a type that segments do not hold; InvalidInputError for an
    encoding that cannot hold a column, or, once it is waited for, a column with more than 2 GiB of
    text.

    Parameters
    ----------
    table
        All rows and columns of the segment. Columns are named by their id in decimal and have
        stored types (see :mod:`tessel.store.segment.types`).
    options
        How; the ``fast`` profile without any override by default.
    run_tasks
        Runs the tasks of the columns, for instance ``pool.map``.
    """
    options = WriteOptions() if options is None else options
    schema = pa.schema([pa.field(name, table.field(name).type) for name in table.column_names])
    check_encodings(schema, options.encodings)
    nodes = field_nodes(schema)

    def encode(top: FieldNode) -> tuple[list[EncodedColumn], ColumnStatistics]:
        values, forced = table.column(top.top), options.encodings.get(top.path)
        shift, columns = cut_field(
            _one_array(values), top, nodes, options.page_shifts.get(top.path)
        )
        encoded = [
            encode_column(
                each, shift, options.profile, forced if each.node.role == Role.VALUES else None
            )
            for each in columns
        ]
        return encoded, summarise(values, encoded[0].bounds)

    fields = run_tasks(encode, [node for node in nodes if node.parent < 0])

    def finish() -> EncodedSegment:
        done = list(fields)
        encoded = [column for columns, _ in done for column in columns]
        return _lay_out(encoded, schema, table.num_rows, [found for _, found in done])

    return finish


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        if joined.num_chunks == 1:
            return joined.chunk(0)
        raise InvalidInputError(
            "one column of one segment has more than 2 GiB", hint="write fewer rows a segment"
        )
    return joined


def _lay_out(
    columns: Sequence[EncodedColumn],
    schema: pa.Schema,
    rows: int,
    statistics: Sequence[ColumnStatistics],
) -> EncodedSegment:
    pieces: list[Bytes] = []
    place = 0
    for column, record in _file_order(columns):
        column.records["offset"][record] = place
        pieces += column.stored[record]
        end = place + int(column.records["length"][record])
        place = aligned(end)
        if place > end:
            pieces.append(np.zeros(place - end, np.uint8))
    metadata = _metadata(columns, schema, rows, place)
    pieces.append(metadata)
    return EncodedSegment(pieces, place + len(metadata), place, columns, statistics)


def _file_order(columns: Sequence[EncodedColumn]) -> list[tuple[EncodedColumn, int]]:
    """Return (column, number of record): dictionaries, then pages by first row, then column."""
    counts = np.array([column.page_count for column in columns], np.int64)
    owner = np.repeat(np.arange(len(columns)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    shift = np.array([column.page_shift for column in columns], np.int64)[owner]
    ranked = np.lexsort((owner, number << shift)).tolist()
    order = [(c, count) for c, count in zip(columns, counts, strict=True) if c.has_dictionary]
    return order + [(columns[int(owner[at])], int(number[at])) for at in ranked]


def _metadata(columns: Sequence[EncodedColumn], schema: pa.Schema, rows: int, start: int) -> Bytes:
    directory = np.zeros(len(columns), COLUMN_RECORD)
    names = schema.names
    tables, prefixes = bytearray(), bytearray()
    for number, column in enumerate(columns):
        node, table = column.node, column.records.tobytes()
        data = column.records[: column.page_count]
        directory[number] = (
            int(names[node.top]),
            int(data["row_count"].sum(dtype=np.int64)),
            start + len(tables),
            google_crc32c.value(table),
            len(data),
            node.number,
            node.parent,
            column.dictionary_count,
            node.width,
            len(prefixes),
            len(column.prefix),
            node.role,
            node.kind,
            column.page_shift,
            column.has_dictionary,
            0,
            0,
        )
        tables += table
        prefixes += column.prefix
    place = start + len(tables)
    body = directory.tobytes() + prefixes + schema.serialize().to_pybytes()
    footer = np.zeros((), FOOTER_RECORD)
    footer["row_count"] = rows
    footer["metadata_start"] = start
    footer["directory_start"] = place
    footer["prefixes_start"] = place + directory.nbytes
    footer["schema_start"] = place + directory.nbytes + len(prefixes)
    footer["page_count"] = len(tables) // PAGE_RECORD.itemsize
    footer["column_count"] = len(columns)
    footer["prefixes_length"] = len(prefixes)
    footer["schema_length"] = len(body) - directory.nbytes - len(prefixes)
    footer["segment_length"] = place + len(body) + FOOTER_RECORD.itemsize
    footer["directory_checksum"] = google_crc32c.value(body)
    footer["version_major"], footer["version_minor"] = FORMAT_MAJOR, FORMAT_MINOR
    footer["magic"] = MAGIC
    footer["footer_checksum"] = google_crc32c.value(footer.tobytes())
    return np.frombuffer(tables + body + footer.tobytes(), np.uint8)

"""A table as the bytes of one segment file.

Whoever writes segments enters here, with :func:`encode_segment`. Columns are encoded one by one,
on a pool if the caller has one; then their pages are laid out row by row, and the metadata last.
The layout is that of ``docs/format.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.lazy import dataclass
from tessel.store.encodings.base import FAST, Profile
from tessel.store.encodings.chooser import PROFILES, check_override
from tessel.store.encodings.codes import Role, aligned
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

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class RunTasks(Protocol):
    """Runs a function on each of some tasks, in any thread, and returns results in their order."""

    def __call__(
        self, function: Callable[[_Task], _Result], tasks: Iterable[_Task], /
    ) -> Iterable[_Result]:
        """Run them; :func:`map` does, and so does ``map`` of an executor."""


Describe = Callable[[pa.ChunkedArray, EncodedColumn], Any]


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
    described
        What ``describe`` said of each top-level column, in their order.
    """

    pieces: Sequence[Bytes]
    length: int
    metadata_start: int
    columns: Sequence[EncodedColumn]
    described: Sequence[Any] = ()

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
    describe: Describe | None = None,
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
    describe
        Called with the values of each column and what became of them, on the thread that encoded
        it; what it returns is noted in the segment.
    """
    options = WriteOptions() if options is None else options
    schema = pa.schema([pa.field(name, table.field(name).type) for name in table.column_names])
    nodes = field_nodes(schema)
    tasks = []
    for top in nodes:
        if top.parent >= 0:
            continue
        forced = options.encodings.get(top.path)
        for node in nodes[top.number : top.end]:
            if forced is not None and node.role == Role.VALUES:
                check_override(forced, node)
        shift = options.page_shifts.get(top.path)
        values = table.column(top.top)
        task = _FieldTask(values, top, nodes, shift, options.profile, forced, describe)
        tasks.append(task)
    fields = run_tasks(_encode_field, tasks)

    def finish() -> EncodedSegment:
        done = list(fields)
        encoded = [column for columns, _ in done for column in columns]
        return _lay_out(encoded, schema, table.num_rows, [described for _, described in done])

    return finish


@dataclass(frozen=True, slots=True, eq=False)
class _FieldTask:
    """A top-level field that is to be encoded: what is cut and encoded on one thread."""

    column: pa.ChunkedArray
    node: FieldNode
    nodes: Sequence[FieldNode]
    page_shift: int | None
    profile: Profile
    forced: str | None
    describe: Describe | None


def _encode_field(task: _FieldTask) -> tuple[list[EncodedColumn], Any]:
    array = _one_array(task.column)
    shift, columns = cut_field(array, task.node, task.nodes, task.page_shift)
    encoded = [
        encode_column(
            column, shift, task.profile, task.forced if column.node.role == Role.VALUES else None
        )
        for column in columns
    ]
    return encoded, None if task.describe is None else task.describe(task.column, encoded[0])


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
    columns: Sequence[EncodedColumn], schema: pa.Schema, rows: int, described: Sequence[Any]
) -> EncodedSegment:
    pieces: list[Bytes] = []
    place = 0
    for column, record in _file_order(columns):
        column.records["offset"][record] = place
        pieces += column.stored[record]
        length = int(column.records["length"][record])
        if aligned(length) > length:
            pieces.append(np.zeros(aligned(length) - length, np.uint8))
        place = aligned(place + length)
    metadata = _metadata(columns, schema, rows, place)
    whole = [*pieces, metadata]
    return EncodedSegment(whole, place + len(metadata), place, columns, described)


def _file_order(columns: Sequence[EncodedColumn]) -> list[tuple[EncodedColumn, int]]:
    """Return (column, number of record): dictionaries, then pages by first row, then column."""
    order = [(c, c.page_count) for c in columns if c.has_dictionary]
    owner = np.repeat(np.arange(len(columns)), [c.page_count for c in columns])
    number = np.concatenate(
        [np.zeros(0, np.int64), *(np.arange(c.page_count, dtype=np.int64) for c in columns)]
    )
    shift = np.array([c.page_shift for c in columns], np.int64)[owner] if len(owner) else owner
    ranked = np.lexsort((owner, number << shift)).tolist()
    return order + [(columns[int(owner[at])], int(number[at])) for at in ranked]


def _metadata(columns: Sequence[EncodedColumn], schema: pa.Schema, rows: int, start: int) -> Bytes:
    tables = [column.records.tobytes() for column in columns]
    prefixes = b"".join(column.prefix for column in columns)
    directory = np.zeros(len(columns), COLUMN_RECORD)
    names = schema.names
    place, prefix_place = start, 0
    for number, (column, table) in enumerate(zip(columns, tables, strict=True)):
        directory[number] = _column_record(
            column, int(names[column.node.top]), place, table, prefix_place
        )
        place += len(table)
        prefix_place += len(column.prefix)
    body = directory.tobytes() + prefixes + schema.serialize().to_pybytes()
    footer = np.zeros((), FOOTER_RECORD)
    footer["row_count"] = rows
    footer["metadata_start"] = start
    footer["directory_start"] = place
    footer["prefixes_start"] = place + directory.nbytes
    footer["schema_start"] = place + directory.nbytes + len(prefixes)
    footer["page_count"] = sum(len(column.records) for column in columns)
    footer["column_count"] = len(columns)
    footer["prefixes_length"] = len(prefixes)
    footer["schema_length"] = len(body) - directory.nbytes - len(prefixes)
    footer["segment_length"] = place + len(body) + FOOTER_RECORD.itemsize
    footer["directory_checksum"] = google_crc32c.value(body)
    footer["version_major"], footer["version_minor"] = FORMAT_MAJOR, FORMAT_MINOR
    footer["magic"] = MAGIC
    footer["footer_checksum"] = google_crc32c.value(footer.tobytes())
    return np.frombuffer(b"".join([*tables, body, footer.tobytes()]), np.uint8)


def _column_record(
    column: EncodedColumn, column_id: int, place: int, table: bytes, prefix_place: int
) -> tuple[Any, ...]:
    node, data = column.node, column.records[: column.page_count]
    return (
        column_id,
        int(data["row_count"].sum(dtype=np.int64)),
        place,
        google_crc32c.value(table),
        column.page_count,
        node.number,
        node.parent,
        column.dictionary_count,
        node.width,
        prefix_place,
        len(column.prefix),
        node.role,
        node.kind,
        column.page_shift,
        column.has_dictionary,
        0,
        0,
    )

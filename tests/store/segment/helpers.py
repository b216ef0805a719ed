"""How the tests of segments write and read them: one name a way, whatever the API is called."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.store.encodings.base import COMPACT
from tessel.store.encodings.chooser import PROFILES as NAMED_PROFILES
from tessel.store.encodings.chooser import check_override
from tessel.store.encodings.codes import Codec
from tessel.store.encodings.fields import field_nodes
from tessel.store.encodings.registry import ENCODINGS
from tessel.store.segment.encoded_column import SegmentColumn
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tessel.store.segment.pages import SegmentPages
from tests.store.reference.segments import plain_values

PROFILES = {
    **NAMED_PROFILES,
    "lz4": dataclasses.replace(COMPACT, name="lz4", codec=Codec.LZ4, codec_saving=0.0),
}
"""Those of users, and one more for the codec that neither has."""

ENCODING_NAMES = tuple(sorted(encoding.name for encoding in ENCODINGS.values()))


def with_ids(table: pa.Table, first: int = 7) -> pa.Table:
    """Name the columns by ids in decimal, as a segment does."""
    return table.rename_columns([str(first + at) for at in range(table.num_columns)])


def written(table: pa.Table, options: WriteOptions | None = None) -> bytes:
    """Return a table (columns named by id) as the bytes of a segment."""
    encoded = encode_segment(table, options)
    data: bytes = encoded.to_buffer().to_pybytes()
    assert len(data) == encoded.length
    return data


@functools.cache
def possible_encodings(kind: pa.DataType) -> tuple[str, ...]:
    """Return the names of the encodings that all leaves of a type can be told to use."""
    nodes = field_nodes(pa.schema([("1", kind)]))
    leaves = [node for node in nodes if node.end == node.number + 1]
    names = []
    for name in ENCODING_NAMES:
        try:
            for leaf in leaves:
                check_override(name, leaf)
        except InvalidInputError:
            continue
        names.append(name)
    return tuple(names)


@st.composite
def write_options(draw: st.DrawFn, table: pa.Table, *, shifts: bool = True) -> WriteOptions:
    """Draw a profile and, for some columns, an encoding and (unless told not) a page size."""
    encodings, page_shifts = {}, {}
    for name in table.column_names:
        names = possible_encodings(table.field(name).type)
        if names and draw(st.booleans()):
            encodings[name] = draw(st.sampled_from(names))
        if shifts and draw(st.booleans()):
            page_shifts[name] = draw(st.integers(0, 7))
    profile = PROFILES[draw(st.sampled_from(sorted(PROFILES)))]
    return WriteOptions(profile, encodings, page_shifts)


def plain(table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of each column, floats as bits: what the reference decoder returns."""
    return {name: plain_values(table.column(name)) for name in table.column_names}


# --- reading --------------------------------------------------------------------------------------

OBJECT = "segments/0123"


def opened(data: bytes, *, before: int = 64, columns: list[int] | None = None) -> SegmentPages:
    """Open a segment that lies in an object, with other bytes ``before`` and after it."""
    pack = pa.py_buffer(b"\xa5" * before + data + b"\x5a" * 64)

    def read(start: int, stop: int) -> pa.Buffer:
        return pack.slice(start, stop - start)

    file = SegmentFile.open(read, object=OBJECT, offset=before, length=len(data), columns=columns)
    records = int(file.directory["page_count"].sum() + file.directory["has_dictionary"].sum())
    held = np.frombuffer(pack, np.uint8)[before : before + len(data)]
    return SegmentPages(file, held, np.zeros(records, np.bool_))


def column_of(segment: SegmentPages, name: str) -> SegmentColumn:
    """Return all rows of a top-level column, not decoded."""
    return SegmentColumn(segment, segment.file.top(int(name)), 0, segment.row_count)


def scanned(data: bytes) -> pa.Table:
    """Read all rows of all columns."""
    segment = opened(data)
    names = segment.file.schema.names
    table = pa.table(
        [column_of(segment, name).chunks() for name in names], schema=segment.file.schema
    )
    table.validate(full=True)
    return table

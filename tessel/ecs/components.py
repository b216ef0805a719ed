"""Small facts of segments and pieces, and what entities carry besides: immutable, each.

An entity stands for a segment, or for a piece that a stage left, while a query runs. Its facts are
one component, a ``PieceSource`` or ``UnitFacts``, made of the ranges and keys here; beside it stand
how often it is fetched, and its data once they are loaded.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from tessel.lazy import dataclass


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows ``[start, end)`` of a symbol, counted from its first row."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, order=True)
class ColRange:
    """Columns ``[start, end)`` of a symbol, counted in the order of its schema."""

    start: int
    end: int


class SegmentKey(NamedTuple):
    """Where the bytes of a segment lie; a key of dictionaries, which tuples are fast as.

    Attributes
    ----------
    object
        Name of the object in the store.
    offset, length
        Byte range inside the object.
    checksum
        That of the segment's footer, which vouches for all of its bytes.
    metadata_start
        Where in the segment its metadata begin, so that one read opens it; None where unknown.
    """

    object: str
    offset: int
    length: int
    checksum: int
    metadata_start: int | None = None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """First and last value of the time index, both inclusive, in the index's own integer unit."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FetchCount:
    """How many units fetch an entity: ``planned`` is fixed by the structure, ``live`` goes down."""

    planned: int
    live: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The data of an entity, once loaded: all rows of its row range that are still there."""

    table: pa.Table

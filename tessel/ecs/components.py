"""The facts that an entity can carry: one small frozen dataclass each.

An entity stands for a segment, or for a row range of one, while a query runs. Clauses may attach
component types of their own; nothing here or in the manager changes for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from tessel.expression.protocols import StatisticsView

__all__ = [
    "Bucket",
    "ColRange",
    "Columns",
    "FetchCount",
    "RowRange",
    "SegmentKey",
    "Statistics",
    "Symbol",
    "TimeRange",
]


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


@dataclass(frozen=True, slots=True)
class SegmentKey:
    """Where the bytes of a segment lie.

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
class Statistics:
    """What is known of an entity's columns without its data: one row slice of a view.

    Attributes
    ----------
    view
        Bounds and missing counts of many row slices, read by column when asked.
    row_slice
        Which of them is the entity's.
    """

    view: StatisticsView
    row_slice: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """Which input of a query over several symbols an entity comes from."""

    ordinal: int
    name: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """The hash bucket that the rows of an entity belong to."""

    number: int


@dataclass(frozen=True, slots=True)
class FetchCount:
    """How many units fetch an entity: ``planned`` is fixed by the structure, ``live`` goes down."""

    planned: int
    live: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The data of an entity, once loaded: all rows of its row range that are still there."""

    table: pa.Table

"""Segments: how tables are cut, which types they hold, how they are written and read.

The repository writes through :class:`SegmentWriter`; a query reads through :class:`SegmentReader`,
by key and column id only: names are a matter of the snapshot.
"""

from tessel.store.segment.file_writer import check_encodings
from tessel.store.segment.late_rows import LateRows
from tessel.store.segment.layout import assign_column_ids, column_slices, stored_order
from tessel.store.segment.packs import PackWriter
from tessel.store.segment.page_statistics import ColumnZones, PageStatistics
from tessel.store.segment.plain_verdicts import plain_verdicts
from tessel.store.segment.reader import SegmentReader
from tessel.store.segment.statistics import ColumnStatistics, bounds_type, summarise
from tessel.store.segment.stored_columns import StoredColumn, StoredColumns
from tessel.store.segment.types import is_index_type, normalise, normalise_schema, stored_type
from tessel.store.segment.writer import SegmentWriter, WrittenSegment, WrittenSlice, time_values

__all__ = [
    "ColumnStatistics",
    "ColumnZones",
    "LateRows",
    "PackWriter",
    "PageStatistics",
    "SegmentReader",
    "SegmentWriter",
    "StoredColumn",
    "StoredColumns",
    "WrittenSegment",
    "WrittenSlice",
    "assign_column_ids",
    "bounds_type",
    "check_encodings",
    "column_slices",
    "is_index_type",
    "normalise",
    "normalise_schema",
    "plain_verdicts",
    "stored_order",
    "stored_type",
    "summarise",
    "time_values",
]

"""Segments: how tables are cut, which types they hold, how they are written and read.

The repository writes through :class:`SegmentWriter`; a query reads through :class:`SegmentReader`,
by key and column id only: names are a matter of the snapshot.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "file_writer": "check_encodings",
        "late_rows": "LateRows",
        "layout": "assign_column_ids column_slices stored_order",
        "packs": "PackWriter",
        "page_statistics": "ColumnZones PageStatistics",
        "reader": "SegmentReader",
        "statistics": "ColumnStatistics bounds_type summarise",
        "stored_columns": "StoredColumn StoredColumns",
        "types": "is_index_type normalise normalise_schema stored_type",
        "writer": "SegmentWriter WrittenSegment WrittenSlice time_values",
    },
)

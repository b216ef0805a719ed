"""Segments: how tables are cut, which types they hold, how they are written and read.

The repository writes through :class:`SegmentWriter`; a query reads through :class:`SegmentReader`,
by key and column id only: names are a matter of the snapshot.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "packs": "PackWriter",
        "reader": "SegmentReader",
        "statistics": "bounds_type summarise",
        "types": "normalise_schema",
        "writer": "WrittenSegment WrittenSlice",
    },
)

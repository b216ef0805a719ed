"""Making manifests: the rows of any number of symbols, gathered into one object.

A transaction gathers what it writes in one :class:`ManifestBuilder`; packing and folding go through
it as well. Nothing is encoded before :meth:`ManifestBuilder.finish`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.store.manifest.format import (
    SEGMENTS_SCHEMA,
    ManifestReference,
    encode_manifest,
    shared_schema,
)
from tessel.store.manifest.table import Extent, SegmentTable
from tessel.store.names import manifest_name, new_id, segment_id
from tessel.store.segment import ColumnStatistics, WrittenSegment, WrittenSlice, bounds_type

__all__ = ["ManifestBuilder", "build_manifest", "join_manifests"]

_OWN_BLOCK_ROWS = 64
"""A column with statistics of more segments than this has a block of its own."""

_SHARED_ROWS = 8192
"""A shared block is ended by the symbol with which it reaches so many rows."""

_Fact = tuple[int, int, int, ColumnStatistics]
"""Symbol, column id, ordinal of the segment among those of the symbol, statistics."""


class ManifestBuilder:
    """Gathers segments of symbols; used by one thread at a time.

    Attributes
    ----------
    name
        The object that the manifest will be.
    """

    def __init__(self) -> None:
        self.name = manifest_name(new_id())
        self._parts: dict[int, list[pa.Table | list[tuple[Any, ...]]]] = {}
        self._segments: dict[int, int] = {}
        self._rows: dict[int, int] = {}
        self._facts: dict[pa.DataType, list[_Fact]] = {}
        self._tables: dict[pa.DataType, list[pa.Table]] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def rows_of(self, symbol: int) -> int:
        """Return how many rows of a symbol were added: where the next ones begin."""
        return self._rows.get(symbol, 0)

    def add_slices(
        self, symbol: int, slices: Sequence[WrittenSlice], types: Mapping[int, pa.DataType]
    ) -> None:
        """Add freshly written rows of a symbol after those that were added before.

        Parameters
        ----------
        symbol
            Its id.
        slices
            What the segment writer returned, in row order.
        types
            The type of each column id that has statistics.
        """
        kinds = {column_id: _kind(type_) for column_id, type_ in types.items()}
        ordinal = self._segments.get(symbol, 0)
        rows: list[tuple[Any, ...]] = []
        for part in slices:
            for segment in part.segments:
                for column_id in range(segment.column_from, segment.column_to):
                    if column_id in part.statistics and column_id in kinds:
                        facts = self._facts.setdefault(kinds[column_id], [])
                        fact = part.statistics[column_id]
                        facts.append((symbol, column_id, ordinal + len(rows), fact))
                rows.append(_segment_row(symbol, part, segment, segment is part.segments[0]))
        if rows:
            self._add(symbol, rows, len(rows), sum(part.rows for part in slices))

    def add_table(self, symbol: int, table: SegmentTable, types: Mapping[int, pa.DataType]) -> None:
        """Add rows that lie in other manifests; ``types`` are those of the columns to keep.

        Statistics of other columns are left behind.
        """
        ordinal = self._segments.get(symbol, 0)
        for column_id, type_ in sorted(types.items()):
            found = table.block(column_id, bounds_type(type_))
            if found.num_rows:
                moved = pc.add(found.column("segment"), pa.scalar(ordinal, pa.uint32()))
                named = [
                    pa.array(np.full(found.num_rows, symbol, dtype=np.uint64)),
                    pa.array(np.full(found.num_rows, column_id, dtype=np.int64)),
                    moved.cast(pa.uint32()),
                    *found.columns[1:],
                ]
                kind = _kind(type_)
                made = pa.table(named, schema=shared_schema(kind))
                self._tables.setdefault(kind, []).append(made)
        if len(table):
            rows = int(table.slice_end[-1])
            self._add(symbol, table.to_arrow(symbol), len(table), rows)

    def add_statistics(
        self, symbol: int, column_id: int, type_: pa.DataType, facts: Mapping[int, ColumnStatistics]
    ) -> None:
        """Add statistics of a column; ``facts`` by the ordinal of the segment in the symbol."""
        listed = self._facts.setdefault(_kind(type_), [])
        listed += [(symbol, column_id, ordinal, fact) for ordinal, fact in facts.items()]

    def segments_of(self, symbol: int) -> int:
        """Return how many segments of a symbol were added."""
        return self._segments.get(symbol, 0)

    def finish(self) -> tuple[bytes, ManifestReference]:
        """Return the bytes of the manifest, and the reference to them."""
        segments = pa.concat_tables(
            [SEGMENTS_SCHEMA.empty_table()]
            + [
                part if isinstance(part, pa.Table) else _segments_table(part)
                for part in self._ordered_parts()
            ]
        )
        blocks: dict[tuple[int, int], pa.Table] = {}
        shared: list[pa.Table] = []
        for kind in sorted({*self._facts, *self._tables}, key=str):
            _cut_blocks(self._statistics_of(kind), blocks, shared)
        return encode_manifest(self.name, segments, blocks, shared)

    def _add(
        self, symbol: int, part: pa.Table | list[tuple[Any, ...]], segments: int, rows: int
    ) -> None:
        self._parts.setdefault(symbol, []).append(part)
        self._segments[symbol] = self._segments.get(symbol, 0) + segments
        self._rows[symbol] = self._rows.get(symbol, 0) + rows

    def _ordered_parts(self) -> list[pa.Table | list[tuple[Any, ...]]]:
        """Return all parts by symbol; rows that stand side by side are one part."""
        joined: list[pa.Table | list[tuple[Any, ...]]] = []
        for symbol in sorted(self._parts):
            for part in self._parts[symbol]:
                if isinstance(part, pa.Table):
                    joined.append(part)
                elif joined and isinstance(joined[-1], list):
                    joined[-1].extend(part)
                else:
                    joined.append(list(part))
        return joined

    def _statistics_of(self, kind: pa.DataType) -> pa.Table:
        """Return all statistics with bounds of one type, by symbol, column and segment."""
        tables = list(self._tables.get(kind, []))
        facts = self._facts.get(kind, [])
        if facts:
            tables.append(_facts_table(facts, kind))
        joined = pa.concat_tables(tables)
        keys = [joined.column(name).to_numpy() for name in ("segment", "column", "symbol")]
        return joined.take(pa.array(np.lexsort(keys)))


def _kind(type_: pa.DataType) -> pa.DataType:
    kind = bounds_type(type_)
    return pa.null() if kind is None else kind


def _segment_row(
    symbol: int, part: WrittenSlice, segment: WrittenSegment, begins: bool
) -> tuple[Any, ...]:
    key = segment.key
    return (
        symbol,
        part.rows,
        0,
        segment.column_from,
        segment.column_to,
        segment_id(key.object),
        key.offset,
        key.length,
        key.checksum,
        key.metadata_start,
        part.first_time,
        part.last_time,
        begins,
    )


def _segments_table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SEGMENTS_SCHEMA, strict=True)],
        schema=SEGMENTS_SCHEMA,
    )


def _facts_table(facts: Sequence[_Fact], kind: pa.DataType) -> pa.Table:
    symbols, columns, ordinals, found = zip(*facts, strict=True)
    return pa.table(
        [
            pa.array(symbols, pa.uint64()),
            pa.array(columns, pa.int64()),
            pa.array(ordinals, pa.uint32()),
            _bounds([fact.minimum for fact in found], kind),
            _bounds([fact.maximum for fact in found], kind),
            pa.array([fact.minimum_exact for fact in found], pa.bool_()),
            pa.array([fact.maximum_exact for fact in found], pa.bool_()),
            pa.array([fact.nulls for fact in found], pa.int64()),
            pa.array([fact.nans for fact in found], pa.int64()),
        ],
        schema=shared_schema(kind),
    )


def _bounds(values: Sequence[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    nothing = pa.scalar(None, kind)
    return pa.array([nothing if value is None else value for value in values], kind)


def _cut_blocks(
    table: pa.Table, blocks: dict[tuple[int, int], pa.Table], shared: list[pa.Table]
) -> None:
    """Cut sorted statistics into blocks of one column each, and into shared ones."""
    symbols, columns = (table.column(name).to_numpy() for name in ("symbol", "column"))
    begins = np.flatnonzero(
        np.concatenate([[True], (symbols[1:] != symbols[:-1]) | (columns[1:] != columns[:-1])])
    )
    counts = np.diff(np.append(begins, len(symbols)))
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        if count > _OWN_BLOCK_ROWS:
            own = table.slice(begin, count).drop_columns(["symbol", "column"])
            blocks[int(symbols[begin]), int(columns[begin])] = own.combine_chunks()
    small = np.repeat(counts <= _OWN_BLOCK_ROWS, counts)
    if not small.any():
        return
    rest = table.filter(pa.array(small)).combine_chunks()
    owners = rest.column("symbol").to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    # The block in which each symbol begins; its later rows follow it there.
    block = starts // _SHARED_ROWS
    cuts = starts[np.concatenate([[True], block[1:] != block[:-1]])].tolist()
    for start, stop in zip(cuts, [*cuts[1:], len(owners)], strict=True):
        shared.append(rest.slice(start, stop - start))


def build_manifest(
    symbol: int, slices: Sequence[WrittenSlice], types: Mapping[int, pa.DataType]
) -> tuple[bytes, ManifestReference]:
    """Return a manifest of freshly written segments of one symbol; see :class:`ManifestBuilder`."""
    builder = ManifestBuilder()
    builder.add_slices(symbol, slices, types)
    return builder.finish()


def join_manifests(
    symbol: int, extents: Sequence[Extent], types: Mapping[int, pa.DataType], *, indexed: bool
) -> tuple[bytes, ManifestReference]:
    """Return one manifest with the rows of several extents of a symbol, in their order."""
    builder = ManifestBuilder()
    rows = sum(extent.rows for extent in extents)
    table = SegmentTable.from_extents(symbol, extents, indexed=indexed, rows=rows)
    builder.add_table(symbol, table, types)
    return builder.finish()

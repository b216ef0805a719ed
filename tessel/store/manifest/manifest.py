"""A manifest: which segments hold the rows of a symbol, and what is known of their columns.

Manifests never change, so what was read once is kept with the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.ecs.components import SegmentKey
from tessel.store.manifest.format import (
    SEGMENTS_SCHEMA,
    BlockReader,
    ManifestReference,
    encode_manifest,
    statistics_schema,
)
from tessel.store.names import manifest_name, new_id, segment_id, segment_name
from tessel.store.objects import ObjectStore
from tessel.store.segment import ColumnStatistics, WrittenSlice, bounds_type

__all__ = ["Manifest", "build_manifest", "join_manifests"]


class Manifest:
    """A manifest as read from a store; safe to use from several threads.

    Parameters
    ----------
    objects
        Where it lies.
    reference
        Which it is; everything read is verified against it.

    Raises
    ------
    CorruptStoreError
        Here or in a method, when the manifest is damaged or missing.
    """

    def __init__(self, objects: ObjectStore, reference: ManifestReference) -> None:
        self.reference = reference
        self._blocks = BlockReader(objects, reference)
        self._statistics: dict[tuple[int, int], pa.Table | None] = {}
        self.segments: pa.Table = self._checked(self._blocks.segments())
        """The segment table, columns as in ``SEGMENTS_SCHEMA``."""

    @property
    def statistics_keys(self) -> list[tuple[int, int]]:
        """Symbol and column id of every statistics table."""
        return self._blocks.statistics_keys

    def segments_of(self, symbol: int) -> pa.Table:
        """Return the part of the segment table that belongs to one symbol."""
        return self.segments.filter(pc.equal(self.segments.column("symbol"), symbol))

    def segment_keys(self, symbol: int) -> list[SegmentKey]:
        """Return where the segments of one symbol lie."""
        rows = self.segments_of(symbol)
        places = ("offset", "length", "checksum", "metadata_start")
        numbers = [rows.column(name).to_pylist() for name in places]
        names = [segment_name(each) for each in rows.column("object").to_pylist()]
        return [SegmentKey(*each) for each in zip(names, *numbers, strict=True)]

    def statistics(self, symbol: int, column_id: int) -> pa.Table | None:
        """Return the statistics of one column, one row per segment that holds it.

        Column ``segment`` counts the segments of the symbol in this manifest. None where the
        manifest knows nothing of the column.
        """
        # Two threads may both read a table the first time; they read the same bytes.
        if (symbol, column_id) not in self._statistics:
            found = self._blocks.statistics(symbol, column_id)
            if found is not None:
                self._check_statistics(found, symbol)
            self._statistics[symbol, column_id] = found
        return self._statistics[symbol, column_id]

    def _checked(self, table: pa.Table) -> pa.Table:
        """Return the segment table after checks that nothing in it can mislead a reader."""
        for name in SEGMENTS_SCHEMA.names:
            if table.column(name).null_count and name not in ("first_time", "last_time"):
                raise self._blocks.damaged(f"column {name!r} of its segment table has nulls")
        numbers = {
            n: table.column(n).to_numpy() for n in SEGMENTS_SCHEMA.names[1:10] if n != "object"
        }
        wrong = (
            (numbers["row_count"] <= 0)
            | (numbers["row_offset"] < 0)
            | (numbers["column_from"] < 0)
            | (numbers["column_to"] <= numbers["column_from"])
            | (numbers["offset"] < 0)
            | (numbers["length"] <= 0)
            | (numbers["metadata_start"] < 0)
            | (numbers["metadata_start"] >= numbers["length"])
        )
        if wrong.any():
            raise self._blocks.damaged(
                f"row {int(np.argmax(wrong))} of its segment table is impossible"
            )
        return table

    def _check_statistics(self, table: pa.Table, symbol: int) -> None:
        segments = table.column("segment").to_numpy().astype(np.int64)
        count = self.segments_of(symbol).num_rows
        exact = table.select(["segment", "minimum_exact", "maximum_exact", "nulls", "nans"])
        if (
            any(column.null_count for column in exact.columns)
            or (np.diff(segments) <= 0).any()
            or (len(segments) and segments[-1] >= count)
        ):
            raise self._blocks.damaged("its statistics refer to segments that do not exist")


def build_manifest(
    symbol: int, slices: Sequence[WrittenSlice], types: Mapping[int, pa.DataType]
) -> tuple[bytes, ManifestReference]:
    """Return a manifest of freshly written segments.

    Parameters
    ----------
    symbol
        Id of the symbol.
    slices
        What the segment writer returned, in row order.
    types
        The type of each column id that has statistics.
    """
    columns: dict[str, list[object]] = {name: [] for name in SEGMENTS_SCHEMA.names}
    holders: dict[int, list[int]] = {column_id: [] for column_id in types}
    facts: dict[int, list[ColumnStatistics]] = {column_id: [] for column_id in types}
    for part in slices:
        for segment in part.segments:
            ordinal = len(columns["symbol"])
            for column_id in range(segment.column_from, segment.column_to):
                if column_id in part.statistics:
                    holders[column_id].append(ordinal)
                    facts[column_id].append(part.statistics[column_id])
            row = (
                symbol,
                part.rows,
                0,
                segment.column_from,
                segment.column_to,
                segment_id(segment.key.object),
                segment.key.offset,
                segment.key.length,
                segment.key.checksum,
                segment.key.metadata_start,
                part.first_time,
                part.last_time,
            )
            for name, value in zip(SEGMENTS_SCHEMA.names, row, strict=True):
                columns[name].append(value)
    blocks = {
        (symbol, column_id): _statistics_table(
            holders[column_id], facts[column_id], types[column_id]
        )
        for column_id in types
    }
    table = pa.table(columns, schema=SEGMENTS_SCHEMA)
    return encode_manifest(manifest_name(new_id()), table, blocks)


def _statistics_table(
    segments: Sequence[int], facts: Sequence[ColumnStatistics], type_: pa.DataType
) -> pa.Table:
    kind = bounds_type(type_)
    return pa.table(
        [
            pa.array(segments, pa.uint32()),
            _bounds([fact.minimum for fact in facts], kind),
            _bounds([fact.maximum for fact in facts], kind),
            pa.array([fact.minimum_exact for fact in facts], pa.bool_()),
            pa.array([fact.maximum_exact for fact in facts], pa.bool_()),
            pa.array([fact.nulls for fact in facts], pa.int64()),
            pa.array([fact.nans for fact in facts], pa.int64()),
        ],
        schema=statistics_schema(kind),
    )


def _bounds(values: Sequence[pa.Scalar | None], kind: pa.DataType | None) -> pa.Array:
    if kind is None:
        return pa.nulls(len(values))
    nothing = pa.scalar(None, kind)
    return pa.array([nothing if value is None else value for value in values], kind)


def join_manifests(symbol: int, manifests: Iterable[Manifest]) -> tuple[bytes, ManifestReference]:
    """Return one manifest with the segments of several, in their order."""
    tables: list[pa.Table] = []
    parts: dict[tuple[int, int], list[pa.Table]] = {}
    ordinal = 0
    for manifest in manifests:
        own = manifest.segments_of(symbol)
        for key in manifest.statistics_keys:
            found = manifest.statistics(*key) if key[0] == symbol else None
            if found is not None:
                moved = pc.add(found.column("segment"), pa.scalar(ordinal, pa.uint32()))
                parts.setdefault(key, []).append(found.set_column(0, "segment", moved))
        tables.append(own)
        ordinal += own.num_rows
    blocks = {key: pa.concat_tables(found) for key, found in parts.items()}
    return encode_manifest(manifest_name(new_id()), pa.concat_tables(tables), blocks)

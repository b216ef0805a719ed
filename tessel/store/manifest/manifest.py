"""A manifest: which segments hold the rows of a symbol, and what is known of their columns.

Manifests never change, so what was read once is kept with the object.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.ecs.components import SegmentKey
from tessel.store.manifest.format import SEGMENTS_SCHEMA, BlockReader, ManifestReference
from tessel.store.names import segment_name
from tessel.store.objects import ObjectStore

__all__ = ["Manifest"]


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
        self._counts: dict[int, int] = {}
        self.segments: pa.Table = self._checked(self._blocks.segments())
        """The segment table, columns as in ``SEGMENTS_SCHEMA``."""

    def columns_of(self, symbol: int) -> list[int]:
        """Return the ids of the columns of a symbol that have statistics, sorted."""
        return self._blocks.columns_of(symbol)

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

    def _count(self, symbol: int) -> int:
        if symbol not in self._counts:
            self._counts[symbol] = self.segments_of(symbol).num_rows
        return self._counts[symbol]

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
        count = self._count(symbol)
        exact = table.select(["segment", "minimum_exact", "maximum_exact", "nulls", "nans"])
        if (
            any(column.null_count for column in exact.columns)
            or (np.diff(segments) <= 0).any()
            or (len(segments) and segments[-1] >= count)
        ):
            raise self._blocks.damaged("its statistics refer to segments that do not exist")

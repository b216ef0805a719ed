"""A manifest: which segments hold the rows of a symbol, and what is known of their columns.

Manifests never change, so what was read once is kept with the object.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.cached import cached
from tessel.ecs.piece import SegmentKey
from tessel.lazy import dataclass
from tessel.store.manifest.format import SEGMENTS_SCHEMA, BlockReader, ManifestReference
from tessel.store.names import segment_name
from tessel.store.objects.base import ObjectStore


@dataclass(frozen=True)
class Holdings:
    """How much a manifest holds of each symbol; arrays of one length.

    Attributes
    ----------
    symbols
        Ids, ascending. uint64.
    first, segments
        The first segment of each symbol in the segment table, and how many there are. int64.
    rows
        How many rows they are. int64.
    """

    symbols: npt.NDArray[np.uint64]
    first: npt.NDArray[np.int64]
    segments: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def rows_of(self, symbol: int) -> int:
        """Return how many rows of a symbol there are."""
        at = self._place_of(symbol)
        return 0 if at is None else int(self.rows[at])

    def segments_of(self, symbol: int) -> tuple[int, int]:
        """Return the first segment of a symbol in the segment table, and how many there are."""
        at = self._place_of(symbol)
        return (0, 0) if at is None else (int(self.first[at]), int(self.segments[at]))

    def _place_of(self, symbol: int) -> int | None:
        at = int(np.searchsorted(self.symbols, np.uint64(symbol)))
        return at if at < len(self.symbols) and self.symbols[at] == symbol else None


class Manifest:
    """A manifest as read from a store; safe to use from several threads.

    Raises CorruptStoreError: here or in a method, when the manifest is damaged or missing.

    Parameters
    ----------
    reference
        Which it is; everything read is verified against it.
    """

    def __init__(self, objects: ObjectStore, reference: ManifestReference) -> None:
        self.reference = reference
        self._blocks = BlockReader(objects, reference)
        self._statistics: dict[tuple[int, int], pa.Table | None] = {}
        self.segments: pa.Table = self._checked(self._blocks.segments())
        """The segment table, columns as in ``SEGMENTS_SCHEMA``."""

    def columns_of(self, symbol: int) -> list[int]:
        """Return the ids of the columns of a symbol that have statistics, sorted."""
        return self._blocks.columns_of(symbol)

    def segments_of(self, symbol: int) -> pa.Table:
        """Return the part of the segment table that belongs to one symbol."""
        return self.segments.slice(*self.holdings.segments_of(symbol))

    def count_between(self, symbol: int, start: int, stop: int) -> int:
        """Return how many segments hold some of rows ``[start, stop)`` of a symbol."""
        if start >= stop:
            return 0
        table = self.segments_of(symbol)
        rows = numpy_array(table.column("row_count"))
        # All segments of a row slice have its rows, and the first of them begins it.
        ends = np.cumsum(np.where(numpy_array(table.column("begins")), rows, 0))
        return int(np.count_nonzero((ends > start) & (ends - rows < stop)))

    @cached
    def holdings(self) -> Holdings:
        """How much it holds of each symbol."""
        owners = numpy_array(self.segments.column("symbol"))
        if (owners[1:] < owners[:-1]).any():
            raise self._blocks.damaged("its segment table is not in order")
        first = np.flatnonzero(np.diff(owners, prepend=~owners[:1]))
        counts = np.diff(first, append=len(owners))
        symbols = owners[first]
        begins = numpy_array(self.segments.column("begins"))
        rows = np.where(begins, numpy_array(self.segments.column("row_count")), 0)
        totals = np.add.reduceat(rows, first) if len(first) else rows
        return Holdings(symbols, first, counts, totals)

    def all_statistics(self, symbols: npt.NDArray[np.uint64]) -> Iterator[pa.Table]:
        """Yield the statistics of some symbols, perhaps with others among them.

        Columns as in ``shared_schema``; ``symbols`` are sorted ids.
        """
        held = self.holdings
        for table in self._blocks.all_statistics(symbols):
            owners = numpy_array(table.column("symbol"))
            place = np.minimum(np.searchsorted(held.symbols, owners), len(held.symbols) - 1)
            rest = table.select(["segment", "minimum_exact", "maximum_exact", "nulls", "nans"])
            if (
                any(column.null_count for column in rest.columns)
                or (held.symbols[place] != owners).any()
                or (numpy_array(table.column("segment")) >= held.segments[place]).any()
            ):
                raise self._blocks.damaged("its statistics refer to segments that do not exist")
            yield table

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
            n: numpy_array(table.column(n)) for n in SEGMENTS_SCHEMA.names[1:10] if n != "object"
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
        segments = numpy_array(table.column("segment")).astype(np.int64)
        _, count = self.holdings.segments_of(symbol)
        exact = table.select(["segment", "minimum_exact", "maximum_exact", "nulls", "nans"])
        if (
            any(column.null_count for column in exact.columns)
            or (np.diff(segments) <= 0).any()
            or (len(segments) and segments[-1] >= count)
        ):
            raise self._blocks.damaged("its statistics refer to segments that do not exist")

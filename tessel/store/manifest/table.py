"""All segments of one symbol at one version, as arrays: what every segment index is a view of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, concat_tables, empty_table, fill_null, numpy_array
from tessel.errors import CorruptStoreError
from tessel.lazy import dataclass
from tessel.store.manifest.format import SEGMENTS_SCHEMA, statistics_schema
from tessel.store.manifest.manifest import Manifest
from tessel.store.names import segment_id
from tessel.store.segment.statistics import SliceFacts

if TYPE_CHECKING:
    from tessel.store.segment.writer import WrittenSlice

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Extent:
    """Rows of a symbol that lie side by side in one manifest.

    Attributes
    ----------
    first_row
        How many of the symbol's rows in it come before.
    """

    manifest: Manifest
    first_row: int
    rows: int


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """The segments of a symbol in row order, and the row slices they make up.

    A row slice that an extent cuts keeps its segments; its rows are fewer.

    Attributes
    ----------
    manifests
        The manifests, with the ordinal of the first segment of each among all of theirs.
    origin
        The ordinal of each segment among all segments of the manifests, -1 for one that is in
        none yet. int64.
    row_offset, column_from, column_to, offset, length, checksum, metadata_start
        As in the manifests, one per segment. int64.
    object
        Names of the objects without their prefix: 16 bytes each.
    slice_of
        The row slice of each segment. int64.
    slice_start, slice_end
        Rows ``[start, end)`` of each row slice. int64.
    slice_rows
        Rows of each row slice before an extent cut it. int64.
    slice_first, slice_last
        Bounds of the index in each row slice; None without an index. int64.
    """

    symbol: int
    manifests: tuple[tuple[Manifest, int], ...]
    origin: Integers
    row_offset: Integers
    column_from: Integers
    column_to: Integers
    offset: Integers
    length: Integers
    checksum: Integers
    metadata_start: Integers
    object: pa.Array
    slice_of: Integers
    slice_start: Integers
    slice_end: Integers
    slice_rows: Integers
    slice_first: Integers | None
    slice_last: Integers | None

    @classmethod
    def from_extents(
        cls, symbol: int, extents: Sequence[Extent], *, indexed: bool, rows: int
    ) -> SegmentTable:
        """Join extents of a symbol.

        Raises CorruptStoreError when the manifests contradict one another, the extents, or the
        number of rows.

        Parameters
        ----------
        rows
            How many rows the symbol has; the extents must agree.
        """
        manifests = tuple({id(e.manifest): e.manifest for e in extents}.values())
        source = _Source.of(symbol, manifests)
        place = {id(manifest): at for at, manifest in enumerate(manifests)}
        at = np.array([place[id(e.manifest)] for e in extents], dtype=np.int64)
        low = np.array([e.first_row for e in extents], dtype=np.int64)
        high = low + np.array([e.rows for e in extents], dtype=np.int64)
        if len(at) and (high > source.manifest_rows[at]).any():
            raise _contradiction(symbol, "an extent reaches past the rows of its manifest")
        low, high = (bound + source.manifest_start[at] for bound in (low, high))

        first = np.searchsorted(source.slice_end, low, side="right")
        counts = np.where(high > low, np.searchsorted(source.slice_start, high) - first, 0)
        slices = _expanded(first, counts)
        starts = np.maximum(source.slice_start[slices], np.repeat(low, counts))
        ends = np.minimum(source.slice_end[slices], np.repeat(high, counts))
        slice_end = np.cumsum(ends - starts, dtype=np.int64)
        total = int(slice_end[-1]) if len(slice_end) else 0
        if total != rows:
            raise _contradiction(
                symbol, f"its manifests hold {total} rows, and the snapshot says {rows}"
            )
        held = source.slice_segments[slices]
        segments = _expanded(source.slice_first_segment[slices], held)
        slice_of = np.repeat(np.arange(len(slices)), held)
        table = source.table
        if len(segments) != table.num_rows or (np.diff(segments) != 1).any():
            table = table.take(arrow_array(segments))
        skipped = starts - source.slice_start[slices]
        row_offset = _integers(table, "row_offset")
        if skipped.any():
            row_offset = row_offset + skipped[slice_of]
        lows, highs = source.times(slices) if indexed else (None, None)
        return cls(
            symbol=symbol,
            manifests=tuple(zip(manifests, source.manifest_segment.tolist(), strict=True)),
            origin=segments,
            row_offset=row_offset,
            **{name: _integers(table, name) for name in (*_COLUMN_RANGE, *_PLACES)},
            object=_joined(table, "object"),
            slice_of=slice_of,
            slice_start=slice_end - (ends - starts),
            slice_end=slice_end,
            slice_rows=(source.slice_end - source.slice_start)[slices],
            slice_first=lows,
            slice_last=highs,
        )

    def __len__(self) -> int:
        return len(self.slice_of)

    @property
    def slices(self) -> int:
        """How many row slices there are."""
        return len(self.slice_start)

    def to_arrow(self, symbol: int) -> pa.Table:
        """Return the segments as rows of a manifest, for a symbol of this id."""
        times = [
            pa.nulls(len(self), pa.int64()) if bound is None else arrow_array(bound[self.slice_of])
            for bound in (self.slice_first, self.slice_last)
        ]
        return pa.table(
            [
                arrow_array(np.full(len(self), symbol, dtype=np.uint64)),
                arrow_array((self.slice_end - self.slice_start)[self.slice_of]),
                arrow_array(self.row_offset),
                arrow_array(self.column_from),
                arrow_array(self.column_to),
                self.object,
                arrow_array(self.offset),
                arrow_array(self.length),
                arrow_array(self.checksum.astype(np.uint32)),
                arrow_array(self.metadata_start),
                *times,
                arrow_array(np.diff(self.slice_of, prepend=-1) > 0),
            ],
            schema=SEGMENTS_SCHEMA,
        )

    def with_column(self, written: Sequence[Sequence[WrittenSlice]]) -> SegmentTable:
        """Return the table with the segments of one more column, the last of each row slice.

        Parameters
        ----------
        written
            For each row slice the segments that hold its rows of the column; where they are
            several, the row slice is cut as they are.
        """
        counts = np.array([len(parts) for parts in written], dtype=np.int64)
        parts = [part for each in written for part in each]
        parent = np.repeat(np.arange(self.slices), counts)
        rows = np.array([part.rows for part in parts], dtype=np.int64)
        ends = np.cumsum(rows)
        skipped = ends - rows - self.slice_start[parent]
        first = np.searchsorted(self.slice_of, parent)
        held = np.searchsorted(self.slice_of, parent, side="right") - first
        # The new segment of each slice comes from behind the old ones.
        slice_of = np.repeat(np.arange(len(parts)), held + 1)
        old = _expanded(first, held)
        fresh = np.cumsum(held + 1) - 1
        is_old = np.ones(len(slice_of), dtype=bool)
        is_old[fresh] = False

        def column(old_values: Integers, new_values: Sequence[int]) -> Integers:
            made = np.empty(len(slice_of), dtype=np.int64)
            made[is_old] = old_values[old]
            made[fresh] = new_values
            return made

        segments = [part.segments[0] for part in parts]
        names = arrow_array([segment_id(each.key.object) for each in segments], pa.binary(16))
        objects = pa.concat_arrays([self.object, names])
        place = column(np.arange(len(self)), range(len(self), len(self) + len(segments)))
        offsets = column(self.row_offset, [0] * len(segments))
        offsets[is_old] += skipped[slice_of[is_old]]
        made = {
            n: column(getattr(self, n), [getattr(s, n) for s in segments]) for n in _COLUMN_RANGE
        }
        for name in _PLACES:
            fresh_values = [getattr(each.key, name) or 0 for each in segments]
            made[name] = column(getattr(self, name), fresh_values)
        return SegmentTable(
            symbol=self.symbol,
            manifests=self.manifests,
            origin=column(self.origin, [-1] * len(segments)),
            row_offset=offsets,
            **made,
            object=objects.take(arrow_array(place)),
            slice_of=slice_of,
            slice_start=ends - rows,
            slice_end=ends,
            slice_rows=self.slice_rows[parent],
            slice_first=None if self.slice_first is None else self.slice_first[parent],
            slice_last=None if self.slice_last is None else self.slice_last[parent],
        )

    def block(self, column_id: int, bounds: pa.DataType | None) -> pa.Table:
        """Return the statistics of a column as a block of a manifest, for these segments.

        Bounds of a row slice that was cut are no longer exact. ``bounds`` is the type to give
        the bounds in; narrower ones are widened.
        """
        kind = pa.null() if bounds is None else bounds
        schema = statistics_schema(kind)
        total = int(self.origin.max()) + 1 if len(self.origin) else 0
        row_of_origin = np.full(total, -1, dtype=np.int64)
        count = 0
        tables: list[pa.Table] = [empty_table(schema)]
        for manifest, first in self.manifests:
            found = manifest.statistics(self.symbol, column_id)
            if found is None:
                continue
            segments = _integers(found, "segment") + first
            inside = segments < total
            row_of_origin[segments[inside]] = count + np.flatnonzero(inside)
            count += len(segments)
            tables.append(found.cast(schema))
        rows = np.full(len(self), -1, dtype=np.int64)
        if count:
            rows = np.where(self.origin < 0, -1, row_of_origin[self.origin])
        holders = np.flatnonzero(rows >= 0)
        joined = concat_tables(tables).combine_chunks().take(arrow_array(rows[holders]))
        whole = arrow_array(
            ((self.slice_end - self.slice_start) == self.slice_rows)[self.slice_of[holders]]
        )
        columns = {
            "segment": arrow_array(holders.astype(np.uint32)),
            "minimum_exact": pc.and_(_joined(joined, "minimum_exact"), whole),
            "maximum_exact": pc.and_(_joined(joined, "maximum_exact"), whole),
        }
        return pa.table(
            [columns.get(name, joined.column(name)) for name in schema.names], schema=schema
        )

    def statistics(self, column_id: int, bounds: pa.DataType | None) -> SliceFacts:
        """Return the statistics of a column over all row slices.

        A slice whose segments do not hold the column has it missing throughout. ``bounds`` as for
        :meth:`block`.
        """
        found = self.block(column_id, bounds)
        row_of_slice = np.full(self.slices, -1, dtype=np.int64)
        row_of_slice[self.slice_of[_integers(found, "segment")]] = np.arange(found.num_rows)
        absent = row_of_slice < 0
        facts = found.take(arrow_array(row_of_slice, mask=absent)).combine_chunks()
        nulls = numpy_array(fill_null(_joined(facts, "nulls"), 0))
        nans = numpy_array(fill_null(_joined(facts, "nans"), 0))
        rows = self.slice_end - self.slice_start
        missing = np.where(absent, rows, np.minimum(nulls + nans, rows))
        return SliceFacts(
            minimum=_joined(facts, "minimum"),
            maximum=_joined(facts, "maximum"),
            minimum_exact=_flags(facts, "minimum_exact"),
            maximum_exact=_flags(facts, "maximum_exact"),
            missing=missing.astype(np.int64),
        )


@dataclass(frozen=True, eq=False)
class _Source:
    """All that some manifests hold of a symbol, one after the other.

    Attributes
    ----------
    slice_start, slice_end
        Rows of each row slice, counted over all manifests.
    slice_first_segment, slice_segments
        The first segment of each row slice, and how many it has.
    manifest_start, manifest_rows, manifest_segment
        The first row, the number of rows, and the first segment of each manifest.
    """

    symbol: int
    table: pa.Table
    slice_start: Integers
    slice_end: Integers
    slice_first_segment: Integers
    slice_segments: Integers
    manifest_start: Integers
    manifest_rows: Integers
    manifest_segment: Integers

    @classmethod
    def of(cls, symbol: int, manifests: Sequence[Manifest]) -> _Source:
        parts = [manifest.segments_of(symbol) for manifest in manifests]
        # One alone stays where it lies: a million segments are 100 MB.
        table = (
            parts[0]
            if len(parts) == 1
            else concat_tables([empty_table(SEGMENTS_SCHEMA), *parts]).combine_chunks()
        )
        counts = np.array([part.num_rows for part in parts], dtype=np.int64)
        firsts = np.cumsum(counts) - counts
        row_count = _integers(table, "row_count")
        begins = _flags(table, "begins")
        if not begins[firsts[counts > 0]].all():
            raise _contradiction(symbol, "its first segment begins no row slice")
        first_segment = np.flatnonzero(begins)
        held = np.diff(np.append(first_segment, len(begins)))
        rows = row_count[begins]
        if (row_count != np.repeat(rows, held)).any():
            raise _contradiction(symbol, "its segments do not fit together")
        slice_end = np.cumsum(rows, dtype=np.int64)
        ends = np.concatenate([[0], slice_end])
        # Row slices before each manifest, then rows before them.
        before = np.searchsorted(first_segment, np.append(firsts, len(begins)))
        starts = ends[before]
        return cls(
            symbol,
            table,
            slice_end - rows,
            slice_end,
            first_segment,
            held,
            starts[:-1],
            np.diff(starts),
            firsts,
        )

    def times(self, slices: Integers) -> tuple[Integers, Integers]:
        """Return bounds of the index in some row slices, which stand in row order.

        The index never goes back, so a bound below one slice is one below all later slices: where
        rows were taken out of the middle of a slice, what is left of it is told apart.
        """
        bounds = []
        first = self.slice_first_segment[slices]
        # Only those: rows that a transaction wrote and then replaced may have had no index.
        table = self.table.select(_TIME_COLUMNS)
        if len(first) != len(table) or (np.diff(first, prepend=-1) != 1).any():
            table = table.take(arrow_array(first))
        for name in _TIME_COLUMNS:
            if table.column(name).null_count:
                raise CorruptStoreError(
                    "a manifest of an indexed symbol lacks times",
                    hint="restore the store from a copy",
                    symbol=self.symbol,
                )
            bounds.append(_integers(table, name))
        low, high = bounds
        if (low[1:] < low[:-1]).any() or (high[1:] < high[:-1]).any():
            low = np.maximum.accumulate(low)
            high = np.minimum.accumulate(high[::-1])[::-1]
        return low, high


def _expanded(first: Integers, counts: Integers) -> Integers:
    """Return ``first[i], first[i] + 1, …`` for each *i*, ``counts[i]`` numbers of it."""
    shift = first - (np.cumsum(counts) - counts)
    expanded: Integers = np.repeat(shift, counts) + np.arange(int(counts.sum()))
    return expanded


def _contradiction(symbol: int, what: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the manifests of symbol {symbol:#018x} cannot be right: {what}",
        hint="restore the store from a copy",
        symbol=symbol,
    )


_TIME_COLUMNS = ("first_time", "last_time")
_COLUMN_RANGE = ("column_from", "column_to")
_PLACES = ("offset", "length", "checksum", "metadata_start")
"""Where a segment lies, as its key has it."""


def _joined(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [arrow_array([], column.type)])
    )


def _integers(table: pa.Table, name: str) -> Integers:
    values: Integers = numpy_array(table.column(name)).astype(np.int64, copy=False)
    return values


def _flags(table: pa.Table, name: str) -> Flags:
    values: Flags = numpy_array(fill_null(_joined(table, name), False))
    return values.astype(np.bool_)

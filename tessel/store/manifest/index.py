"""The segments of a symbol as columns: what a query is planned on before any data is read.

A :class:`SegmentIndex` never changes. Dropping and cutting return a new one over the same arrays,
with the reason for each drop. There is no Python object per segment until ``source`` is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.piece import PieceSource
from tessel.store.manifest.piece_sources import PieceSources
from tessel.store.manifest.table import Extent, Flags, Integers, SegmentTable

if TYPE_CHECKING:
    from tessel.store.manifest.slice_statistics import SliceStatistics


@dataclass(frozen=True, slots=True)
class Drop:
    """What one clause took out of an index, and why.

    Attributes
    ----------
    segments, rows, bytes
        How much fell away. A cut inside a segment drops rows and (estimated) bytes only, a
        column slice segments and bytes only.
    """

    clause: str
    reason: str
    segments: int
    rows: int
    bytes: int


_FIELDS = (
    "schema", "column_ids", "drops", "_table", "full_schema", "_segments", "_slices",
    "slice_row_start", "slice_row_end", "slice_number",
)  # fmt: skip


class SegmentIndex:
    """The segments of a symbol that a query still wants. Made by ``SymbolView.index``.

    A *row slice* is a range of rows with all the segments that hold columns of it; after ``split``
    several row slices are parts of the same segments. Arrays over segments have shape
    ``(len(index),)``, arrays over row slices ``(index.slices,)``; all int64.
    Segments are ordered by row slice, then by columns in stored order (the time index first, then
    the order of the schema), and so are pieces.
    """

    def __init__(
        self,
        table: SegmentTable,
        schema: TableSchema,
        column_ids: Mapping[str, int],
    ) -> None:
        self.schema = schema
        self.column_ids = dict(column_ids)
        self.drops: tuple[Drop, ...] = ()
        self._table = table
        self.full_schema = schema
        """All columns of the symbol, also those that are not read."""
        # Of all, nothing is copied: a million numbers are 8 MB.
        self._segments: Integers | slice = slice(None)
        self._slices: Integers | slice = slice(None)
        self.slice_row_start = table.slice_start
        """First row of each row slice, counted in the symbol."""
        self.slice_row_end = table.slice_end
        """End (exclusive) of the rows of each row slice, counted in the symbol."""
        self.slice_number: Integers = table.slice_of
        """The row slice of each segment, counted from 0 without gaps."""
        self.memos: dict[str, Any] = {}
        """Memos of others that live as long as the index does; they may refer to it."""

    @classmethod
    def from_extents(
        cls,
        symbol: int,
        extents: Sequence[Extent],
        schema: TableSchema,
        column_ids: Mapping[str, int],
        *,
        rows: int,
    ) -> SegmentIndex:
        """Return the index over all rows of a symbol; see ``SegmentTable.from_extents``."""
        indexed = schema.index is not None
        table = SegmentTable.from_extents(symbol, extents, indexed=indexed, rows=rows)
        index = cls(table, schema, column_ids)
        # Without the segments that hold dropped columns only.
        holds = _held(table, index._ids(schema), index.position, table.slice_of, table.slices)
        if holds.all():
            return index
        return index._derive(_segments=np.flatnonzero(holds), slice_number=table.slice_of[holds])

    # --- looking ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.slice_number)

    def __repr__(self) -> str:
        return (
            f"<SegmentIndex: {len(self)} segments in {self.slices} row slices, "
            f"{self.row_count} rows>"
        )

    @property
    def slices(self) -> int:
        """How many row slices there are."""
        return len(self.slice_row_start)

    @cached
    def row_count(self) -> int:
        """How many rows are left."""
        return int((self.slice_row_end - self.slice_row_start).sum())

    @property
    def position(self) -> Integers:
        """The place of each segment among all segments of the symbol, in manifest order."""
        return np.arange(len(self._table))[self._segments]

    def place(self, positions: Any) -> Any:
        """Return the place of one segment, or several, as ``position`` has it of all."""
        return positions if isinstance(self._segments, slice) else self._segments[positions]

    @property
    def _kept_slices(self) -> Integers:
        """The place of each row slice among all of the symbol."""
        return np.arange(self._table.slices)[self._slices]

    @cached
    def row_start(self) -> Integers:
        """First row of each segment that is wanted, counted in the symbol."""
        return self._of_segments(self.slice_row_start)

    @cached
    def row_end(self) -> Integers:
        """End (exclusive) of the rows wanted of each segment, counted in the symbol."""
        return self._of_segments(self.slice_row_end)

    @cached
    def segment_row_start(self) -> Integers:
        """Row inside each segment at which the wanted rows begin."""
        return self.places(slice(None))[0]

    @cached
    def column_start(self) -> Integers:
        """First column of each segment, as a position in the stored order of the whole symbol."""
        return self.places(slice(None))[1]

    @cached
    def column_end(self) -> Integers:
        """End (exclusive) of the columns of each segment, as for ``column_start``."""
        return self.places(slice(None))[2]

    def places(self, positions: Integers | slice) -> tuple[Integers, Integers, Integers]:
        """Return of some segments the first row inside, the first column, and the columns' end."""
        table = self._table
        at = self.place(positions)
        whole = table.slice_start[table.slice_of[at]]
        first = table.row_offset[at] + self.row_start[positions] - whole
        ids = self._ids(self.full_schema)
        low, high = (
            np.searchsorted(ids, each[at]) for each in (table.column_from, table.column_to)
        )
        return first, low.astype(np.int64), high.astype(np.int64)

    @property
    def slice_first_time(self) -> Integers | None:
        """A bound below the index of each row slice, in its own unit; None without an index."""
        times = self._table.slice_first
        return None if times is None else times[self._slices]

    @property
    def slice_last_time(self) -> Integers | None:
        """A bound above the index of each row slice, in its own unit; None without an index."""
        times = self._table.slice_last
        return None if times is None else times[self._slices]

    @cached
    def first_time(self) -> Integers | None:
        """A bound below the index of each segment, in its own unit; None without an index."""
        times = self.slice_first_time
        return None if times is None else self._of_segments(times)

    @cached
    def last_time(self) -> Integers | None:
        """A bound above the index of each segment, in its own unit; None without an index."""
        times = self.slice_last_time
        return None if times is None else self._of_segments(times)

    @cached
    def slice_is_whole(self) -> Flags:
        """Whether each row slice still has all its rows, so that its statistics are exact."""
        rows = self.slice_row_end - self.slice_row_start
        whole: Flags = rows == self._table.slice_rows[self._slices]
        return whole

    @cached
    def bytes(self) -> Integers:
        """Estimated stored bytes of the wanted rows and columns of each segment."""
        table, at = self._table, self._segments
        whole = table.slice_rows[table.slice_of[at]]
        wanted = self._ids(self.schema)
        low, high = table.column_from[at], table.column_to[at]
        held = np.searchsorted(wanted, high) - np.searchsorted(wanted, low)
        share = (self.row_end - self.row_start) / whole * held / (high - low)
        estimate: Integers = np.rint(table.length[at] * share).astype(np.int64)
        return estimate

    @cached
    def statistics(self) -> SliceStatistics:
        """What the manifests know of the columns, per row slice; read by column when asked."""
        from tessel.store.manifest.slice_statistics import SliceStatistics

        return SliceStatistics(
            self._table,
            self.full_schema,
            self.column_ids,
            self._slices,
            self.slice_row_end - self.slice_row_start,
            self.slice_is_whole,
        )

    def source(self, position: int) -> PieceSource:
        """Return where the segment at ``position`` of this index (0-based) is found."""
        if not 0 <= position < len(self):
            raise InvalidInputError(
                f"no segment {position} in an index of {len(self)} segments", position=position
            )
        return self.sources([position])[0]

    def sources(self, positions: Iterable[int]) -> list[PieceSource]:
        """Return where the segments at positions of this index, which it has, are found."""
        return self._sources.at(self, positions)

    def source_columns(self, positions: Integers) -> pa.Array:
        """Return where segments at positions of this index are found, as the type ``PIECES``."""
        return self._sources.columns(self, positions)

    @cached
    def _sources(self) -> PieceSources:
        return PieceSources(self._table)

    # --- deriving ---------------------------------------------------------------------------------

    def keep_slices(self, mask: Flags, *, clause: str, reason: str) -> SegmentIndex:
        """Keep the row slices where ``mask`` (bool, one per row slice) is true."""
        mask = np.asarray(mask, dtype=bool)
        if mask.shape != (self.slices,):
            raise InvalidInputError(
                f"a mask of shape {mask.shape} for {self.slices} row slices", clause=clause
            )
        if mask.all():
            return self
        return self._with_slices(
            mask, self.slice_row_start[mask], self.slice_row_end[mask], clause, reason
        )

    def cut_rows(self, start: int, stop: int, *, clause: str, reason: str) -> SegmentIndex:
        """Keep rows ``[start, stop)`` of those the index selects now, counted from 0.

        Row slices outside fall away, those at the ends are cut. Bounds past the end are clipped.
        """
        if start < 0 or stop < 0:
            raise InvalidInputError(
                f"rows {start} to {stop} cannot be cut: both count from 0", clause=clause
            )
        if start == 0 and stop >= self.row_count:
            return self
        counts = self.slice_row_end - self.slice_row_start
        ends = np.cumsum(counts)
        low = np.clip(start - (ends - counts), 0, counts)
        high = np.clip(stop - (ends - counts), 0, counts)
        mask = low < high
        starts = self.slice_row_start
        return self._with_slices(mask, (starts + low)[mask], (starts + high)[mask], clause, reason)

    def keep_columns(self, names: Iterable[str], *, clause: str, reason: str) -> SegmentIndex:
        """Keep these columns; column slices that hold none of them fall away.

        One segment of each row slice stays in any case, so that row counts survive. The columns
        keep the order of the schema; unknown names raise ``ColumnNotFoundError``.
        """
        wanted = set(names)
        self.schema.require(wanted)
        if wanted == set(self.schema.names):
            return self
        schema = self.schema.select([name for name in self.schema.names if name in wanted])
        ids = self._ids(schema)
        number = self.slice_number
        holds = _held(self._table, ids, self.position, number, self.slices)
        kept = self._derive(
            schema=schema, _segments=self.position[holds], slice_number=number[holds]
        )
        return self._dropping(kept, clause, reason)

    def split(self, rows: int) -> SegmentIndex:
        """Cut long row slices, so that several workers share one segment; nothing is dropped.

        Cuts lie at multiples of ``rows`` counted in the segment, so that a multiple of the rows of
        a page never cuts one. The parts of a slice keep its bounds of the index, and its
        statistics as bounds: what they say is true of each part, but no longer exact. So the
        parts of one slice overlap in time, as far as the index knows.
        """
        if rows < 1:
            raise InvalidInputError(f"row slices cannot be cut into parts of {rows} rows")
        inside = self._slice_segment_row()
        cuts = -(-(inside + self.slice_row_end - self.slice_row_start) // rows) - inside // rows
        if (cuts <= 1).all():
            return self
        parent = np.repeat(np.arange(self.slices), cuts)
        number = np.arange(len(parent)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
        origin = (self.slice_row_start - inside)[parent]
        low = origin + (inside[parent] // rows + number) * rows
        first = np.searchsorted(self.slice_number, parent)
        held = np.searchsorted(self.slice_number, parent, side="right") - first
        part = np.repeat(np.arange(len(parent)), held)
        at = np.arange(len(part)) + np.repeat(first - (np.cumsum(held) - held), held)
        return self._derive(
            _segments=self.position[at],
            _slices=self._kept_slices[parent],
            slice_row_start=np.maximum(low, self.slice_row_start[parent]),
            slice_row_end=np.minimum(low + rows, self.slice_row_end[parent]),
            slice_number=part,
        )

    def _slice_segment_row(self) -> Integers:
        """Return the row of its (first) segment at which each row slice begins."""
        first = np.searchsorted(self.slice_number, np.arange(self.slices))
        return self.segment_row_start[first]

    def _with_slices(
        self, mask: Flags, starts: Integers, ends: Integers, clause: str, reason: str
    ) -> SegmentIndex:
        kept = mask[self.slice_number]
        made = self._derive(
            _segments=self.position[kept],
            slice_number=(np.cumsum(mask, dtype=np.int64) - 1)[self.slice_number[kept]],
            _slices=self._kept_slices[mask],
            slice_row_start=starts,
            slice_row_end=ends,
        )
        return self._dropping(made, clause, reason)

    def read_as(self, retyped: Callable[[TableSchema], TableSchema]) -> SegmentIndex:
        """Return the index of the same segments, whose columns are read as of other types."""
        return self._derive(schema=retyped(self.schema), full_schema=retyped(self.full_schema))

    def _derive(self, **changed: Any) -> SegmentIndex:
        """Return the index with other fields, and without what was computed of these."""
        made = SegmentIndex.__new__(SegmentIndex)
        made.__dict__.update({name: self.__dict__[name] for name in _FIELDS}, **changed, memos={})
        return made

    def _dropping(self, made: SegmentIndex, clause: str, reason: str) -> SegmentIndex:
        """Return an index that was derived, which says what it dropped."""
        drop = Drop(
            clause,
            reason,
            segments=len(self) - len(made),
            rows=self.row_count - made.row_count,
            bytes=int(self.bytes.sum() - made.bytes.sum()),
        )
        nothing = not (drop.segments or drop.rows or drop.bytes)
        made.drops = self.drops if nothing else (*self.drops, drop)
        return made

    # --- inside -----------------------------------------------------------------------------------

    def _of_segments(self, values: Integers) -> Integers:
        """Return values of row slices for the segments; the same where each has one."""
        return values if self.slices == len(self) else values[self.slice_number]

    def _ids(self, schema: TableSchema) -> Integers:
        return np.array(sorted(self.column_ids[name] for name in schema.names), dtype=np.int64)


def _held(
    table: SegmentTable, ids: Integers, segments: Integers, number: Integers, slices: int
) -> Flags:
    """Return which segments hold one of the columns; the first of a slice where none does."""
    low = np.searchsorted(ids, table.column_from[segments])
    holds: Flags = low < np.searchsorted(ids, table.column_to[segments])
    if holds.all():
        return holds
    served = np.zeros(slices, dtype=bool)
    served[number[holds]] = True
    holds[np.searchsorted(number, np.arange(slices))[~served]] = True
    return holds

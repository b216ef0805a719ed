"""The rows that are packed, as extents, and where they can be cut: by segments, between row slices.

The packing counts in segments. An extent that edits have cut says its segments by estimate; so
that all counts add up, places inside it are told in the same measure.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tessel.store.history import ManifestEntry, SymbolState, rows_of
from tessel.store.manifest import (
    Extent,
    Manifest,
    ManifestBuilder,
    ManifestReference,
    SegmentTable,
)
from tessel.store.objects import MemoryObjects

__all__ = ["PackedRows", "Staged"]


class Staged:
    """Rows that were written and are in no manifest yet.

    Attributes
    ----------
    builder
        Holds them, by symbol; extents refer to it by its name.
    """

    def __init__(self, builder: ManifestBuilder) -> None:
        self.builder = builder
        self._manifests: dict[int, Manifest] = {}

    def holds(self, extent: ManifestEntry) -> bool:
        """Whether an extent is of such rows."""
        return extent.reference.object == self.builder.name

    def all_of(self, symbol: int, extents: Sequence[ManifestEntry]) -> bool:
        """Whether extents are all such rows of a symbol, in the order they were written."""
        if len(extents) != 1 or not self.holds(extents[0]):
            return False
        whole = extents[0].rows == self.builder.rows_of(symbol) and not extents[0].first_row
        return whole and not extents[0].cut

    def manifest(self, symbol: int) -> Manifest:
        """Return the rows of a symbol as a manifest in memory."""
        if symbol not in self._manifests:
            builder = ManifestBuilder()
            builder.adopt(symbol, self.builder)
            data, reference = builder.finish()
            objects = MemoryObjects("memory://staged")
            objects.put_if_absent(reference.object, data)
            self._manifests[symbol] = Manifest(objects, reference)
        return self._manifests[symbol]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A place inside an extent where a row slice ends: segments and rows of the symbol before."""

    segments: int
    rows: int


class PackedRows:
    """The rows of one symbol in its new state.

    Parameters
    ----------
    state
        The symbol.
    extents
        All its rows, or those that are packed; some may be staged.
    staged
        Rows that are in no manifest yet.
    manifest
        Opens a manifest.

    Attributes
    ----------
    state, extents
        As given.
    """

    def __init__(
        self,
        state: SymbolState,
        extents: Sequence[ManifestEntry],
        staged: Staged,
        manifest: Callable[[ManifestReference], Manifest],
    ) -> None:
        self.state = state
        self.extents = tuple(extents)
        self._staged = staged
        self._manifest = manifest
        self._segment_ends = list(itertools.accumulate(each.segments for each in extents))
        self._row_ends = list(itertools.accumulate(each.rows for each in extents))
        self._cuts: dict[int, int] = {}

    def slice_ends(self, keep: Callable[[ManifestEntry], bool]) -> Sequence[int]:
        """Return where the rows can be cut, in segments.

        Extents that ``keep`` says are not cut in any case are not opened.
        """
        ends: list[int] = []
        before = rows_before = 0
        for extent in self.extents:
            if extent.segments > 1 and not keep(extent):
                table = self.table([extent])
                held = np.append(np.flatnonzero(np.diff(table.slice_of)) + 1, len(table))
                told = -(-held * extent.segments // len(table))
                for place, row in zip(told.tolist(), table.slice_end.tolist(), strict=True):
                    self._cuts[before + place] = rows_before + row
                ends += [before + place for place in np.unique(told).tolist()]
            else:
                ends.append(before + extent.segments)
            before += extent.segments
            rows_before += extent.rows
        return ends

    def between(self, start: int, stop: int) -> tuple[ManifestEntry, ...]:
        """Return the extents of segments ``[start, stop)``, which are places to cut at."""
        low, high = self._row_at(start), self._row_at(stop)
        found = []
        at = bisect_right(self._row_ends, low)
        position = self._row_ends[at] - self.extents[at].rows
        while position < high:
            extent = self.extents[at]
            found.append(extent.part(max(low - position, 0), min(high - position, extent.rows)))
            position += extent.rows
            at += 1
        return tuple(found)

    def table(self, extents: Sequence[ManifestEntry]) -> SegmentTable:
        """Return the segments of some of the extents."""
        return SegmentTable.from_extents(
            self.state.id,
            [Extent(self._opened(each), each.first_row, each.rows) for each in extents],
            indexed=self.state.schema.index is not None,
            rows=rows_of(extents),
        )

    def is_whole(self, extent: ManifestEntry) -> bool:
        """Whether an extent is all that a manifest holds of the symbol, and was never cut."""
        if extent.cut or extent.first_row or self._staged.holds(extent):
            return False
        return self._opened(extent).holdings.rows_of(self.state.id) == extent.rows

    def _opened(self, extent: ManifestEntry) -> Manifest:
        if self._staged.holds(extent):
            return self._staged.manifest(self.state.id)
        return self._manifest(extent.reference)

    def _row_at(self, segment: int) -> int:
        """Return the row at which a segment begins."""
        if segment == 0:
            return 0
        at = bisect_left(self._segment_ends, segment)
        if self._segment_ends[at] == segment:
            return self._row_ends[at]
        return self._cuts[segment]

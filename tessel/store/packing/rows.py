"""The rows that are packed, as extents, and where they can be cut: by segments, between row slices.

The packing counts in segments, and an extent that edits have cut says its segments by estimate: a
row slice that was cut in two has all its segments on both sides. Limits hold for what is written,
so such an extent is opened, and its segments are counted, before anything is planned.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from tessel.cached import cached
from tessel.errors import CorruptStoreError
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.table import SegmentTable
from tessel.store.objects.memory import MemoryObjects

__all__ = ["PackedRows", "Staged", "counted_segments", "in_memory"]


def counted_segments(
    symbol: int, extent: ManifestEntry, manifest: Callable[[ManifestReference], Manifest]
) -> int:
    """Return how many segments hold the rows of an extent, which is opened where it was cut.

    Parameters
    ----------
    symbol
        Id of the symbol.
    extent
        Rows of it.
    manifest
        Opens a manifest.
    """
    if not extent.cut:
        return extent.segments
    start = extent.first_row
    return manifest(extent.reference).count_between(symbol, start, start + extent.rows)


def in_memory(data: bytes, reference: ManifestReference) -> Manifest:
    """Return a manifest that is not written yet."""
    objects = MemoryObjects("memory://staged")
    objects.put_if_absent(reference.object, data)
    return Manifest(objects, reference)


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
            self._manifests[symbol] = in_memory(*builder.finish())
        return self._manifests[symbol]


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
        self._row_ends = list(itertools.accumulate(each.rows for each in extents))
        self._cuts: dict[int, int] = {}

    @cached
    def counts(self) -> tuple[int, ...]:
        """How many segments hold the rows of each extent: counted where edits have cut one."""
        return tuple(counted_segments(self.state.id, each, self._open) for each in self.extents)

    @property
    def segments(self) -> int:
        """How many segments hold all these rows."""
        return sum(self.counts)

    def slice_ends(self, keep: Callable[[ManifestEntry, int], bool]) -> Sequence[int]:
        """Return where the rows can be cut, in segments.

        Extents that ``keep`` says are not cut in any case, by their segments, are not opened.
        """
        ends: list[int] = []
        before = rows_before = 0
        for extent, count in zip(self.extents, self.counts, strict=True):
            if count > 1 and not keep(extent, count):
                table = self.table([extent])
                if len(table) != count:
                    raise CorruptStoreError(
                        f"a manifest holds {len(table)} segments where the snapshot says {count}",
                        hint="restore the store from a copy",
                        path=extent.reference.object,
                    )
                held = np.append(np.flatnonzero(np.diff(table.slice_of)) + 1, len(table))
                for place, row in zip(held.tolist(), table.slice_end.tolist(), strict=True):
                    self._cuts[before + place] = rows_before + row
                    ends.append(before + place)
            else:
                ends.append(before + count)
            before += count
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
        return self.state.segments(self._open, extents)

    def is_whole(self, extent: ManifestEntry) -> bool:
        """Whether an extent is all that a manifest holds of the symbol."""
        if extent.first_row or self._staged.holds(extent):
            return False
        return self._open(extent.reference).holdings.rows_of(self.state.id) == extent.rows

    def _open(self, reference: ManifestReference) -> Manifest:
        if reference.object == self._staged.builder.name:
            return self._staged.manifest(self.state.id)
        return self._manifest(reference)

    @cached
    def _segment_ends(self) -> list[int]:
        return list(itertools.accumulate(self.counts))

    def _row_at(self, segment: int) -> int:
        """Return the row at which a segment begins."""
        if segment == 0:
            return 0
        ends = self._segment_ends
        at = bisect_left(ends, segment)
        if ends[at] == segment:
            return self._row_ends[at]
        return self._cuts[segment]

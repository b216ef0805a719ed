"""The rows that are packed, as extents, and the manifests they are put into, as bytes.

The packing counts in segments, and an extent that edits have cut says its segments by estimate: a
row slice that was cut in two has all its segments on both sides. Limits hold for what is written,
so such an extent is opened, and its segments are counted, before anything is planned. It can be cut
between row slices.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessel.cached import cached
from tessel.errors import CorruptStoreError
from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.history.symbol import ManifestEntry, OpenManifest, SymbolState, rows_of
from tessel.store.manifest.builder import ManifestBuilder, Move
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.plan import (
    Part,
    PlannedManifest,
    estimate_bytes_per_segment,
)
from tessel.store.manifest.table import SegmentTable
from tessel.store.objects.memory import MemoryObjects


def bytes_per_segment(state: SymbolState) -> int:
    """Return about how many bytes of a manifest a segment of a symbol takes, by its schema."""
    return estimate_bytes_per_segment(min(len(state.column_ids), current().segment_columns))


def counted_segments(symbol: int, extent: ManifestEntry, manifest: OpenManifest) -> int:
    """Return how many segments hold the rows of an extent, which is opened where it was cut."""
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
    """Rows that were written and are in no manifest yet, beside those of the store.

    Attributes
    ----------
    builder
        Holds them, by symbol; extents refer to it by its name.
    """

    def __init__(self, builder: ManifestBuilder, manifest: OpenManifest) -> None:
        self.builder = builder
        self.manifest = manifest
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

    def open(self, symbol: int, reference: ManifestReference) -> Manifest:
        """Return a manifest with rows of a symbol; of staged ones it is in memory."""
        if reference.object != self.builder.name:
            return self.manifest(reference)
        if symbol not in self._manifests:
            builder = ManifestBuilder()
            builder.adopt(symbol, self.builder)
            self._manifests[symbol] = in_memory(*builder.finish())
        return self._manifests[symbol]


class PackedRows:
    """The rows of one symbol in its new state.

    Parameters
    ----------
    extents
        All its rows, or those that are packed; some may be staged.
    """

    def __init__(
        self, state: SymbolState, extents: Sequence[ManifestEntry], staged: Staged
    ) -> None:
        self.state = state
        self.extents = tuple(extents)
        self.staged = staged
        self._open = functools.partial(staged.open, state.id)
        self._row_ends = list(itertools.accumulate([each.rows for each in extents]))
        self._cuts: dict[int, int] = {}

    @cached
    def counts(self) -> tuple[int, ...]:
        """How many segments hold the rows of each extent: counted where edits have cut one."""
        return tuple(counted_segments(self.state.id, each, self._open) for each in self.extents)

    @property
    def segments(self) -> int:
        """How many segments hold all these rows."""
        return sum(self.counts)

    @property
    def rated(self) -> tuple[Part, int]:
        """All rows as a part of a manifest to plan, and the estimated bytes of a segment."""
        return Part(self.state.id, 0, self.segments), bytes_per_segment(self.state)

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
        ends = self._rows_by_segment
        low, high = (ends[at] if at in ends else self._cuts[at] for at in (start, stop))
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
        if extent.first_row or self.staged.holds(extent):
            return False
        return self._open(extent.reference).holdings.rows_of(self.state.id) == extent.rows

    @cached
    def _rows_by_segment(self) -> dict[int, int]:
        """The row at which an extent begins, by its first segment; its end by theirs."""
        segments = itertools.accumulate(self.counts, initial=0)
        return dict(zip(segments, [0, *self._row_ends], strict=True))


@dataclass(frozen=True, slots=True)
class EncodedManifest:
    """A planned manifest, encoded.

    Attributes
    ----------
    entries
        The extent of each part, by symbol id and first segment of the part.
    """

    name: str
    data: bytes
    entries: Mapping[tuple[int, int], ManifestEntry]


def encode(planned: PlannedManifest, sources: Mapping[int, PackedRows]) -> EncodedManifest:
    """Encode a manifest."""
    builder = ManifestBuilder()
    moves: dict[ManifestReference, dict[int, Move]] = {}
    made: dict[tuple[int, int], ManifestEntry] = {}
    for part in planned.parts:
        rows = sources[part.symbol]
        entry = _add(part, rows, builder, moves)
        made[part.symbol, part.start] = dataclasses.replace(entry, set=planned.set)
    if moves:
        open_manifest = rows.staged.manifest
        for reference in sorted(moves, key=lambda each: each.object):
            builder.add_whole(open_manifest(reference), moves[reference])
    data, reference = builder.finish()
    held = sum(entry.segments for entry in made.values()) if planned.of_leaf else None
    entries = {
        key: dataclasses.replace(entry, reference=reference, held=held)
        for key, entry in made.items()
    }
    return EncodedManifest(reference.object, data, entries)


def _add(
    part: Part,
    rows: PackedRows,
    builder: ManifestBuilder,
    moves: dict[ManifestReference, dict[int, Move]],
) -> ManifestEntry:
    """Add a part of a symbol to a manifest, in the cheapest way there is; return its extent."""
    symbol, state, staged = part.symbol, rows.state, rows.staged
    extents = rows.between(part.start, part.stop)
    front, back = extents[0], extents[-1]
    first_time, last_time = front.first_time, back.last_time
    if staged.all_of(symbol, extents):
        builder.adopt(symbol, staged.builder)
        segments = part.segments
    elif all(map(rows.is_whole, extents)):
        segments = 0
        for extent in extents:
            moves.setdefault(extent.reference, {})[symbol] = Move(segments, state.types)
            segments += counted_segments(symbol, extent, staged.manifest)
    else:
        table = rows.table(extents)
        builder.add_table(symbol, table, state.types)
        segments = len(table)
        if table.slice_first is not None and table.slice_last is not None:
            first_time, last_time = int(table.slice_first[0]), int(table.slice_last[-1])
    # Rows of this commit are cut between row slices only. In older ones an edit may have cut
    # a row slice, and what was packed since no longer says where.
    exact = staged.all_of(symbol, rows.extents)
    return ManifestEntry(
        ManifestReference(builder.name, 0, 0, 0),
        rows_of(extents),
        segments,
        first_time,
        last_time,
        cut_front=front.cut_front and not exact,
        cut_back=back.cut_back and not exact,
    )

"""Planned manifests as bytes, and the extents of what lies in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tessel.lazy import dataclass
from tessel.store.history.symbol import ManifestEntry, rows_of
from tessel.store.manifest.builder import ManifestBuilder, Move
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.plan import Part, PlannedManifest
from tessel.store.packing.rows import PackedRows, Staged, counted_segments

__all__ = ["EncodedManifest", "encode"]


@dataclass(frozen=True, slots=True)
class EncodedManifest:
    """A planned manifest, encoded.

    Attributes
    ----------
    name, data
        The object to write.
    entries
        The extent of each part, by symbol id and first segment of the part.
    """

    name: str
    data: bytes
    entries: Mapping[tuple[int, int], ManifestEntry]

    def entry_of(self, symbol: int) -> ManifestEntry:
        """Return the extent of the part that begins with the first segment of a symbol."""
        return self.entries[symbol, 0]


def encode(
    planned: PlannedManifest,
    sources: Mapping[int, PackedRows],
    staged: Staged,
    manifest: Callable[[ManifestReference], Manifest],
) -> EncodedManifest:
    """Encode a manifest.

    Parameters
    ----------
    planned
        What goes into it.
    sources
        The rows of each symbol.
    staged
        Rows that are in no manifest yet.
    manifest
        Opens a manifest.
    """
    making = _Making(planned.set, staged, of_leaf=planned.of_leaf)
    for part in planned.parts:
        making.add(part, sources[part.symbol], manifest)
    return making.finish(manifest)


class _Making:
    """One manifest on its way."""

    def __init__(self, set_name: str | None, staged: Staged, *, of_leaf: bool) -> None:
        self._set = set_name
        self._of_leaf = of_leaf
        self._staged = staged
        self._builder = ManifestBuilder()
        self._moves: dict[ManifestReference, dict[int, Move]] = {}
        self._entries: dict[tuple[int, int], ManifestEntry] = {}

    def add(
        self,
        part: Part,
        rows: PackedRows,
        manifest: Callable[[ManifestReference], Manifest],
    ) -> None:
        """Add a part of a symbol, in the cheapest way there is."""
        symbol, state = part.symbol, rows.state
        extents = rows.between(part.start, part.stop)
        if self._staged.all_of(symbol, extents):
            self._builder.adopt(symbol, self._staged.builder)
            self._entry(part, rows, extents, part.segments)
        elif all(map(rows.is_whole, extents)):
            first = 0
            for extent in extents:
                moves = self._moves.setdefault(extent.reference, {})
                moves[symbol] = Move(first, state.types)
                first += counted_segments(symbol, extent, manifest)
            self._entry(part, rows, extents, first)
        else:
            table = rows.table(extents)
            self._builder.add_table(symbol, table, state.types)
            entry = self._entry(part, rows, extents, len(table))
            if table.slice_first is not None and table.slice_last is not None:
                bounds = int(table.slice_first[0]), int(table.slice_last[-1])
                self._entries[part.symbol, part.start] = dataclasses.replace(
                    entry, first_time=bounds[0], last_time=bounds[1]
                )

    def finish(self, manifest: Callable[[ManifestReference], Manifest]) -> EncodedManifest:
        """Return the manifest."""
        for reference in sorted(self._moves, key=lambda each: each.object):
            self._builder.add_whole(manifest(reference), self._moves[reference])
        data, reference = self._builder.finish()
        held = sum(entry.segments for entry in self._entries.values()) if self._of_leaf else None
        entries = {
            key: dataclasses.replace(entry, reference=reference, held=held)
            for key, entry in self._entries.items()
        }
        return EncodedManifest(reference.object, data, entries)

    def _entry(
        self, part: Part, rows: PackedRows, extents: tuple[ManifestEntry, ...], segments: int
    ) -> ManifestEntry:
        front, back = extents[0], extents[-1]
        # Rows of this commit are cut between row slices only. In older ones an edit may have cut
        # a row slice, and what was packed since no longer says where.
        exact = self._staged.all_of(part.symbol, rows.extents)
        entry = ManifestEntry(
            ManifestReference(self._builder.name, 0, 0, 0),
            rows_of(extents),
            segments,
            front.first_time,
            back.last_time,
            cut_front=front.cut_front and not exact,
            cut_back=back.cut_back and not exact,
            set=self._set,
        )
        self._entries[part.symbol, part.start] = entry
        return entry

"""The manifests of one commit: which are written, and where the rows of each symbol go.

Appends and small edits write one tail for all symbols of the commit, and fold older tails where
they have become many. In the usual configuration, small symbols that are written whole are in that
tail, too, and the leaves of the symbol index fold what lies in theirs. Other whole writes, and
symbols that edits have cut into many extents, are packed with all that share a manifest with them.
Symbols that nobody changed get other extents of the same
rows (:class:`Repacking`), which take effect where nobody else has moved them meanwhile.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from operator import itemgetter

from tessel.lazy import dataclass
from tessel.store.history.changes import Repacking
from tessel.store.history.snapshot import Overlay
from tessel.store.history.symbol import ManifestEntry, OpenManifest, SymbolState
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.manifest.packing.leaf_folds import LeafFolds
from tessel.store.manifest.packing.pack import pack
from tessel.store.manifest.packing.plan import (
    Changes,
    PlannedManifest,
    Run,
    SymbolContent,
    content_of,
    oversized,
)
from tessel.store.manifest.packing.repacking import (
    CarriedOut,
    encoded_to_fit,
    repackings_of,
)
from tessel.store.manifest.packing.rows import (
    EncodedManifest,
    PackedRows,
    Staged,
    bytes_per_segment,
    encode,
    in_memory,
)
from tessel.store.manifest.packing.snapshot_membership import SnapshotMembership
from tessel.store.manifest.packing.tails import FoldPlan, plan_folds, plan_tails
from tessel.store.manifest.packing.validation import DEFAULT_SET

_LONGEST = 64
_LONGEST_PER_ROOT = 4


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush came to.

    Attributes
    ----------
    states
        The extents of symbols that were written whole, by id.
    pieces
        Where other staged rows went, by symbol id: extents in the order of the rows.
    """

    objects: list[tuple[str, bytes]]
    repackings: list[Repacking]
    states: Mapping[int, tuple[ManifestEntry, ...]]
    pieces: Mapping[int, tuple[ManifestEntry, ...]]

    def placed(self, symbol: int, extent: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Return the extents that a staged one became."""
        low, high = extent.first_row, extent.first_row + extent.rows
        found = []
        position = 0
        for piece in self.pieces[symbol]:
            start, stop = max(low, position), min(high, position + piece.rows)
            if start < stop:
                part = extent.part(start - low, stop - low)
                inside = piece.first_row + start - position
                reference, set_name = piece.reference, piece.set
                found.append(
                    dataclasses.replace(part, reference=reference, first_row=inside, set=set_name)
                )
            position += piece.rows
        return tuple(found)


@dataclass
class Flush:
    """Gathers what a commit does to manifests, and carries it out; used once, by one thread."""

    configuration: ManifestConfiguration
    membership: SnapshotMembership
    builder: ManifestBuilder
    manifest: OpenManifest
    _written: dict[int, tuple[str, SymbolState]] = field(default_factory=dict)
    _renewed: set[int] = field(default_factory=set)
    _edited: dict[int, tuple[str, SymbolState]] = field(default_factory=dict)
    _deleted: set[int] = field(default_factory=set)

    def write(self, name: str, state: SymbolState, base: SymbolState | None = None) -> None:
        """Take a symbol that was made, or got a new state whatever it was before: ``base``."""
        if base is not None:
            self.membership.know(name, base)
        self._written[state.id] = name, state

    def edit(self, name: str, base: SymbolState, state: SymbolState) -> None:
        """Take a symbol whose rows were changed."""
        self.membership.know(name, base)
        if Staged(self.builder, self.manifest).all_of(state.id, state.manifests):
            self._written[state.id] = name, state
            self._renewed.add(state.id)
        else:
            self._edited[state.id] = name, base

    def delete(self, name: str, base: SymbolState) -> None:
        """Take a symbol that ceases to exist."""
        self.membership.know(name, base)
        self._deleted.add(base.id)

    def finish(self) -> Flushed:
        """Plan and encode all but the folds of leaves."""
        staged = Staged(self.builder, self.manifest)
        long = {symbol for symbol, (_, base) in self._edited.items() if _is_long(base)}
        # Symbols written whole whose leaf packs them go to the tail for now.
        leaving: set[int] = set()
        for symbol, (name, state) in self._written.items():
            segments = sum([extent.segments for extent in state.manifests])
            size = segments * bytes_per_segment(state)
            if self.configuration.leaf_set(name, segments, size) is not None:
                leaving.add(symbol)
        objects, pieces = self._tails(leaving, staged)
        folds = plan_folds(self.configuration, self._edited.keys() - long, self.membership)
        joined, repackings = self._joined(folds, staged)
        packed, moved, entries = self._packed([*sorted(long), *folds.packed], leaving, staged)
        entries = {**entries, **{symbol: pieces.get(symbol, ()) for symbol in leaving}}
        states = {
            symbol: entries.get(symbol, ())
            for symbol in self._written
            if symbol not in self._renewed
        }
        pieces |= {symbol: entries[symbol] for symbol in self._renewed}
        return Flushed([*objects, *joined, *packed], [*moved, *repackings], states, pieces)

    # --- leaves -----------------------------------------------------------------------------------

    def fold(
        self, after: Overlay, objects: Sequence[tuple[str, bytes]]
    ) -> tuple[list[tuple[str, bytes]], list[Repacking]]:
        """Fold the leaves of the commit; return further manifests, and what moves into them."""
        if not self.configuration.usual:
            return [], []
        fresh = dict(objects)

        def opened(reference: ManifestReference) -> Manifest:
            data = fresh.get(reference.object)
            return self.manifest(reference) if data is None else in_memory(data, reference)

        return LeafFolds(self.configuration, after, fresh, Staged(self.builder, opened)).fold()

    # --- tails ------------------------------------------------------------------------------------

    def _tails(
        self, leaving: Collection[int], staged: Staged
    ) -> tuple[list[tuple[str, bytes]], dict[int, tuple[ManifestEntry, ...]]]:
        """Put the rows that were added into tails."""
        contents: list[SymbolContent] = []
        sources: dict[int, PackedRows] = {}
        for symbol, (name, base) in self._edited.items():
            rows, segments = self.builder.rows_of(symbol), self.builder.segments_of(symbol)
            if not rows:
                continue
            reference = ManifestReference(self.builder.name, 0, 0, 0)
            whole = ManifestEntry(reference, rows, segments, None, None)
            sources[symbol] = PackedRows(base, [whole], staged)
            contents.append(SymbolContent(symbol, name, bytes_per_segment(base), (Run(segments),)))
        contents += [self._content(symbol, sources, staged) for symbol in leaving]
        if not contents:
            return [], {}

        def ends(symbol: int) -> Sequence[int]:
            return sources[symbol].slice_ends(lambda extent, segments: False)

        def planned(inflation: Mapping[int, Fraction]) -> Sequence[PlannedManifest]:
            return plan_tails(self.configuration, contents, slice_ends=ends, inflation=inflation)

        encoded = encoded_to_fit(self.configuration, planned, lambda each: encode(each, sources))
        objects = [(each.name, each.data) for each in encoded]
        return objects, _in_row_order(encoded)

    def _joined(
        self, folds: FoldPlan, staged: Staged
    ) -> tuple[list[tuple[str, bytes]], list[Repacking]]:
        """Join tails that have become many."""
        objects: list[tuple[str, bytes]] = []
        repackings: list[Repacking] = []
        waiting = [list(group) for group in folds.joined]
        while waiting:
            group = waiting.pop()
            sources = {}
            for join in group:
                _, state = self._edited[join.symbol]
                last = state.manifests[-len(join.manifests) :]
                sources[join.symbol] = PackedRows(state, last, staged)
            planned = PlannedManifest.of(None, [rows.rated for rows in sources.values()])
            encoded = encode(planned, sources)
            if len(group) > 1 and self._is_too_big(planned, len(encoded.data)):
                half = len(group) // 2
                waiting += [group[:half], group[half:]]
                continue
            objects.append((encoded.name, encoded.data))
            for symbol, rows in sources.items():
                into = (encoded.entries[symbol, 0],)
                repackings.append(Repacking(self._edited[symbol][0], symbol, rows.extents, into))
        return objects, repackings

    def _is_too_big(self, tail: PlannedManifest, length: int) -> bool:
        limit = self.configuration.set_named(DEFAULT_SET).max_segments
        many = limit is not None and tail.segments > limit
        return many or bool(oversized(self.configuration, [tail], [length]))

    # --- packing ----------------------------------------------------------------------------------

    def _packed(
        self, old: Sequence[int], leaving: Collection[int], staged: Staged
    ) -> tuple[list[tuple[str, bytes]], list[Repacking], Mapping[int, tuple[ManifestEntry, ...]]]:
        """Pack what was written whole and ``old`` symbols of many extents, with their closure."""
        sources: dict[int, PackedRows] = {}
        contents = [
            self._content(symbol, sources, staged)
            for symbol in self._written
            if symbol not in leaving
        ]
        contents += [content_of(symbol, self.membership) for symbol in old]
        changes = Changes(tuple(contents), frozenset(self._deleted))
        if not contents and not self._deleted:
            return [], [], {}
        packing = CarriedOut(self.configuration, self.membership, sources, staged)
        packing.carry_out(
            functools.partial(
                pack,
                self.configuration,
                changes,
                self.membership,
                slice_ends=packing.slice_ends,
            )
        )
        entries = packing.entries()
        kept = {s: after for s, after in entries.items() if s not in self._written}
        return packing.objects(), repackings_of(kept, self.membership), entries

    def _content(
        self, symbol: int, sources: dict[int, PackedRows], staged: Staged
    ) -> SymbolContent:
        """Return a symbol that was written whole, and put its rows among the sources."""
        name, state = self._written[symbol]
        rows = sources[symbol] = PackedRows(state, state.manifests, staged)
        runs = tuple(Run(count) for count in rows.counts)
        return SymbolContent(symbol, name, bytes_per_segment(state), runs)


def _is_long(base: SymbolState) -> bool:
    """Whether edits have cut a symbol into more extents than reading should pay for.

    A multiple of the root of its segments, so that each edit pays for about as many rows.
    """
    extents = base.manifests
    segments = sum(extent.segments for extent in extents)
    return len(extents) > _LONGEST + _LONGEST_PER_ROOT * math.isqrt(segments)


def _in_row_order(encoded: Sequence[EncodedManifest]) -> dict[int, tuple[ManifestEntry, ...]]:
    """Return the extents of each symbol over some manifests."""
    found: dict[int, tuple[ManifestEntry, ...]] = {}
    listed = [item for each in encoded for item in each.entries.items()]
    for (symbol, _), entry in sorted(listed, key=itemgetter(0)):
        found[symbol] = (*found.get(symbol, ()), entry)
    return found

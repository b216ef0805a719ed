"""A snapshot as the packing sees it: symbols and manifests both ways, read when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from tessel.errors import CorruptStoreError
from tessel.store.history.leaves import Leaf, cut_leaf
from tessel.store.history.snapshot import Snapshot
from tessel.store.history.symbol import ManifestEntry, OpenManifest, SymbolState
from tessel.store.manifest.packing.rows import bytes_per_segment, counted_segments


class SnapshotMembership:
    """The packing's view of a snapshot; used by one thread.

    Symbols name their manifests, the snapshot's lookup says who shares one, so a manifest is opened
    only to count the segments of rows that were cut. Where edits have cut the rows of a symbol so
    that one manifest holds several extents of it, each of these stands for a manifest of its own,
    which the symbol shares with the same others (``man/<id>#<place>``): then segments add up, and
    the rows are in order.
    """

    def __init__(self, snapshot: Snapshot, manifest: OpenManifest) -> None:
        self.snapshot = snapshot
        self._leaves: dict[int, str] = {}
        self._held: dict[str, int | None] = {}
        self._manifest = manifest
        self._names: dict[int, str] = {}
        self._states: dict[int, SymbolState] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._sets: dict[str, str | None] = {}
        self._members: dict[str, dict[int, int]] = {}
        self._tails: dict[str, dict[int, int]] = {}
        self._parts: dict[str, tuple[str, int, int]] = {}
        self._segments: dict[tuple[int, str], int] = {}

    def know(self, name: str, state: SymbolState) -> None:
        """Say the name and state of a symbol of the snapshot, which need not be looked up then."""
        self._names[state.id] = name
        self._states[state.id] = state

    def state_of(self, symbol: int) -> SymbolState:
        """Return a symbol that was met before."""
        found = self._states.get(symbol)
        if found is None:
            name = self._names[symbol]
            known = self.snapshot.get(name)
            if known is None or known.id != symbol:
                raise CorruptStoreError(
                    f"the lookup from manifests to symbols names a symbol {name!r} that is not "
                    "there",
                    hint="restore the store from a copy",
                    symbol=name,
                )
            found = self._states[symbol] = known
        return found

    # --- what the packing asks --------------------------------------------------------------------

    def symbols(self) -> Iterable[int]:
        """Return the ids of all symbols."""
        for leaf in self.snapshot.leaves():
            # What is packed anew is cut as the leaf would be if it were written anew.
            for part in cut_leaf(list(leaf.documents.items())):
                for name in part.documents:
                    state = leaf.state(name)
                    assert state is not None
                    self.know(name, state)
                    self._leaves.setdefault(state.id, part.first)
        return list(self._states)

    def cut_as(self, leaves: Iterable[Leaf]) -> bool:
        """Say in which leaves symbols will lie; return whether that is what was thought."""
        told = {}
        for leaf in leaves:
            for packing in leaf.packings():
                told[packing.id] = leaf.first
        same, self._leaves = told == self._leaves, told
        return same

    def name_of(self, symbol: int) -> str:
        """Return the name of a symbol."""
        return self._names[symbol]

    def bytes_per_segment(self, symbol: int) -> int:
        """Return the estimate for a symbol."""
        return bytes_per_segment(self.state_of(symbol))

    def manifests_of(self, symbol: int) -> Sequence[str]:
        """Return the manifests of a symbol in row order, one for each extent."""
        if symbol not in self._names:
            return ()
        if symbol not in self._keys:
            self._keys[symbol] = self._keys_of(symbol, self.state_of(symbol).manifests)
        return self._keys[symbol]

    def members_of(self, manifest: str) -> Mapping[int, int]:
        """Return the symbols of a manifest, and how many segments of each by estimate.

        Of tails and manifests of one leaf, which the lookup does not know, those of the symbols
        that were asked about.
        """
        if manifest in self._parts:
            whole, symbol, segments = self._parts[manifest]
            if self._sets[whole] is None or self._held.get(whole) is not None:
                return {symbol: segments}
            return {**self.members_of(whole), symbol: segments}
        set_name = self._sets[manifest]
        if set_name is None or manifest in self._tails:
            return self._tails[manifest]
        if manifest not in self._members:
            found: dict[int, int] = {}
            for member in self.snapshot.lookup.members(set_name, manifest):
                self._names.setdefault(member.symbol, member.name)
                found[member.symbol] = member.segments
            self._members[manifest] = found
        return self._members[manifest]

    def segments_of(self, symbol: int, manifest: str) -> int:
        """Return how many segments of a symbol a manifest holds: counted."""
        known = self._segments.get((symbol, manifest))
        if known is None:
            at = self.manifests_of(symbol).index(manifest)
            extent = self.state_of(symbol).manifests[at]
            known = counted_segments(symbol, extent, self._manifest)
            self._segments[symbol, manifest] = known
        return known

    def set_of(self, manifest: str) -> str | None:
        """Return the set that a manifest was packed for; None for a tail."""
        return self._sets[manifest]

    def manifests_in(self, name: str) -> Collection[str]:
        """Return the manifests of a set."""
        found = list(self.snapshot.lookup.manifests(name))
        self._sets.update(dict.fromkeys(found, name))
        return found

    def leaf_of(self, symbol: int) -> str:
        """Return the first name of the leaf that a symbol lies in."""
        if symbol not in self._leaves:
            self._leaves[symbol] = self.snapshot.leaf_of(self._names[symbol]).first
        return self._leaves[symbol]

    def all_live(self, manifest: str) -> bool:
        """Return whether a manifest holds nothing but what its members have there.

        One that no leaf has packed is opened where symbols may have left it: it does not say.
        """
        if manifest in self._parts:
            return False
        members = self.members_of(manifest)
        held = self._held.get(manifest)
        if held is None:
            state = self.state_of(next(iter(members)))
            extent = next(e for e in state.manifests if e.reference.object == manifest)
            held = self._manifest(extent.reference).segments.num_rows
        return held == sum(self.segments_of(symbol, manifest) for symbol in members)

    def _keys_of(self, symbol: int, extents: Sequence[ManifestEntry]) -> tuple[str, ...]:
        times = Counter(extent.reference.object for extent in extents)
        keys = []
        for place, extent in enumerate(extents):
            manifest = extent.reference.object
            self._sets[manifest] = extent.set
            self._held[manifest] = extent.held
            if times[manifest] == 1:
                if extent.set is None or extent.held is not None:
                    self._tails.setdefault(manifest, {})[symbol] = extent.segments
                keys.append(manifest)
                continue
            key = f"{manifest}#{symbol:x}.{place}"
            self._sets[key] = extent.set
            self._parts[key] = manifest, symbol, extent.segments
            keys.append(key)
        return tuple(keys)

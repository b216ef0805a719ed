"""A packing plan as it is carried out: encoded, checked against the limits of bytes, and told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tessel.store.history.changes import Repacking
from tessel.store.history.symbol import ManifestEntry, coalesced
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.manifest.packing.plan import PackingPlan, PlannedManifest, oversized
from tessel.store.manifest.packing.validation import DEFAULT_SET
from tessel.store.packing.encoding import EncodedManifest, encode
from tessel.store.packing.membership import SnapshotMembership
from tessel.store.packing.rows import PackedRows, Staged
from tessel.telemetry import emit

__all__ = ["CarriedOut", "emit_metrics", "objects_of", "repackings_of"]


class CarriedOut:
    """A packing plan as it is encoded, planned again until all bytes fit.

    Parameters
    ----------
    configuration, membership, staged, manifest
        As for :class:`Flush`.
    sources
        Rows of the symbols that are written; others are those of the snapshot.
    afresh
        Whether everything is packed anew, so that any symbol may be cut anywhere.
    made
        Manifests of the same rows that were encoded before, and those that are encoded now.
    """

    def __init__(
        self,
        configuration: ManifestConfiguration,
        membership: SnapshotMembership,
        sources: dict[int, PackedRows],
        staged: Staged,
        manifest: Callable[[ManifestReference], Manifest],
        *,
        afresh: bool = False,
        made: dict[PlannedManifest, EncodedManifest] | None = None,
    ) -> None:
        self._configuration = configuration
        self._membership = membership
        self._sources = sources
        self._staged = staged
        self._manifest = manifest
        self._afresh = afresh
        self._made = {} if made is None else made
        self.plan: PackingPlan | None = None
        self._encoded: list[EncodedManifest] = []

    def carry_out(self, make: Callable[[Mapping[int, Fraction]], PackingPlan]) -> PackingPlan:
        """Make the plan and encode it, again with measured sizes where it does not fit."""
        inflation: dict[int, Fraction] = {}
        while True:
            plan = make(inflation)
            for symbol in plan.placements:
                self._source(symbol)
            self._encoded = [self._encode(each) for each in plan.written]
            lengths = [len(each.data) for each in self._encoded]
            more = oversized(self._configuration, plan.written, lengths, inflation)
            if not more:
                break
            inflation = more
        self.plan = plan
        emit_metrics(plan)
        return plan

    def _encode(self, planned: PlannedManifest) -> EncodedManifest:
        if planned not in self._made:
            made = encode(planned, self._sources, self._staged, self._manifest)
            self._made[planned] = made
        return self._made[planned]

    def objects(self) -> list[tuple[str, bytes]]:
        """Return the manifests to write."""
        return objects_of(self._encoded)

    def entries(self) -> dict[int, tuple[ManifestEntry, ...]]:
        """Return the extents of each symbol of the closure afterwards."""
        assert self.plan is not None
        found: dict[int, tuple[ManifestEntry, ...]] = {}
        for symbol, placements in self.plan.placements.items():
            extents: list[ManifestEntry] = []
            for each in placements:
                if each.written is None:
                    extents += self._sources[symbol].between(each.start, each.stop)
                else:
                    extents.append(self._encoded[each.written].entries[symbol, each.start])
            found[symbol] = tuple(extents)
        return found

    def slice_ends(self, symbol: int) -> Sequence[int]:
        """Say where a symbol that is too big for one manifest can be cut."""
        return self._source(symbol).slice_ends(self._stays)

    def _source(self, symbol: int) -> PackedRows:
        if symbol not in self._sources:
            state = self._membership.state_of(symbol)
            self._sources[symbol] = PackedRows(state, state.manifests, self._staged, self._manifest)
        return self._sources[symbol]

    def _stays(self, extent: ManifestEntry, segments: int) -> bool:
        """Whether an extent is a manifest's worth of a big symbol, which a flush leaves whole."""
        if self._afresh or extent.set != DEFAULT_SET:
            return False
        members = self._membership.members_of(extent.reference.object)
        limit = self._configuration.set_named(DEFAULT_SET).max_segments
        return len(members) == 1 and (limit is None or segments <= limit)


def repackings_of(
    entries: Mapping[int, tuple[ManifestEntry, ...]], membership: SnapshotMembership
) -> list[Repacking]:
    """Return what makes other extents of those that symbols have, as small as it can be."""
    found = []
    for symbol in sorted(entries):
        before, after = membership.state_of(symbol).manifests, coalesced(entries[symbol])
        first = 0
        while first < min(len(before), len(after)) and before[first] == after[first]:
            first += 1
        last = 0
        while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
            last += 1
        old, new = before[first : len(before) - last], after[first : len(after) - last]
        if old:
            found.append(Repacking(membership.name_of(symbol), symbol, old, new))
    return found


def emit_metrics(plan: PackingPlan) -> None:
    """Tell those who listen what a packing took."""
    metrics = plan.metrics
    emit(
        "manifests.pack",
        closure_symbols=metrics.closure_symbols,
        closure_manifests=metrics.closure_manifests,
        closure_segments=metrics.closure_segments,
        written=metrics.written,
        written_segments=metrics.written_segments,
        reused=metrics.reused,
        released=len(plan.released),
        flipped=len(metrics.flipped),
        overflowed=metrics.overflowed,
        split=metrics.split,
        pulled=metrics.pulled,
    )


def objects_of(encoded: Sequence[EncodedManifest]) -> list[tuple[str, bytes]]:
    """Return names and bytes of encoded manifests."""
    return [(each.name, each.data) for each in encoded]

"""A packing plan as it is carried out: encoded, checked against the limits of bytes, and told.

So are the closure of a commit, and all manifests of a version packed anew as one commit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction

from tessel.display.documents import Document, Table
from tessel.lazy import dataclass
from tessel.store.history.changes import Repacking
from tessel.store.history.snapshot import Overlay, Snapshot
from tessel.store.history.symbol import ManifestEntry, OpenManifest, coalesced
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.manifest.packing.pack import repack
from tessel.store.manifest.packing.plan import PackingPlan, PlannedManifest, oversized
from tessel.store.manifest.packing.rows import EncodedManifest, PackedRows, Staged, encode
from tessel.store.manifest.packing.snapshot_membership import SnapshotMembership
from tessel.store.manifest.packing.validation import DEFAULT_SET
from tessel.telemetry import emit


@dataclass(eq=False)
class CarriedOut:
    """A packing plan as it is encoded, planned again until all bytes fit.

    Attributes
    ----------
    sources
        Rows of the symbols that are written; others are those of the snapshot.
    afresh
        Whether everything is packed anew, so that any symbol may be cut anywhere.
    made
        Manifests of the same rows that were encoded before, and those that are encoded now.
    """

    configuration: ManifestConfiguration
    membership: SnapshotMembership
    sources: dict[int, PackedRows]
    staged: Staged
    afresh: bool = False
    made: dict[PlannedManifest, EncodedManifest] = field(default_factory=dict)
    plan: PackingPlan | None = None
    encoded: list[EncodedManifest] = field(default_factory=list)

    def carry_out(self, make: Callable[[Mapping[int, Fraction]], PackingPlan]) -> PackingPlan:
        """Make the plan and encode it, again with measured sizes where it does not fit."""

        def planned(inflation: Mapping[int, Fraction]) -> Sequence[PlannedManifest]:
            self.plan = make(inflation)
            for symbol in self.plan.placements:
                self._source(symbol)
            return self.plan.written

        self.encoded = encoded_to_fit(self.configuration, planned, self._encode)
        assert self.plan is not None
        told = dataclasses.asdict(self.plan.metrics)
        told |= {"flipped": len(told["flipped"]), "released": len(self.plan.released)}
        emit("manifests.pack", **told)
        return self.plan

    def _encode(self, planned: PlannedManifest) -> EncodedManifest:
        if planned not in self.made:
            self.made[planned] = encode(planned, self.sources)
        return self.made[planned]

    def objects(self) -> list[tuple[str, bytes]]:
        """Return the manifests to write."""
        return [(each.name, each.data) for each in self.encoded]

    def entries(self) -> dict[int, tuple[ManifestEntry, ...]]:
        """Return the extents of each symbol of the closure afterwards."""
        assert self.plan is not None
        found: dict[int, tuple[ManifestEntry, ...]] = {}
        for symbol, placements in self.plan.placements.items():
            extents: list[ManifestEntry] = []
            for each in placements:
                if each.written is None:
                    extents += self.sources[symbol].between(each.start, each.stop)
                else:
                    extents.append(self.encoded[each.written].entries[symbol, each.start])
            found[symbol] = tuple(extents)
        return found

    def slice_ends(self, symbol: int) -> Sequence[int]:
        """Say where a symbol that is too big for one manifest can be cut."""
        return self._source(symbol).slice_ends(self._stays)

    def _source(self, symbol: int) -> PackedRows:
        if symbol not in self.sources:
            state = self.membership.state_of(symbol)
            self.sources[symbol] = PackedRows(state, state.manifests, self.staged)
        return self.sources[symbol]

    def _stays(self, extent: ManifestEntry, segments: int) -> bool:
        """Whether an extent is a manifest's worth of a big symbol, which a flush leaves whole."""
        if self.afresh or extent.set != DEFAULT_SET:
            return False
        members = self.membership.members_of(extent.reference.object)
        limit = self.configuration.set_named(DEFAULT_SET).max_segments
        return len(members) == 1 and (limit is None or segments <= limit)


def encoded_to_fit(
    configuration: ManifestConfiguration,
    make: Callable[[Mapping[int, Fraction]], Sequence[PlannedManifest]],
    encode_one: Callable[[PlannedManifest], EncodedManifest],
) -> list[EncodedManifest]:
    """Plan manifests and encode them, again with measured sizes until all keep their limits."""
    inflation: Mapping[int, Fraction] = {}
    while True:
        planned = make(inflation)
        encoded = []
        for number, each in enumerate(planned):
            encoded.append(encode_one(each))
            emit("manifests.encode", of=id(planned), done=number + 1, total=len(planned))
        lengths = [len(each.data) for each in encoded]
        more = oversized(configuration, planned, lengths, inflation)
        if not more:
            return encoded
        inflation = more


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


_ROUNDS = 3
"""So often all is packed again because leaves come out cut in other places. Where large leaves of
older stores are cut by a byte, that may not settle; another repacking finds what is left."""


@dataclass(frozen=True)
class RepackReport:
    """What a repacking did, or would do.

    Attributes
    ----------
    version
        The version that it made; the one looked at where nothing changed or nothing was to be done.
    dry_run
        Whether nothing was written.
    plan
        The manifests, and what it took.
    symbols
        How many symbols got other manifests.
    bytes_written
        Bytes of the manifests.
    """

    version: int
    dry_run: bool
    plan: PackingPlan
    symbols: int
    bytes_written: int

    def describe(self) -> Document:
        """Return the report as tables for people."""
        done = "would be" if self.dry_run else "were"
        counts = map(len, (self.plan.written, self.plan.kept, self.plan.released))
        row = (self.version, self.symbols, *counts, self.bytes_written)
        names = ("version", "symbols moved", "manifests written", "kept", "released", "bytes")
        summary = Table("repack", names, (row,), notes=(f"these {done} written",))
        return Document("repack", (summary, self.plan.describe()))


def repack_all(
    configuration: ManifestConfiguration,
    snapshot: Snapshot,
    manifest: OpenManifest,
) -> tuple[PackingPlan, list[tuple[str, bytes]], list[Repacking]]:
    """Plan and encode all manifests of a snapshot anew."""
    membership = SnapshotMembership(snapshot, manifest)
    staged = Staged(ManifestBuilder(), manifest)
    made: dict[PlannedManifest, EncodedManifest] = {}
    for _ in range(_ROUNDS):
        packing = CarriedOut(configuration, membership, {}, staged, afresh=True, made=made)
        plan = packing.carry_out(
            functools.partial(repack, configuration, membership, slice_ends=packing.slice_ends)
        )
        repackings = repackings_of(packing.entries(), membership)
        if not configuration.usual or _cut_as_thought(snapshot, membership, repackings):
            break
    return plan, packing.objects(), repackings


def _cut_as_thought(
    snapshot: Snapshot, membership: SnapshotMembership, repackings: Iterable[Repacking]
) -> bool:
    """Try a repacking on the symbol index; return whether its leaves are those packed for."""
    tried = Overlay(snapshot)
    for each in repackings:
        each.apply(tried, 0)
    return membership.cut_as(tried.leaves())

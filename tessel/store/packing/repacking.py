"""Packing all manifests of a version anew, as one commit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from tessel.display.documents import Document, Table
from tessel.lazy import dataclass
from tessel.store.history.changes import Repacking, apply
from tessel.store.history.snapshot import Snapshot
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.manifest.packing.pack import repack
from tessel.store.manifest.packing.plan import PackingPlan, PlannedManifest
from tessel.store.packing.carrying_out import CarriedOut, repackings_of
from tessel.store.packing.encoding import EncodedManifest
from tessel.store.packing.membership import SnapshotMembership
from tessel.store.packing.rows import Staged

__all__ = ["RepackReport", "repack_all"]

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
        summary = Table(
            "repack",
            ("version", "symbols moved", "manifests written", "kept", "released", "bytes"),
            (
                (
                    self.version,
                    self.symbols,
                    len(self.plan.written),
                    len(self.plan.kept),
                    len(self.plan.released),
                    self.bytes_written,
                ),
            ),
            notes=(f"these {done} written",),
        )
        return Document("repack", (summary, self.plan.describe()))


def repack_all(
    configuration: ManifestConfiguration,
    snapshot: Snapshot,
    manifest: Callable[[ManifestReference], Manifest],
) -> tuple[PackingPlan, list[tuple[str, bytes]], list[Repacking]]:
    """Plan and encode all manifests of a snapshot anew.

    Parameters
    ----------
    configuration
        Sets and rules.
    snapshot
        The version.
    manifest
        Opens a manifest.

    Returns
    -------
    tuple
        The plan, the objects to write, and what is to be committed.
    """
    membership = SnapshotMembership(snapshot, manifest)
    staged = Staged(ManifestBuilder())
    made: dict[PlannedManifest, EncodedManifest] = {}
    for _ in range(_ROUNDS):
        packing = CarriedOut(
            configuration, membership, {}, staged, manifest, afresh=True, made=made
        )
        plan = packing.carry_out(
            functools.partial(
                _planned, configuration=configuration, membership=membership, packing=packing
            )
        )
        repackings = repackings_of(packing.entries(), membership)
        if not configuration.usual or _cut_as_thought(snapshot, membership, repackings):
            break
    return plan, packing.objects(), repackings


def _planned(
    inflation: Mapping[int, Fraction],
    *,
    configuration: ManifestConfiguration,
    membership: SnapshotMembership,
    packing: CarriedOut,
) -> PackingPlan:
    return repack(configuration, membership, slice_ends=packing.slice_ends, inflation=inflation)


def _cut_as_thought(
    snapshot: Snapshot, membership: SnapshotMembership, repackings: Iterable[Repacking]
) -> bool:
    """Try a repacking on the symbol index; return whether its leaves are those packed for."""
    tried = snapshot.overlay()
    for each in repackings:
        apply(each, tried, 0)
    return membership.cut_as(tried.leaves())

"""Packing all manifests of a version anew, as one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tessel.display import Document, Table
from tessel.store.history import Repacking, Snapshot
from tessel.store.manifest import Manifest, ManifestBuilder, ManifestReference
from tessel.store.manifest.packing import ManifestConfiguration, PackingPlan, repack
from tessel.store.packing.flush import CarriedOut, repackings_of
from tessel.store.packing.membership import SnapshotMembership
from tessel.store.packing.rows import Staged

__all__ = ["RepackReport", "repack_all"]


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
    packing = CarriedOut(configuration, membership, {}, staged, manifest, afresh=True)
    plan = packing.carry_out(
        lambda inflation: repack(
            configuration, membership, slice_ends=packing.slice_ends, inflation=inflation
        )
    )
    return plan, packing.objects(), repackings_of(packing.entries(), membership)

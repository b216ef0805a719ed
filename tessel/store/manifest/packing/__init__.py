"""Manifest sets: which symbols share a manifest, decided and carried out at a commit.

What is planned (:func:`pack`, the tails of appends by :func:`plan_tails` and :func:`plan_folds`,
what to fetch at open by :func:`choose_preloads`) is pure: it is told of a snapshot through a
:class:`Membership`, and neither reads nor writes. A commit puts its snapshot before it as a lazy
:class:`SnapshotMembership`; what is decided is encoded, checked against the limits of bytes and
planned again where it does not fit; and the extents of the symbols are told where their rows went.
Transactions, ``repack`` and the preloading at open enter here.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "bins": "Placement",
        "configuration": "ManifestConfiguration ManifestRule ManifestSet Preload",
        "leaf_folds": "LEAF_TAILS LeafFold fold_start plan_leaf_fold",
        "membership": "Changes Membership Run SymbolContent estimate_bytes_per_segment",
        "pack": "Closure SliceEnds repack",
        "plan": "PackingMetrics PackingPlan Part PlannedManifest oversized",
        "preload": "PreloadCandidate choose_preloads",
        "snapshot_membership": "SnapshotMembership",
        "tails": "FAN_IN FoldPlan TailJoin plan_folds plan_tails should_fold",
        "validation": "DEFAULT_SET LARGEST_MANIFEST_BYTES LEAST_MANIFEST_BYTES",
    },
)

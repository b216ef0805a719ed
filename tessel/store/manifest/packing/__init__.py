"""Manifest sets: which symbols share a manifest, decided without reading or writing anything.

The history asks for a plan at each flush (:func:`pack`), for the tails of appends
(:func:`plan_tails`, :func:`plan_folds`) and for what to fetch at open (:func:`choose_preloads`),
and carries them out. Nothing here knows objects, formats or transactions.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "closure": "Closure",
        "configuration": "ManifestConfiguration ManifestRule ManifestSet Preload",
        "items": "Placement",
        "leaf_folds": "LEAF_TAILS LeafExtent LeafFold LeafSymbol fold_start plan_leaf_fold",
        "membership": (
            "Changes ManifestMembers Membership MembershipTable Run SymbolContent "
            "SymbolMembership estimate_bytes_per_segment"
        ),
        "pack": "SliceEnds repack",
        "plan": "PackingMetrics PackingPlan Part PlannedManifest oversized",
        "preload": "PreloadCandidate choose_preloads",
        "tails": "FAN_IN FoldPlan TailJoin plan_folds plan_tails should_fold",
        "validation": "DEFAULT_SET LARGEST_MANIFEST_BYTES LEAST_MANIFEST_BYTES",
    },
)

"""Manifest sets: which symbols share a manifest, decided without reading or writing anything.

The history asks for a plan at each flush (:func:`pack`), for the tails of appends
(:func:`plan_tails`, :func:`plan_folds`) and for what to fetch at open (:func:`choose_preloads`),
and carries them out. Nothing here knows objects, formats or transactions.
"""

from tessel.store.manifest.packing.closure import Closure
from tessel.store.manifest.packing.configuration import (
    ManifestConfiguration,
    ManifestRule,
    ManifestSet,
    Preload,
)
from tessel.store.manifest.packing.items import Placement
from tessel.store.manifest.packing.leaf_folds import (
    LEAF_TAILS,
    LeafExtent,
    LeafFold,
    LeafSymbol,
    fold_start,
    plan_leaf_fold,
)
from tessel.store.manifest.packing.membership import (
    Changes,
    ManifestMembers,
    Membership,
    MembershipTable,
    Run,
    SymbolContent,
    SymbolMembership,
    estimate_bytes_per_segment,
    only_adds_rows,
)
from tessel.store.manifest.packing.pack import SliceEnds, pack, repack
from tessel.store.manifest.packing.plan import (
    PackingMetrics,
    PackingPlan,
    Part,
    PlannedManifest,
    oversized,
)
from tessel.store.manifest.packing.preload import PreloadCandidate, choose_preloads
from tessel.store.manifest.packing.tails import (
    FAN_IN,
    FoldPlan,
    TailJoin,
    plan_folds,
    plan_tails,
    should_fold,
)
from tessel.store.manifest.packing.validation import (
    DEFAULT_SET,
    LARGEST_MANIFEST_BYTES,
    LEAST_MANIFEST_BYTES,
)

__all__ = [
    "DEFAULT_SET",
    "FAN_IN",
    "LARGEST_MANIFEST_BYTES",
    "LEAF_TAILS",
    "LEAST_MANIFEST_BYTES",
    "Changes",
    "Closure",
    "FoldPlan",
    "LeafExtent",
    "LeafFold",
    "LeafSymbol",
    "ManifestConfiguration",
    "ManifestMembers",
    "ManifestRule",
    "ManifestSet",
    "Membership",
    "MembershipTable",
    "PackingMetrics",
    "PackingPlan",
    "Part",
    "Placement",
    "PlannedManifest",
    "Preload",
    "PreloadCandidate",
    "Run",
    "SliceEnds",
    "SymbolContent",
    "SymbolMembership",
    "TailJoin",
    "choose_preloads",
    "estimate_bytes_per_segment",
    "fold_start",
    "only_adds_rows",
    "oversized",
    "pack",
    "plan_folds",
    "plan_leaf_fold",
    "plan_tails",
    "repack",
    "should_fold",
]

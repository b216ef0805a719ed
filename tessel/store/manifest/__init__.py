"""Segment index tables: what is known of segments without reading them.

The repository writes manifests and makes a :class:`SegmentIndex` of them; clauses prune it; a
:class:`SegmentSource` loads what is left.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "batch": "Batch Bound Computed Conjunct",
        "builder": "ManifestBuilder Move build_manifest join_manifests",
        "candidate_rows": "CandidateRows",
        "format": "ManifestReference",
        "index": "Drop SegmentIndex",
        "manifest": "Manifest",
        "opened_batch": "OpenedBatch",
        "piece": "PieceSource SegmentSource",
        "slice_statistics": "SliceStatistics",
        "stretch": "RowPart",
        "table": "Extent SegmentTable SliceFacts",
    },
)

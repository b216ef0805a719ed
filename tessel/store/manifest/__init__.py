"""Segment index tables: what is known of segments without reading them.

The repository writes manifests and makes a :class:`SegmentIndex` of them; clauses prune it; a
:class:`SegmentSource` loads what is left.
"""

from tessel.store.manifest.batch import Batch, Bound, Computed, Conjunct
from tessel.store.manifest.builder import (
    ManifestBuilder,
    Move,
    build_manifest,
    join_manifests,
)
from tessel.store.manifest.candidate_rows import CandidateRows
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.index import Drop, SegmentIndex
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.opened_batch import OpenedBatch
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.slice_statistics import SliceStatistics
from tessel.store.manifest.stretch import RowPart
from tessel.store.manifest.table import Extent, SegmentTable, SliceFacts

__all__ = [
    "Batch",
    "Bound",
    "CandidateRows",
    "Computed",
    "Conjunct",
    "Drop",
    "Extent",
    "Manifest",
    "ManifestBuilder",
    "ManifestReference",
    "Move",
    "OpenedBatch",
    "PieceSource",
    "RowPart",
    "SegmentIndex",
    "SegmentSource",
    "SegmentTable",
    "SliceFacts",
    "SliceStatistics",
    "build_manifest",
    "join_manifests",
]

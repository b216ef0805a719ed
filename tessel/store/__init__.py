"""Everything at rest: stores, versions, segments, and the index a query is planned on.

Queries enter through :meth:`Repository.view`: its :class:`SegmentIndex` is pruned without reading
data, and its :class:`SegmentSource` loads what is left, in this process or another. The rooms
below (objects, encodings, segment, manifest, history) are for the store itself.
"""

from tessel.store.encodings import decode_batch, encode_batch
from tessel.store.manifest import (
    CandidateRows,
    Drop,
    PieceSource,
    SegmentIndex,
    SegmentSource,
    SliceFacts,
    SliceStatistics,
)
from tessel.store.objects import ObjectStore, open_objects
from tessel.store.repository import Repository, SymbolView, Version
from tessel.store.transaction import Transaction

__all__ = [
    "CandidateRows",
    "Drop",
    "ObjectStore",
    "PieceSource",
    "Repository",
    "SegmentIndex",
    "SegmentSource",
    "SliceFacts",
    "SliceStatistics",
    "SymbolView",
    "Transaction",
    "Version",
    "decode_batch",
    "encode_batch",
    "open_objects",
]

"""Everything at rest: stores, versions, segments, and the index a query is planned on.

Queries enter through :meth:`Repository.view`: its :class:`SegmentIndex` is pruned without reading
data, and its :class:`SegmentSource` loads what is left, in this process or another. The rooms
below (objects, encodings, segment, manifest, history) are for the store itself.
"""

from tessel.store.difference import Difference, SegmentRows, SymbolDifference
from tessel.store.encodings import decode_batch, encode_batch
from tessel.store.encodings.distinct import expected_distinct
from tessel.store.history import MAIN
from tessel.store.index_column import (
    check_index_type,
    checked_order,
    index_integers,
    sorted_by,
)
from tessel.store.kept import Kept
from tessel.store.manifest import (
    Batch,
    Bound,
    CandidateRows,
    Computed,
    Conjunct,
    Drop,
    OpenedBatch,
    PieceSource,
    RowPart,
    SegmentIndex,
    SegmentSource,
    SliceFacts,
    SliceStatistics,
)
from tessel.store.merging import Run, merge_ordered
from tessel.store.objects import (
    AzureCredentials,
    CloudOptions,
    CredentialsSource,
    GoogleCredentials,
    ObjectStore,
    S3Credentials,
    address_of,
    open_address,
    open_objects,
)
from tessel.store.operations.gathering import aligned
from tessel.store.repository import Repository
from tessel.store.timeline import AsOf
from tessel.store.transaction import Transaction
from tessel.store.version import Version
from tessel.store.view import SymbolView

__all__ = [
    "MAIN",
    "AsOf",
    "AzureCredentials",
    "Batch",
    "Bound",
    "CandidateRows",
    "CloudOptions",
    "Computed",
    "Conjunct",
    "CredentialsSource",
    "Difference",
    "Drop",
    "GoogleCredentials",
    "Kept",
    "ObjectStore",
    "OpenedBatch",
    "PieceSource",
    "Repository",
    "RowPart",
    "Run",
    "S3Credentials",
    "SegmentIndex",
    "SegmentRows",
    "SegmentSource",
    "SliceFacts",
    "SliceStatistics",
    "SymbolDifference",
    "SymbolView",
    "Transaction",
    "Version",
    "address_of",
    "aligned",
    "check_index_type",
    "checked_order",
    "decode_batch",
    "encode_batch",
    "expected_distinct",
    "index_integers",
    "merge_ordered",
    "open_address",
    "open_objects",
    "sorted_by",
]

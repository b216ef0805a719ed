"""Everything at rest: stores, versions, segments, and the index a query is planned on.

Queries enter through :meth:`Repository.view`: its :class:`SegmentIndex` is pruned without reading
data, and its :class:`SegmentSource` loads what is left, in this process or another. The rooms
below (objects, encodings, segment, manifest, history) are for the store itself.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "difference": "Difference SegmentRows SymbolDifference",
        "history.refs": "MAIN",
        "index_column": "Run check_index_type checked_order index_integers merge_ordered sorted_by",
        "lru_cache": "LruCache",
        "manifest.batch": "Batch",
        "manifest.bindings": "Bindings Bound Computed Conjunct",
        "manifest.selected_rows": "SelectedRows",
        "manifest.index": "Drop SegmentIndex",
        "manifest.lazy_columns": "OpenedBatch",
        "manifest.piece": "PieceSource SegmentSource",
        "manifest.slice_statistics": "SliceStatistics",
        "manifest.selected_range": "SelectedPages",
        "objects.base": "ObjectStore",
        "objects.cloud_place": "CloudOptions",
        "objects.credentials": "AzureCredentials CredentialsSource GoogleCredentials S3Credentials",
        "objects.open": "address_of open_address open_objects",
        "operations.incoming": "aligned",
        "operations.write_ids": "StreamBatch",
        "repository": "Repository",
        "segment.statistics": "SliceFacts",
        "timeline": "AsOf Version",
        "transaction": "Transaction",
        "view": "SymbolView",
    },
)

"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "changes": (
            "Alteration Change Claim Edit MetadataChange Removal Rename Repacking Replacement "
            "SchemaChange Splice Tried apply resolved spliced"
        ),
        "diff": "changed_symbols",
        "history": "History",
        "identity": "open_store refuse_writes",
        "landed": "KINDS LandedChange LandedEdit TimeBounds",
        "leaves": "Leaf cut_leaf",
        "log": "ATTACHED LogEntry",
        "lookup": "Lookup Member",
        "rebase": "MATRIX Objection ReadRange",
        "refs": "MAIN Refs",
        "snapshot": "Overlay Snapshot",
        "symbol": "ManifestEntry SymbolPacking SymbolState coalesced rows_of",
        "versions": "Commit timestamp_of",
    },
)

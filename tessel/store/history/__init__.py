"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "changes": "Change Removal Repacking Replacement",
        "documents": "open_store",
        "history": "History",
        "committed_changes": "KINDS CommittedChange",
        "leaves": "Leaf",
        "log": "LogEntry",
        "rebase": "MATRIX",
        "snapshot": "Lookup Snapshot",
        "symbol": "ManifestEntry SymbolState",
        "versions": "Commit timestamp_of",
    },
)

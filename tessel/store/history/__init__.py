"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""

from tessel.store.history.changes import Change, Extension, LandedChange, Removal, Replacement
from tessel.store.history.history import Commit, History, timestamp_of
from tessel.store.history.identity import open_store, refuse_writes
from tessel.store.history.log import LogEntry
from tessel.store.history.snapshot import Snapshot
from tessel.store.history.symbol import ManifestEntry, SymbolState

__all__ = [
    "Change",
    "Commit",
    "Extension",
    "History",
    "LandedChange",
    "LogEntry",
    "ManifestEntry",
    "Removal",
    "Replacement",
    "Snapshot",
    "SymbolState",
    "open_store",
    "refuse_writes",
    "timestamp_of",
]

"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""

from tessel.store.history.changes import Change, Extension, LandedChange, Removal, Replacement
from tessel.store.history.diff import changed_symbols
from tessel.store.history.history import History
from tessel.store.history.identity import open_store, refuse_writes
from tessel.store.history.log import LogEntry
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.snapshot import Overlay, Snapshot
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.versions import Commit, timestamp_of

__all__ = [
    "MAIN",
    "Change",
    "Commit",
    "Extension",
    "History",
    "LandedChange",
    "LogEntry",
    "ManifestEntry",
    "Overlay",
    "Refs",
    "Removal",
    "Replacement",
    "Snapshot",
    "SymbolState",
    "changed_symbols",
    "open_store",
    "refuse_writes",
    "timestamp_of",
]

"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""

from tessel.store.history.changes import (
    Alteration,
    Change,
    Claim,
    Edit,
    MetadataChange,
    Removal,
    Rename,
    Repacking,
    Replacement,
    SchemaChange,
    Splice,
    Tried,
    apply,
    resolved,
    spliced,
)
from tessel.store.history.diff import changed_symbols
from tessel.store.history.history import History
from tessel.store.history.identity import open_store, refuse_writes
from tessel.store.history.landed import KINDS, LandedChange, LandedEdit, TimeBounds
from tessel.store.history.leaves import Leaf, cut_leaf
from tessel.store.history.log import ATTACHED, LogEntry
from tessel.store.history.lookup import Lookup, Member
from tessel.store.history.rebase import MATRIX, Objection, ReadRange
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.snapshot import Overlay, Snapshot
from tessel.store.history.symbol import (
    ManifestEntry,
    SymbolPacking,
    SymbolState,
    coalesced,
    rows_of,
)
from tessel.store.history.versions import Commit, timestamp_of

__all__ = [
    "ATTACHED",
    "KINDS",
    "MAIN",
    "MATRIX",
    "Alteration",
    "Change",
    "Claim",
    "Commit",
    "Edit",
    "History",
    "LandedChange",
    "LandedEdit",
    "Leaf",
    "LogEntry",
    "Lookup",
    "ManifestEntry",
    "Member",
    "MetadataChange",
    "Objection",
    "Overlay",
    "ReadRange",
    "Refs",
    "Removal",
    "Rename",
    "Repacking",
    "Replacement",
    "SchemaChange",
    "Snapshot",
    "Splice",
    "SymbolPacking",
    "SymbolState",
    "TimeBounds",
    "Tried",
    "apply",
    "changed_symbols",
    "coalesced",
    "cut_leaf",
    "open_store",
    "refuse_writes",
    "resolved",
    "rows_of",
    "spliced",
    "timestamp_of",
]

"""Stores that cannot be read or written."""

from __future__ import annotations

from tessel.errors.root import TesselError

__all__ = [
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptSegmentError",
    "CorruptStoreError",
    "FormatVersionError",
    "LeaseExpiredError",
    "NotAStoreError",
    "ReadOnlyStoreError",
    "RefExistsError",
    "ReferenceChangedError",
    "StoreAccessError",
    "StoreBusyError",
    "StoreError",
    "StoreExistsError",
]


class StoreError(TesselError, OSError):
    """A store that cannot be read or written."""

    kind = "store-failed"


class NotAStoreError(StoreError):
    """A place that holds something else; it is left as it is."""

    kind = "not-a-store"


class FormatVersionError(StoreError):
    """A store or file of a format version that this release does not read."""

    kind = "format-version"


class CorruptStoreError(StoreError):
    """An object of the store that is damaged or missing."""

    kind = "store-corrupt"


class CorruptSegmentError(CorruptStoreError):
    """A damaged segment; names object, column and page where they are known."""

    kind = "segment-corrupt"


class ReadOnlyStoreError(StoreError, PermissionError):
    """A write to a store that was opened read-only."""

    kind = "store-read-only"


class StoreExistsError(StoreError, FileExistsError):
    """A store where a new one was asked for."""

    kind = "store-exists"


class RefExistsError(StoreError, FileExistsError):
    """A branch or tag of a name that is in use, or that belonged to a deleted tag."""

    kind = "ref-exists"


class StoreAccessError(StoreError, PermissionError):
    """Credentials that are missing, expired, or not allowed to do what was asked."""

    kind = "store-access-denied"


class StoreBusyError(StoreError):
    """A store that answers "later" for longer than was waited."""

    kind = "store-busy"


class CommitConflictError(StoreError):
    """Another commit changed the same rows first; nothing of this one was written."""

    kind = "commit-conflict"


class CommitUnknownError(StoreError):
    """It is not known whether a commit landed; ``resolve`` of the store answers later."""

    kind = "commit-unknown"


class LeaseExpiredError(StoreError):
    """What a session wrote or read may have been collected: it took longer than its lease."""

    kind = "lease-expired"


class ReferenceChangedError(StoreError):
    """Data held elsewhere that is not what a reference says: shorter, or other bytes."""

    kind = "reference-changed"

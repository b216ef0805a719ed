"""Stores that cannot be read or written."""

from __future__ import annotations

import os
from typing import Self

from tessel.errors.root import TesselError

__all__ = [
    "CommitConflictError",
    "CommitUnknownError",
    "ConditionalWriteError",
    "CorruptSegmentError",
    "CorruptStoreError",
    "DiskFullError",
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

    @classmethod
    def for_no_connection(cls, error: OSError) -> Self:
        """Return the error of an event server that cannot accept connections for now."""
        return cls(
            f"no connection can be accepted for now: {error.strerror or error}",
            hint="raise the limit of open files (ulimit -n), or serve with fewer max_producers",
            errno=error.errno,
        )

    @classmethod
    def for_no_thread(cls, what: str) -> Self:
        """Return the error of a process that may have no more threads."""
        return cls(
            f"no thread can be started for {what}",
            hint="raise the limit of threads (ulimit -u), or serve with fewer max_producers",
        )

    @classmethod
    def for_file(cls, path: object, error: OSError) -> Self:
        """Make the error for a file or directory that the system does not give us."""
        return cls(
            f"{str(path)!r:.200} cannot be opened: {error.strerror or error}",
            hint="check the path and whether this user may read and write there",
            path=str(path),
        )


class NotAStoreError(StoreError):
    """A place that holds something else; it is left as it is."""

    kind = "not-a-store"

    @classmethod
    def for_special_file(cls, path: str) -> Self:
        """Return the error of a pipe, socket or device where a regular file should be."""
        return cls(
            f"{path!r} is a pipe, a socket or a device, and no regular file",
            hint="give the path of a regular file",
            path=path,
        )


class FormatVersionError(StoreError):
    """A store or file of a format version that this release does not read."""

    kind = "format-version"


class CorruptStoreError(StoreError):
    """An object of the store that is damaged or missing."""

    kind = "store-corrupt"

    @classmethod
    def for_events(cls, path: str | os.PathLike[str], at: int, what: str) -> Self:
        """Return the error of a damaged journal or dump, which is left as it is."""
        return cls(
            f"the events in {os.fspath(path)!r} are damaged at byte {at}: {what}",
            hint="restore the file from a copy, or take what is whole with "
            "LiveStore.load(path, salvage=True)",
            path=os.fspath(path),
            offset=at,
        )


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


class ConditionalWriteError(StoreError):
    """An object store that overwrites where it was told not to: commits would be lost there."""

    kind = "store-not-conditional"

    @classmethod
    def ignored(cls, uri: str, name: str) -> Self:
        """Make the error for a server that took the bytes of an object that exists."""
        return cls(
            f"the server of {uri!r} ignores If-None-Match: it was told to write {name!r} only if "
            "there is none, and overwrote it, with the same bytes; two writers would lose commits",
            hint="keep the store on a server with conditional writes: Amazon S3, Google Cloud "
            "Storage, Azure Blob Storage, or a release of this one that has them",
            uri=uri,
            object=name,
        )


class DiskFullError(StoreError):
    """The disk, or the quota of this user, has no room for an object; it was not written."""

    kind = "disk-full"

    @classmethod
    def at(cls, uri: str, name: str, number: int | None, *, reserve: bool) -> Self:
        """Make the error for an object that did not fit.

        Parameters
        ----------
        uri, name, number
            The store, the object, and the system's number of the error.
        reserve
            Whether the store still has its reserve.
        """
        means = "delete symbols or branches, expire versions, then gc(dry_run=False)"
        return cls(
            f"the disk of {uri!r} is full: object {name!r} was not written",
            hint=f"{means}: these work on a full disk, out of a reserve of the store"
            if reserve
            else f"make room for 1 MiB by other means, then {means}",
            uri=uri,
            object=name,
            errno=number,
        )


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

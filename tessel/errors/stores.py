"""Stores that cannot be read or written, and what was named in one but does not exist."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Self

from tessel.errors.names import nearest, shown, suggestion
from tessel.errors.root import TesselError

__all__ = [
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConditionalWriteError",
    "CorruptSegmentError",
    "CorruptStoreError",
    "DiskFullError",
    "FormatVersionError",
    "LeaseExpiredError",
    "NameNotFoundError",
    "NotAStoreError",
    "NotFoundError",
    "ReadOnlyStoreError",
    "RefExistsError",
    "RefNotFoundError",
    "ReferenceChangedError",
    "SnapshotExpiredError",
    "StoreAccessError",
    "StoreBusyError",
    "StoreError",
    "StoreNotFoundError",
    "SymbolNotFoundError",
    "UnknownVerbError",
    "VersionNotFoundError",
]


# Behind a comparison an unknown name is mostly text without its quotes.
_VALUE_FOLLOWS = re.compile(r"([=<>]|\b(like|matches))\s*$")


class NotFoundError(TesselError, LookupError, kind="not-found"):
    """Something that was named does not exist."""


class ColumnNotFoundError(NotFoundError, KeyError, kind="column-not-found"):
    """A column that was named does not exist."""

    @classmethod
    def for_name(
        cls,
        name: str,
        existing: Sequence[str],
        *,
        where: str | None = None,
        source: str | None = None,
        column: int | None = None,
    ) -> Self:
        """Make the error for an unknown column.

        Parameters
        ----------
        name, existing
            The name asked for and the columns that exist.
        where
            What it was looked for in, for instance ``'flights' (version 7)``.
        source, column
            The text it was written in and the 0-based place of the name in it; shown with a caret.
        """
        detail = None
        if source is not None:
            at = source.find(name) if column is None else column
            detail = source if at < 0 else f"{source}\n{' ' * at}{'^' * max(1, len(name))}"
        place = f" in {where}" if where else ""
        told = suggestion(name, existing, "columns")
        if source is not None and told["nearest"] is None and _VALUE_FOLLOWS.search(source, 0, at):
            told["hint"] = f"text stands in quotes: {name!r}   {told['hint']}"
        return cls(f"no column {name!r}{place}", detail=detail, column=name, **told)


class SymbolNotFoundError(NotFoundError, KeyError, kind="symbol-not-found"):
    """A symbol that was named does not exist at that version."""

    @classmethod
    def for_name(cls, name: str, existing: Sequence[str], *, version: int | None = None) -> Self:
        """Make the error for an unknown symbol; ``version`` says where it was looked for."""
        at = "" if version is None else f" at version {version}"
        return cls(
            f"no symbol {name!r} in the store{at}",
            symbol=name,
            **suggestion(name, existing, "symbols"),
        )


class VersionNotFoundError(NotFoundError, kind="version-not-found"):
    """A version that was asked for does not exist."""

    @classmethod
    def for_version(cls, version: object, *, newest: int) -> Self:
        """Make the error for an unknown version number."""
        told = shown(version)
        from_the_end = '; counted from the end: store.versions("trades")[-2]'
        return cls(
            f"no version {told} in the store",
            hint=f"versions run from 0 (empty) to {newest} (the newest)"
            + from_the_end * told.startswith("-"),
            version=told,
            newest=newest,
        )


class RefNotFoundError(VersionNotFoundError, kind="ref-not-found"):
    """A branch or tag that was named does not exist."""

    @classmethod
    def for_name(cls, what: str, name: str, existing: Sequence[str]) -> Self:
        """Make the error; ``what`` is ``"branch"`` or ``"tag"``."""
        plural = {"branch": "branches", "tag": "tags"}[what]
        return cls(
            f"no {what} {name!r} in the store",
            name=name,
            **suggestion(name, existing, plural),
        )

    @classmethod
    def for_text(cls, name: str, existing: Sequence[str], *, deleted: bool = False) -> Self:
        """Make the error for text that names no version; ``deleted`` where a tag had that name."""
        told = shown(name)
        if deleted:
            return cls(f"the tag {told} was deleted", hint="give the number of its version")
        found = suggestion(name, existing, "branches and tags")
        found["hint"] += "; a time is ISO text, as UTC: 2024-01-31, 2024-01-31T12:00"
        return cls(f"no branch or tag {told} in the store, and no date or time", name=name, **found)


class SnapshotExpiredError(VersionNotFoundError, kind="snapshot-expired"):
    """A version that existed and was given up by ``expire``."""

    @classmethod
    def for_version(cls, version: object, *, newest: int, oldest: int = 0) -> Self:
        """Make the error for a version before ``oldest``, the oldest one that is kept."""
        return cls(
            f"version {version} was expired",
            hint=f"versions {oldest} to {newest} are kept, and those that have a tag",
            version=str(version),
            oldest=oldest,
            newest=newest,
        )


class NameNotFoundError(NotFoundError, KeyError, kind="name-not-found"):
    """A clause, aggregate, executor or option that was named does not exist."""

    @classmethod
    def for_name(cls, what: str, name: str, existing: Sequence[str]) -> Self:
        """Make the error; ``what`` is the sort of thing in the singular, such as ``"clause"``."""
        plural = f"{what}es" if what.endswith("s") else f"{what}s"
        return cls(
            f"no {what} {name!r}",
            name=name,
            **suggestion(name, existing, plural),
        )


class UnknownVerbError(NotFoundError, AttributeError, kind="verb-not-found"):
    """A method that does not exist, of a store, a query, an expression or a result."""

    @classmethod
    def for_name(cls, name: str, existing: Sequence[str], owner: str = "a query") -> Self:
        """Make the error for a name that is none of the ``existing`` ones."""
        match = nearest(name, existing)
        return cls(
            f"{owner} has no {name!r}",
            hint=(f"did you mean {match!r}?   " if match else "")
            + f"it has: {', '.join(existing)}",
            name=name,
            nearest=match,
        )

    @classmethod
    def before_agg(cls, name: object, what: str, *, is_how: bool) -> Self:
        """Make the error for what is asked of groups before it is said what is computed of them.

        ``is_how`` tells that the name is that of an aggregate.
        """
        every = f'.agg("{name}") of all columns that can, ' if is_how and what != "windows" else ""
        if is_how and name == "size":
            is_how, every = False, '.agg(rows="count") counts rows, '
        how = name if is_how else "mean"
        one = f'.agg({how}=("price", "{how}")) of one'
        return cls(
            f"{what} have no {shown(name)}: they wait for agg",
            hint=f"say what is computed of each: {every}{one}, and go on behind it",
            name=str(name),
            nearest="agg",
        )

    @classmethod
    def before_collect(cls, name: str, verb: str) -> Self:
        """Make the error for a verb of queries that a result was asked for."""
        return cls(
            f"a result has no {name!r}: verbs stand before collect()",
            hint=f'store.scan("trades").{verb}.collect(); or to_polars(), to_pandas() and theirs',
            name=name,
        )

    @classmethod
    def foreign(cls, name: str, ours: str, example: str, remark: str) -> Self:
        """Make the error for a name that another system has for something of ours."""
        of_query = example.startswith("lazy.")
        what = repr(ours) if ours != name else "a verb of queries" if of_query else "of a store"
        return cls(
            f"{name!r} is {what} here",
            hint=example + (f"   {remark}" if remark else ""),
            name=name,
            nearest=ours,
        )


class StoreNotFoundError(NotFoundError, FileNotFoundError, kind="store-not-found"):
    """There is no store at a place: none was to be made, or it is gone since it was opened."""

    @classmethod
    def at(cls, uri: str, *, read_only: bool = False) -> Self:
        """Make the error for a place without a store; one opened ``read_only`` is never made."""
        way = "read_only=False" if read_only else "create=True"
        return cls(
            f"no store at {uri!r}",
            hint=f"check the path; open(…, {way}) makes one, as does `tessel import`",
            uri=uri,
        )

    @classmethod
    def gone(cls, uri: str) -> Self:
        """Make the error for a store that was open and is not there any more."""
        return cls(
            f"the store at {uri!r} is gone: it was open, and now there is nothing",
            hint="check whether the disk or share is mounted, or whether somebody deleted the "
            "store; it can be used on once it is back",
            uri=uri,
        )


class StoreError(TesselError, OSError, kind="store-failed"):
    """A store that cannot be read or written."""

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


class NotAStoreError(StoreError, kind="not-a-store"):
    """A place that holds something else; it is left as it is."""

    @classmethod
    def for_special_file(cls, path: str) -> Self:
        """Return the error of a pipe, socket or device where a regular file should be."""
        return cls(
            f"{path!r} is a pipe, a socket or a device, and no regular file",
            hint="give the path of a regular file",
            path=path,
        )


class FormatVersionError(StoreError, kind="format-version"):
    """A store or file of a format version that this release does not read."""


class CorruptStoreError(StoreError, kind="store-corrupt"):
    """An object of the store that is damaged or missing."""

    @classmethod
    def for_object(cls, name: str, what: str, **place: Any) -> Self:
        """Return the error of an object, of which a sentence that begins with its name is true."""
        hint = "restore the object from a copy of the store"
        return cls(f"{name} {what}", hint=hint, **{"object": name, **place})

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


class CorruptSegmentError(CorruptStoreError, kind="segment-corrupt"):
    """A damaged segment; names object, column and page where they are known."""


class ReadOnlyStoreError(StoreError, PermissionError, kind="store-read-only"):
    """A write to a store that was opened read-only."""


class RefExistsError(StoreError, FileExistsError, kind="ref-exists"):
    """A branch or tag of a name that is in use, or that belonged to a deleted tag."""


class StoreAccessError(StoreError, PermissionError, kind="store-access-denied"):
    """Credentials that are missing, expired, or not allowed to do what was asked."""


class StoreBusyError(StoreError, kind="store-busy"):
    """A store that answers "later" for longer than was waited."""


class ConditionalWriteError(StoreError, kind="store-not-conditional"):
    """An object store that overwrites where it was told not to: commits would be lost there."""

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


class DiskFullError(StoreError, kind="disk-full"):
    """The disk, or the quota of this user, has no room for an object; it was not written."""

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


class CommitConflictError(StoreError, kind="commit-conflict"):
    """Another commit changed the same rows first; nothing of this one was written."""


class CommitUnknownError(StoreError, kind="commit-unknown"):
    """It is not known whether a commit landed; ``resolve`` of the store answers later."""


class LeaseExpiredError(StoreError, kind="lease-expired"):
    """What a session wrote or read may have been collected: it took longer than its lease."""


class ReferenceChangedError(StoreError, kind="reference-changed"):
    """Data held elsewhere that is not what a reference says: shorter, or other bytes."""

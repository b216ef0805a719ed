"""The commit log: numbered entries, each written once; whoever writes an entry has won its number.

The reply to a put can be lost, so an entry carries a random commit id. On "exists already" and on
any error the writer reads the entry back: its own id means won, another one lost, no entry means
try again, and what cannot be read means that nobody knows: then nothing is touched.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tessel.errors import (
    CommitUnknownError,
    CorruptStoreError,
    NotFoundError,
    StoreError,
    TesselError,
)
from tessel.store.history.changes import LandedChange
from tessel.store.history.documents import (
    FORMAT,
    FORMAT_VERSION,
    Reference,
    check_format,
    damaged,
    seal,
    unseal,
)
from tessel.store.names import LOG, log_name, log_number
from tessel.store.objects import ObjectStore

__all__ = ["CommitLog", "LogEntry", "Outcome"]

_ATTEMPTS = 3
_LISTED = 16


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit.

    Attributes
    ----------
    number
        Dense, from 1 on: the version of the store after the commit.
    commit, parent
        Random id of this commit and of the one before; the first has no parent: ``""``.
    timestamp_us
        Microseconds since 1970 UTC, greater than the parent's whatever the clocks say.
    message
        What the writer said about it.
    snapshot
        The state after the commit.
    changes
        What it changed, one per symbol.
    """

    number: int
    commit: str
    parent: str
    timestamp_us: int
    message: str
    snapshot: Reference
    changes: tuple[LandedChange, ...]

    def to_bytes(self) -> bytes:
        """Return the entry as it is stored."""
        document: Mapping[str, Any] = {
            "format": FORMAT,
            "version": list(FORMAT_VERSION),
            "number": self.number,
            "commit": self.commit,
            "parent": self.parent,
            "timestamp_us": self.timestamp_us,
            "message": self.message,
            "snapshot": self.snapshot.to_json(),
            "changes": [change.to_json() for change in self.changes],
        }
        return seal(document)


class Outcome(enum.Enum):
    """What became of the attempt to write an entry."""

    WON = "won"
    LOST = "lost"


class CommitLog:
    """Reads and writes the entries of one store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def newest_number(self) -> int:
        """Return the number of the newest commit; 0 where there is none."""
        for name in self._objects.list(LOG, limit=_LISTED):
            number = log_number(name)
            if number is not None:
                return number
        return 0

    def read(self, number: int) -> LogEntry:
        """Return an entry.

        Raises
        ------
        CorruptStoreError
            When it is damaged or missing.
        FormatVersionError
            When another version of the format wrote it.
        """
        name = log_name(number)
        try:
            data = self._objects.get(name)
        except NotFoundError as error:
            raise CorruptStoreError(
                f"{name}, the log entry of version {number}, is missing",
                hint="restore the object from a copy of the store",
                object=name,
            ) from error
        fields = unseal(data, name)
        check_format(fields)
        if fields.integer("number") != number:
            damaged(name, f"it is the entry of version {fields.integer('number')}")
        return LogEntry(
            number,
            fields.text("commit"),
            fields.text("parent"),
            fields.integer("timestamp_us"),
            fields.text("message"),
            Reference.read(fields.fields("snapshot")),
            tuple(LandedChange.read(item) for item in fields.objects("changes")),
        )

    def put(self, entry: LogEntry) -> Outcome:
        """Try to write an entry; see the module's text for how the answer is found.

        Raises
        ------
        CommitUnknownError
            When it cannot be told whether the entry landed, or whether it will survive power loss.
        StoreError
            When the entry could not be written and did not land.
        """
        name, data = log_name(entry.number), entry.to_bytes()
        failure: StoreError | None = None
        for _ in range(_ATTEMPTS):
            failure = None
            try:
                if self._objects.put_if_absent(name, data):
                    return Outcome.WON
            except StoreError as error:
                failure = error
            try:
                found = self.read(entry.number)
            except TesselError as error:
                if isinstance(error.__cause__, NotFoundError):
                    continue
                raise _unknown(entry, str(error)) from error
            if found.commit != entry.commit:
                return Outcome.LOST
            if failure is not None and failure.attributes.get("landed") == "unknown":
                raise _unknown(entry, failure.message) from failure
            return Outcome.WON
        raise failure or _unknown(entry, "the entry exists and does not")


def _unknown(entry: LogEntry, why: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not known whether commit {entry.commit} landed as version {entry.number}: {why}",
        hint=f"nothing was deleted; resolve({entry.commit!r}) tells once the store can be read",
        commit=entry.commit,
        number=entry.number,
    )

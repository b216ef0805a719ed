"""Versions of a store: reading any of them, and landing new ones among other writers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tessel.errors import CommitConflictError, InvalidInputError, VersionNotFoundError
from tessel.store.history.changes import Change, apply, conflict
from tessel.store.history.documents import Reference, fetch, seal
from tessel.store.history.log import CommitLog, LogEntry, Outcome
from tessel.store.history.snapshot import Snapshot
from tessel.store.names import new_id, snapshot_name
from tessel.store.objects import ObjectStore, checksum

__all__ = ["Commit", "History", "timestamp_of"]

_KEPT_ENTRIES = 4096
_KEPT_SNAPSHOTS = 8
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of the store: its number, its log entry (none for version 0) and its state."""

    number: int
    entry: LogEntry | None
    snapshot: Snapshot


def timestamp_of(entry: LogEntry) -> datetime:
    """Return when a commit landed, in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=entry.timestamp_us)


class History:
    """The commits of one store; safe to use from several threads."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._log = CommitLog(objects)
        # Both never change once written, so what was read is kept, a bounded number of each.
        self._entries: dict[int, LogEntry] = {}
        self._snapshots: dict[str, Snapshot] = {}

    # --- reading ----------------------------------------------------------------------------------

    @property
    def newest_number(self) -> int:
        """The number of the newest commit; 0 for a store without any."""
        return self._log.newest_number()

    def newest(self) -> Commit:
        """Return the newest version."""
        return self._commit(self.newest_number)

    def at(self, number: int) -> Commit:
        """Return a version by number; ``VersionNotFoundError`` where there is none."""
        newest = self.newest_number
        if not 0 <= number <= newest:
            raise VersionNotFoundError.for_version(number, newest=newest)
        return self._commit(number)

    def as_of(self, moment: datetime) -> Commit:
        """Return the newest version that had landed at ``moment``, which has a time zone.

        Raises
        ------
        InvalidInputError
            For a moment without a time zone.
        """
        if moment.tzinfo is None:
            raise InvalidInputError(
                f"as_of={moment.isoformat()} has no time zone",
                hint="commits have instants: write datetime(…, tzinfo=datetime.UTC)",
            )
        low, high = 0, self.newest_number
        while low < high:
            middle = (low + high + 1) // 2
            if timestamp_of(self.entry(middle)) <= moment:
                low = middle
            else:
                high = middle - 1
        return self._commit(low)

    def entry(self, number: int) -> LogEntry:
        """Return the log entry of a version that exists."""
        found = self._entries.get(number)
        if found is None:
            found = self._entries[number] = self._log.read(number)
            _bound(self._entries, _KEPT_ENTRIES)
        return found

    def entries(self) -> Iterator[LogEntry]:
        """Yield all log entries, the newest first."""
        for number in range(self.newest_number, 0, -1):
            yield self.entry(number)

    def resolve(self, commit: str) -> int | None:
        """Return the version that a commit id landed as; None if it did not."""
        return next((entry.number for entry in self.entries() if entry.commit == commit), None)

    def _commit(self, number: int) -> Commit:
        if number == 0:
            return Commit(0, None, Snapshot())
        entry = self.entry(number)
        found = self._snapshots.get(entry.snapshot.object)
        if found is None:
            found = Snapshot.read(fetch(self._objects, entry.snapshot))
            self._snapshots[entry.snapshot.object] = found
            _bound(self._snapshots, _KEPT_SNAPSHOTS)
        return Commit(number, entry, found)

    # --- writing ----------------------------------------------------------------------------------

    def commit(self, base: Commit, changes: Sequence[Change], message: str) -> LogEntry:
        """Land changes that were made on ``base``, after whatever landed since.

        Everything the changes refer to has been written. Nothing is visible until the log entry
        is; on any error nothing is.

        Raises
        ------
        CommitConflictError
            When a newer commit changed the same rows.
        CommitUnknownError
            When it cannot be told whether the commit landed.
        """
        commit = new_id().hex()
        losses = 0
        while True:
            entry = self._attempt(base, changes, message, commit)
            if self._log.put(entry) is Outcome.WON:
                return entry
            losses += 1
            base = self._rebased(base, changes)
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**losses)
            time.sleep(random.uniform(0, pause))

    def _attempt(
        self, base: Commit, changes: Sequence[Change], message: str, commit: str
    ) -> LogEntry:
        number = base.number + 1
        symbols = dict(base.snapshot.symbols)
        landed = tuple(apply(change, symbols, number) for change in changes)
        data = seal(Snapshot(symbols).to_json())
        name = snapshot_name(new_id())
        self._objects.put_if_absent(name, data)
        parent = base.entry
        now = time.time_ns() // 1000
        return LogEntry(
            number,
            commit,
            "" if parent is None else parent.commit,
            now if parent is None else max(now, parent.timestamp_us + 1),
            message,
            Reference(name, len(data), checksum(data)),
            landed,
        )

    def _rebased(self, base: Commit, changes: Sequence[Change]) -> Commit:
        """Return the newest version, if the changes can land on it."""
        newest = self.newest()
        for number in range(base.number + 1, newest.number + 1):
            for theirs in self.entry(number).changes:
                for ours in changes:
                    reason = conflict(ours, theirs)
                    if reason is not None:
                        raise CommitConflictError(
                            f"version {number} came first: {reason}; nothing of this commit landed",
                            hint="read the symbol again and repeat the change",
                            symbol=ours.name,
                            version=number,
                        )
        return newest


def _bound(kept: dict[int, LogEntry] | dict[str, Snapshot], most: int) -> None:
    while len(kept) > most:
        kept.pop(next(iter(kept)), None)  # type: ignore[call-overload]

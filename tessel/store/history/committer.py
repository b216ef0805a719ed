"""Optimistic commits: draft an entry, upload its objects, try the next number, begin again.

What a draft refers to is uploaded side by side; then the log entry decides. After a loss the draft
is made anew on the newest entry, which costs the nodes it touches and the entry, no more.

That a number is free means that nobody has committed it only while entries are not collected. So
entries are left alone for ``ENTRY_AGE`` at least, and a writer that took long, because it was
stopped on the way for instance, looks once more at what it has won.

A writer that has lost many commits in a row asks for an advisory lock; nothing but fairness depends
on it. On a local disk it is a lock of a file (``flock``), which ends with the process that has it;
elsewhere writers pause at random. A writer that does not get the lock in time goes on without it:
the log alone decides who wins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tessel.errors import CommitUnknownError, CorruptStoreError
from tessel.lazy import dataclass
from tessel.store.history.documents import Reference, seal
from tessel.store.history.leaves import Leaf, Node
from tessel.store.history.log import LogEntry
from tessel.store.history.tree import NodeWriter
from tessel.store.history.versions import Versions, jump_from, seconds
from tessel.store.names import new_id, new_name
from tessel.store.objects.base import ObjectStore, checksum, put_all
from tessel.store.objects.local import TEMPORARY, LocalObjects

if TYPE_CHECKING:
    from tessel.store.history.committed_changes import CommittedChange
    from tessel.store.history.refs import Refs


ENTRY_AGE = timedelta(hours=6)
"""No collection takes a log entry that is younger, whatever age it was asked for."""

_SURE_SECONDS = 60.0
"""So long, and much less than an entry is left alone, a number that was free is free."""

_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.25
_LOSSES_BEFORE_LOCK = 8
_MOVED_BRANCHES = 16
"""So many branches are named in an entry as moved; beyond, the refs are written anew."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The part of an entry that depends on the versions before it.

    Attributes
    ----------
    parent
        The entry that it stands on; None for the empty version.
    root
        The root of its symbol index; nodes below may not be written yet.
    refs
        All branches and tags afterwards, apart from the branch of the entry itself; None where
        nothing changes but that branch.
    lookup
        The root of its lookup from manifests to symbols; None for that of the parent.
    objects
        What else is to be written before the entry: names and bytes.
    through
        Where all objects but the entry are put, in place of the objects of the store: the same
        place, watched.
    """

    branch: str
    parent: LogEntry | None
    root: Node
    changes: tuple[CommittedChange, ...] = ()
    refs: Refs | None = None
    lookup: Node | None = None
    objects: Sequence[tuple[str, bytes]] = ()
    through: ObjectStore | None = None


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The part of an entry that does not depend on the versions before it."""

    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    act: str = "commit"
    subject: str = ""


class Committer(Versions):
    """Versions, and the loop that commits another one."""

    def _commit(self, make: Callable[[LogEntry | None], Draft], header: EntryHeader) -> LogEntry:
        """Commit what ``make`` drafts for the newest entry, again after each loss.

        Whatever ``make`` raises ends it, with nothing committed.
        """
        commit = new_id().hex()
        losses = 0
        with contextlib.ExitStack() as locks:
            looked = seconds()
            head = self._probed_head()
            while True:
                entry = self._attempt(make(head), head, header, commit)
                if self._log.put(entry) and (
                    seconds() - looked < _SURE_SECONDS or self._stands(entry)
                ):
                    self._entries.put(entry.number, entry)
                    self._known = entry, looked
                    return entry
                losses += 1
                if losses == _LOSSES_BEFORE_LOCK:
                    locks.enter_context(advisory_lock(self._objects, "commit"))
                elif losses < _LOSSES_BEFORE_LOCK:
                    _pause(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**losses))
                looked = seconds()
                head = self.head()

    def _probed_head(self) -> LogEntry | None:
        """Return the newest entry; one lookup where nothing was committed since the last known."""
        known, looked = self._known
        # After long the next entry may be absent because it has been collected.
        lately = seconds() - looked < _SURE_SECONDS
        if known is not None and lately and not self._log.follows(known.number):
            return known
        return self.head()

    def _stands(self, entry: LogEntry) -> bool:
        """Whether an entry that was put late is the one of its number for all.

        The number may have been another writer's, whose entry was collected meanwhile.

        Raises CommitUnknownError when that can no longer be told.
        """
        head = self.head()
        if head is not None and self.refs_at(head).keeps(entry.number):
            return self._log.read(entry.number).commit == entry.commit
        try:
            return self._log.read(entry.number + 1).previous == entry.commit
        except CorruptStoreError as error:
            raise CommitUnknownError(
                f"commit {entry.commit} took so long that version {entry.number}, which it was to "
                "become, has expired meanwhile: it is not known whether it landed first",
                hint="compare the symbols as they are with what the commit should have done",
                commit=entry.commit,
                number=entry.number,
            ) from error

    def _attempt(
        self, draft: Draft, head: LogEntry | None, header: EntryHeader, commit: str
    ) -> LogEntry:
        number = 1 if head is None else head.number + 1
        writer, parent, lookup = NodeWriter(), draft.parent, draft.lookup
        root = writer.root(draft.root)
        if lookup is None:
            lookup = Leaf() if parent is None else parent.lookup
        lookup = writer.root(lookup)
        refs, moved, documents = self._refs_after(draft, head, number)
        place = self._objects if draft.through is None else draft.through
        put_all(place, [*draft.objects, *writer.objects(), *documents])
        self._nodes.put(writer.written)
        jump = jump_from(parent, self.entry, self.refs_at(head).oldest) if parent else 0
        now = time.time_ns() // 1000
        return LogEntry(
            number,
            commit,
            previous="" if head is None else head.commit,
            branch=draft.branch,
            parent=0 if parent is None else parent.number,
            depth=1 if parent is None else parent.depth + 1,
            jump=jump,
            timestamp_us=now if head is None else max(now, head.timestamp_us + 1),
            message=header.message,
            root=root,
            changes=draft.changes,
            act=header.act,
            subject=header.subject,
            refs=refs,
            moved=moved,
            metadata=header.metadata,
            lookup=lookup,
        )

    def _refs_after(
        self, draft: Draft, head: LogEntry | None, number: int
    ) -> tuple[Reference | None, dict[str, int], list[tuple[str, bytes]]]:
        """Return what the entry says of branches and tags, and the object to write for it."""
        refs = draft.refs
        if refs is None:
            moved = {} if head is None else {**head.moved, head.branch: head.number}
            moved.pop(draft.branch, None)
            if len(moved) <= _MOVED_BRANCHES:
                return None if head is None else head.refs, moved, []
            refs = self.refs_at(head)
        refs = refs.moved({draft.branch: number})
        name, data = new_name("refs"), seal(refs.to_json())
        return Reference(name, len(data), checksum(data)), {}, [(name, data)]


# --- the advisory lock ----------------------------------------------------------------------------

_LONGEST_WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.002
_LONGEST_PAUSE_INSTEAD_SECONDS = 0.5


def advisory_lock(objects: ObjectStore, name: str) -> AbstractContextManager[None]:
    """Return a context that waits for a lock and has it; ``name`` is lower-case letters."""
    if isinstance(objects, LocalObjects):
        return _locked(os.path.join(objects.uri, TEMPORARY, f"turn-{name}"))
    _pause(_LONGEST_PAUSE_INSTEAD_SECONDS)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            descriptor = None
        if descriptor is not None:
            stack.callback(os.close, descriptor)  # which ends the lock
            _wait_for_lock(descriptor)
        yield


def _wait_for_lock(descriptor: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _pause(2 * _POLL_SECONDS)
        except OSError:
            return  # a file system without locks
        else:
            return


def _pause(most_seconds: float) -> None:
    import random  # only who loses needs it

    time.sleep(random.uniform(0, most_seconds))

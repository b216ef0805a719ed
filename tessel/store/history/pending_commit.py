"""The changes of a commit that is not in the log yet, rebased onto each commit that comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tessel.errors import CommitConflictError, RefNotFoundError
from tessel.lazy import dataclass
from tessel.store.history.changes import Alteration, Change, Tried
from tessel.store.history.committed_changes import CommittedChange
from tessel.store.history.committer import Draft
from tessel.store.history.log import LogEntry
from tessel.store.history.rebase import Conflicting, Objection, ReadRange, read_conflict, rebase
from tessel.store.history.versions import Commit, Versions
from tessel.store.objects.base import ObjectStore


@dataclass
class PendingCommit:
    """The changes of one commit and the version they apply to; used by one thread."""

    versions: Versions
    base: Commit
    changes: Sequence[Change]
    reads: Sequence[ReadRange] = ()
    objects: Sequence[tuple[str, bytes]] = ()
    through: ObjectStore | None = None
    objections: Sequence[Objection] = ()
    tried: Tried | None = None

    def __post_init__(self) -> None:
        self._made_on, self._made = self.base, self.changes

    def draft(self, head: LogEntry | None) -> Draft:
        """Rebase the changes onto ``head``, and return what their log entry would be then.

        Raises CommitConflictError where they conflict with a commit that came first.
        """
        self._move_on(head)
        number = 1 if head is None else head.number + 1
        tried, self.tried = self.tried, None
        if tried is None or self.base is not self._made_on or tried.number != number:
            tried = Tried(self.base.snapshot.overlay(), number)
            tried.apply(self.changes)
        # What the first attempt writes is there for all others.
        objects, self.objects = self.objects, ()
        return Draft(
            self.base.branch,
            self.base.entry,
            tried.symbols.root(),
            tuple(tried.committed),
            lookup=tried.symbols.lookup(),
            objects=objects,
            through=self.through,
        )

    def _move_on(self, head: LogEntry | None) -> None:
        branch = self.base.branch
        try:
            tip = self.versions.tip(head, branch)
        except RefNotFoundError as error:
            raise CommitConflictError(
                f"branch {branch!r} was deleted meanwhile; nothing of this commit landed",
                hint="repeat the change on another branch",
                branch=branch,
            ) from error
        if tip == self.base.number or head is None:
            return
        newer = self._committed_since(head, tip)
        if newer is None:
            # What the changes were moved behind has left the line; that they were made on may not.
            self.base, self.changes = self._made_on, self._made
            newer = self._committed_since(head, tip)
        if newer is None:
            raise CommitConflictError(
                f"branch {branch!r} was set back behind version {self.base.number} meanwhile; "
                "nothing of this commit landed",
                hint="read the symbols again and repeat the change",
                branch=branch,
                version=tip,
            )
        for entry in newer:
            self._check(entry)
        self.base = self.versions.on_branch(tip, branch)

    def _committed_since(self, head: LogEntry, tip: int) -> list[LogEntry] | None:
        """Return the entries that were committed to the branch since the base, the oldest first.

        None where the base is not on the line that leads to the branch as it is.
        """
        base, branch = self.base.number, self.base.branch
        oldest = self.versions.refs_at(head).oldest
        newer: list[LogEntry] = []
        number = tip
        while number > base:
            if number < oldest and number != tip:
                raise CommitConflictError(
                    f"the versions of branch {branch!r} after version {base}, which this commit "
                    "was made on, have expired; nothing of it landed",
                    hint="read the symbols again and repeat the change",
                    branch=branch,
                    version=number,
                )
            newer.append(self.versions.entry(number))
            number = newer[-1].parent
        return newer[::-1] if number == base else None

    def _check(self, entry: LogEntry) -> None:
        """Rebase the changes onto an entry of the branch, and check what the transaction read."""
        for reading in self.reads:
            for theirs in entry.changes:
                reason = read_conflict(reading, theirs)
                if reason is not None:
                    raise _conflict(entry, reason, reading.name)
        for objection in self.objections:
            objected = objection(entry)
            if objected is not None:
                raise _conflict(entry, *objected)
        by_name = defaultdict(list)
        for theirs in entry.changes:
            for name in theirs.names:
                by_name[name].append(theirs)
        self.changes = [self._after(ours, entry, by_name[ours.name]) for ours in self.changes]

    def _after(self, ours: Change, entry: LogEntry, same_name: Sequence[CommittedChange]) -> Change:
        # Only what renames can meet a change of another name.
        renames = isinstance(ours, Alteration) and ours.to is not None
        for theirs in entry.changes if renames else same_name:
            try:
                ours = rebase(ours, theirs)
            except Conflicting as reason:
                raise _conflict(entry, str(reason), ours.name) from None
        return ours


def _conflict(entry: LogEntry, reason: str, symbol: str) -> CommitConflictError:
    return CommitConflictError(
        f"version {entry.number} came first: {reason}; nothing of this commit landed",
        hint="read the symbol again and repeat the change",
        symbol=symbol,
        version=entry.number,
    )

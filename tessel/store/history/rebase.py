"""The conflict matrix: whether a change can be rebased onto another one, and what becomes of it.

Changes of different symbols never conflict. For two changes of one symbol :data:`MATRIX` says what
happens to ours when theirs came first; ``docs/changing-data.md`` explains it to users, and a test
compares the two. Where it says *rows*, their positions and times decide:

* Edits of different rows both land; ours is moved by as many rows as theirs grew before it.
* Edits that take out the same rows, or put rows between rows that the other takes out, conflict.
* Where two edits touch, the rows that both put in need an order: their positions give it, unless
  both put rows into the same gap; an index, where there is one, must agree. Else they conflict.
* Rows for the end go to the end of what is there now, if their index does not go back.
* An edit may claim a range of the index (an update claims what it covers): rows that theirs put
  there conflict.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tessel.errors import CommitConflictError, RefNotFoundError
from tessel.lazy import dataclass
from tessel.store.history.changes import Alteration, Change, Claim, Edit, Repacking, Tried
from tessel.store.history.committed_changes import (
    DONE,
    KINDS,
    ROW_KINDS,
    CommittedChange,
    CommittedEdit,
)
from tessel.store.history.committer import Draft
from tessel.store.history.log import LogEntry
from tessel.store.history.snapshot import Overlay
from tessel.store.history.versions import Commit, Versions
from tessel.store.objects.base import ObjectStore

_CONFLICT, _LANDS, _ROWS = "conflict", "lands", "rows"

_SCHEMA = ("rename column", "add column", "drop column", "widen")
_ROWS_OF_USERS = ("append", "update", "upsert", "delete rows")


def _matrix() -> dict[tuple[str, str], str]:
    # Compacting changes no answer: everything lands after it, but what replaces the same extents.
    lands = (
        (_ROWS_OF_USERS, ("rename column", "add column", "widen", "metadata")),
        (("metadata", *_SCHEMA), _ROWS_OF_USERS),
        (("metadata",), (*_SCHEMA, "fill column")),
        ((*_SCHEMA, "fill column"), ("metadata",)),
        (("compact",), (*_SCHEMA, "metadata")),
        (KINDS, ("compact",)),
    )
    by_rows = ((_ROWS_OF_USERS, _ROWS_OF_USERS), (("compact",), (*_ROWS_OF_USERS, "compact")))
    matrix = dict.fromkeys(itertools.product(KINDS, KINDS), _CONFLICT)
    for listed, outcome in ((lands, _LANDS), (by_rows, _ROWS)):
        for ours, theirs in listed:
            matrix |= dict.fromkeys(itertools.product(ours, theirs), outcome)
    return matrix | {("fill column", "compact"): _CONFLICT}


MATRIX: Mapping[tuple[str, str], str] = _matrix()
"""What becomes of ours (first) after theirs (second): ``"lands"``, ``"conflict"`` or ``"rows"``."""


class Conflicting(Exception):  # noqa: N818 - an answer, not an error
    """Ours cannot be rebased onto theirs; the reason is the text. It never leaves the store."""


# --- our changes after theirs ---------------------------------------------------------------------


def rebase(ours: Change, theirs: CommittedChange) -> Change:
    """Return our change rebased onto theirs.

    Raises Conflicting where it cannot.

    Parameters
    ----------
    ours
        Made on the version before theirs.
    """
    taken = {ours.name}
    if isinstance(ours, Alteration) and ours.to is not None:
        taken.add(ours.to)
    if taken.isdisjoint(theirs.names) or isinstance(ours, Repacking):
        return ours
    if ours.name not in theirs.names:
        if set(theirs.kinds) == {"compact"}:
            # That neither makes a symbol nor takes a name: ours made the name free, and still does.
            return ours
        name = next(name for name in theirs.names if name in taken)
        raise Conflicting(f"symbol {name!r}, whose name was to be taken, {DONE[theirs.kinds[0]]}")
    for mine in ours.kinds:
        for kind in theirs.kinds:
            if MATRIX[mine, kind] == _CONFLICT:
                raise Conflicting(f"symbol {ours.name!r} {DONE[kind]}")
    return _moved(ours, theirs)


def _moved(ours: Change, theirs: CommittedChange) -> Change:
    if not isinstance(ours, Alteration) or not ours.row_kinds or ROW_KINDS.isdisjoint(theirs.kinds):
        return ours
    if set(theirs.kinds) == {"compact"} and ours.row_kinds != ("compact",):
        return ours
    what = DONE[next(kind for kind in theirs.kinds if kind in ROW_KINDS)]
    try:
        for claim in ours.claims:
            _check_claim(claim, theirs.edits)
        edits = [_edit_after(edit, theirs) for edit in ours.edits]
    except Conflicting as error:
        raise Conflicting(f"symbol {ours.name!r} {what}{error}") from None
    return dataclasses.replace(ours, edits=_joined(edits))


def _edit_after(ours: Edit, theirs: CommittedChange) -> Edit:
    if ours.at_end:
        for edit in theirs.edits:
            if edit.inserted and not _may_follow(edit.last_time, ours.first_time):
                raise Conflicting(" with later times than ours")
        return ours.moved(theirs.rows)
    shift = sum(edit.growth for edit in theirs.edits if _comes_first(edit, ours))
    return ours.moved(ours.start + shift)


def _comes_first(theirs: CommittedEdit, ours: Edit) -> bool:
    """Return whether their edit lies before ours; raise where neither lies before the other."""
    if theirs.stop < ours.start:
        return True
    if ours.stop < theirs.start:
        return False
    if theirs.start == theirs.stop == ours.start == ours.stop:
        return _first_in_gap(theirs, ours)
    if theirs.stop <= ours.start:
        first, in_order = True, _may_follow(theirs.last_time, ours.first_time)
    elif ours.stop <= theirs.start:
        first, in_order = False, _may_follow(ours.last_time, theirs.first_time)
    else:
        raise Conflicting(": the same rows")
    if theirs.inserted and ours.extents and not in_order:
        raise Conflicting(" next to ours, with times out of order")
    return first


def _first_in_gap(theirs: CommittedEdit, ours: Edit) -> bool:
    """Return whether their rows come before ours, where both go between the same two rows."""
    if None not in (theirs.first_time, theirs.last_time, ours.first_time, ours.last_time):
        if _may_follow(theirs.last_time, ours.first_time):
            return True
        if _may_follow(ours.last_time, theirs.first_time):
            return False
    raise Conflicting(" at the place where ours go")


def _may_follow(last: int | None, first: int | None) -> bool:
    """Return whether rows can follow others; times are None for symbols without an index."""
    return last is None or first is None or last <= first


def _check_claim(claim: Claim, edits: Iterable[CommittedEdit]) -> None:
    low, high = claim
    for edit in edits:
        if not edit.inserted:
            continue
        before = low is not None and edit.last_time is not None and edit.last_time < low
        after = high is not None and edit.first_time is not None and edit.first_time > high
        if not before and not after:
            raise Conflicting(" in the range that ours cover")


def _joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Join the edits that touch now that rows between them are gone."""
    joined: list[Edit] = []
    for edit in edits:
        before = joined[-1] if joined else None
        if before is None or before.stop < edit.start or edit.at_end:
            joined.append(edit)
            continue
        extents = (*before.extents, *edit.extents)
        touched = None
        if before.touched is not None and edit.touched is not None:
            (low, high), (other_low, other_high) = before.touched, edit.touched
            touched = min(low, other_low), max(high, other_high)
        joined[-1] = Edit(before.start, edit.stop, extents, touched)
    return tuple(joined)


Objection = Callable[[LogEntry], tuple[str, str] | None]
"""Says why a commit cannot be rebased onto an entry, and for which symbol; None where it can."""


# --- what a transaction read ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What a serializable transaction read of a symbol, on the version it was made on.

    Without ``rows`` and ``times``, everything was read.

    Attributes
    ----------
    name
        The symbol, whether or not there was one.
    rows
        Positions ``[start, stop)``.
    times
        Index values ``[from, to]``; None is no bound.
    """

    name: str
    rows: tuple[int, int] | None = None
    times: Claim | None = None


def read_conflict(read: ReadRange, theirs: CommittedChange) -> str | None:
    """Return why what was read is no longer so after theirs, or None where it is."""
    if read.name not in theirs.names:
        return None
    for kind in theirs.kinds:
        if kind in ("metadata", "compact"):
            continue
        if kind not in _ROWS_OF_USERS:
            return f"symbol {read.name!r}, which was read, {DONE[kind]}"
        if any(_was_read(read, edit) for edit in theirs.edits):
            return f"symbol {read.name!r} {DONE[kind]}, among those that were read"
    return None


def _was_read(read: ReadRange, edit: CommittedEdit) -> bool:
    if read.rows is not None:
        start, stop = read.rows
        # What lies before the rows that were read changes them where it moves them.
        return edit.start < stop and (edit.stop > start or edit.growth != 0)
    if read.times is None or edit.touched is None:
        return True
    (low, high), (first, last) = read.times, edit.touched
    return (low is None or last >= low) and (high is None or first <= high)


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
            tried = Tried(Overlay(self.base.snapshot), number)
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

"""Reading versions: by number, branch, tag or instant; nothing here writes.

Each entry knows its parent and one version further back, its *jump*, chosen so that any version is
reached in a number of steps that grows with the logarithm of the distance (Myers 1983, "An
applicative random-access stack"): at depth d, the jump removes the smallest term of d as a sum of
numbers 2ᵏ - 1. Nothing else is stored, and no entry is ever changed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    NotFoundError,
    RefNotFoundError,
    SnapshotExpiredError,
    VersionNotFoundError,
)
from tessel.errors.arguments import refuses
from tessel.expression.periods import last_moment
from tessel.lazy import dataclass
from tessel.store.history.documents import fetch
from tessel.store.history.log import CommitLog, LogEntry
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.snapshot import Snapshot
from tessel.store.history.tree import Nodes
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore

_CACHED_ENTRIES = 512
_CACHED_REFS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of the store.

    Attributes
    ----------
    number
        Its number; 0 for the empty version that every store begins with.
    entry
        Its log entry; None for version 0.
    branch
        The branch that it was looked up on, which changes made on it go to.
    """

    number: int
    entry: LogEntry | None
    snapshot: Snapshot
    branch: str

    if not TYPE_CHECKING:  # for those who try
        __lt__ = __le__ = __gt__ = __ge__ = __int__ = __sub__ = refuses(
            "a {} is compared by its number", "its .number is an integer"
        )


def seconds() -> float:
    """Return a clock that never goes back and runs on while the machine sleeps, if it has one."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def timestamp_of(entry: LogEntry) -> datetime:
    """Return the time of a commit, in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=entry.timestamp_us)


class Versions:
    """The versions of one store, to read; safe to use from several threads."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._log = CommitLog(objects)
        self._nodes = Nodes(objects)
        # Neither ever changes once written, so what was read is kept, a bounded number of each.
        self._entries: LruCache[int, LogEntry] = LruCache(_CACHED_ENTRIES)
        self._refs: LruCache[str, Refs] = LruCache(_CACHED_REFS)
        self._known: tuple[LogEntry | None, float] = None, 0.0
        """The newest entry as far as known, and when it was looked up."""
        self.leased: Counter[int] = Counter()
        """Versions that are read even when they have expired, because a lease keeps them."""

    # --- the log ----------------------------------------------------------------------------------

    @property
    def newest_number(self) -> int:
        """The newest version of the store, on whatever branch; 0 where nothing was committed."""
        return self._log.newest_number()

    def head(self) -> LogEntry | None:
        """Return the newest entry of the log; None where there is none."""
        looked = seconds()
        number = self._log.newest_number()
        found = self.entry(number) if number else None
        self._known = found, looked
        return found

    @property
    def known_head(self) -> LogEntry | None:
        """The newest entry that was seen; nothing is read."""
        return self._known[0]

    def entry(self, number: int) -> LogEntry:
        """Return the log entry of a version that is kept.

        Raises CorruptStoreError when it is damaged or missing; SnapshotExpiredError when it is
        missing because it was given up meanwhile.
        """
        found = self._entries.get(number)
        if found is None:
            try:
                found = self._log.read(number)
            except CorruptStoreError as error:
                if isinstance(error.__cause__, NotFoundError) and number != self.newest_number:
                    self._check_kept(self.head(), number)
                raise
            self._entries.put(number, found)
        return found

    def entries(self) -> Iterator[LogEntry]:
        """Yield the log entries that are kept, of all branches, the newest first."""
        head = self.head()
        if head is not None:
            oldest = max(1, self.refs_at(head).oldest)
            for number in range(head.number, oldest - 1, -1):
                yield self.entry(number)

    def resolve(self, commit: str) -> int | None:
        """Return the version that a commit id became; None if it did not.

        Raises SnapshotExpiredError when it may have become a version that has expired.
        """
        number = 0
        for entry in self.entries():
            number = entry.number
            if entry.commit == commit:
                return number
        if number > 1:
            what = f"of commit {commit}, if it landed before version {number},"
            newest = self.newest_number
            raise SnapshotExpiredError.for_version(what, newest=newest, oldest=number)
        return None

    # --- branches and tags ------------------------------------------------------------------------

    def refs(self) -> Refs:
        """Return all branches and tags as they are."""
        return self.refs_at(self.head())

    def refs_at(self, entry: LogEntry | None) -> Refs:
        """Return all branches and tags as they were after an entry."""
        if entry is None:
            return Refs()
        written, reference = Refs(), entry.refs
        if reference is not None:
            written = self._refs.get_or_make(
                reference.object, lambda: Refs.read(fetch(self._objects, reference))
            )
        return written.moved({**entry.moved, entry.branch: entry.number})

    def tip(self, head: LogEntry | None, branch: str) -> int:
        """Return the newest version of a branch as ``head`` has it; refs are read if needed."""
        if head is None:
            return Refs().branch(branch)
        if branch == head.branch:
            return head.number
        return head.moved.get(branch) or self.refs_at(head).branch(branch)

    # --- versions ---------------------------------------------------------------------------------

    def newest(self, branch: str = MAIN) -> Commit:
        """Return the newest version of a branch; ``RefNotFoundError`` where there is none."""
        return self.on_branch(self.tip(self.head(), branch), branch)

    def at(self, number: int, branch: str = MAIN) -> Commit:
        """Return a version by number, whatever branch it was made on.

        Raises VersionNotFoundError for a number that no version has; SnapshotExpiredError for a
        version that was given up.
        """
        head = self.head()
        newest = 0 if head is None else head.number
        if not 0 <= number <= newest:
            raise VersionNotFoundError.for_version(number, newest=newest)
        self._check_kept(head, number)
        return self.on_branch(number, branch)

    def named(self, name: str, branch: str = MAIN) -> Commit:
        """Return the version of a tag, the newest one of a branch, or that of ISO text.

        A date, or a part of a time, is its last instant. ``RefNotFoundError`` for other text and
        for the name of a deleted tag, which may have looked like a date.
        """
        refs = self.refs()
        number = refs.tags.get(name, refs.branches.get(name))
        if number is not None:
            return self.on_branch(number, branch)
        moment = None if name in refs.retired else last_moment(name)
        if moment is None:
            raise RefNotFoundError.for_text(
                name, sorted([*refs.branches, *refs.tags]), deleted=name in refs.retired
            )
        return self.as_of(moment, branch)

    def as_of(self, moment: datetime, branch: str = MAIN) -> Commit:
        """Return the newest version at ``moment`` on the line that led to a branch as it is.

        A branch that was set back has forgotten what it was set back over. The instant is found
        by halving the log, the version by jumps along the line: the number of entries read grows
        with the logarithm of the versions there are.

        Raises InvalidInputError for a moment without a time zone; SnapshotExpiredError for a moment
        before the oldest version that is kept.
        """
        if moment.tzinfo is None:
            raise InvalidInputError(
                f"as_of={moment.isoformat()} has no time zone",
                hint="commits have instants: write datetime(…, tzinfo=datetime.UTC)",
            )
        head = self.head()
        tip = self.tip(head, branch)
        if not tip:
            return self.on_branch(0, branch)
        oldest = self.refs_at(head).oldest
        if tip <= oldest:  # a line that ends before what is kept is kept by its end alone
            low, high = tip - 1, tip
        else:
            low, high = max(0, oldest - 1), tip
        found = self.newest_by(moment, low, high)
        if found == low and low > 0:
            raise SnapshotExpiredError.for_version(
                f"of {moment.isoformat()}", newest=tip, oldest=oldest
            )
        number = self._ancestor(self.entry(tip), found)
        self._check_kept(head, number)
        return self.on_branch(number, branch)

    def newest_by(self, moment: datetime, low: int, high: int) -> int:
        """Return the newest version at an instant, on whatever branch; ``low`` is taken for one."""
        while low < high:
            middle = (low + high + 1) // 2
            if timestamp_of(self.entry(middle)) <= moment:
                low = middle
            else:
                high = middle - 1
        return low

    def line(self, start: Commit) -> Iterator[LogEntry]:
        """Yield the versions that led to one, the newest first, as far as they are kept."""
        oldest = max(1, self.refs().oldest)
        entry = start.entry
        while entry is not None:
            yield entry
            entry = self.entry(entry.parent) if entry.parent >= oldest else None

    def _ancestor(self, start: LogEntry, number: int) -> int:
        """Return the newest version not after ``number`` on the line that ends in ``start``.

        Only entries after ``number`` are read.
        """
        while start.number > number:
            if start.jump > number:
                start = self.entry(start.jump)
            elif start.parent > number:
                start = self.entry(start.parent)
            else:
                return start.parent
        return start.number

    def _check_kept(self, head: LogEntry | None, number: int) -> None:
        if head is None or number == head.number or self.leased[number] > 0:
            return
        refs = self.refs_at(head)
        if not refs.keeps(number):
            raise SnapshotExpiredError.for_version(number, newest=head.number, oldest=refs.oldest)

    def on_branch(self, number: int, branch: str) -> Commit:
        """Return a version that exists, as what changes of a branch are made on."""
        if number == 0:
            return Commit(0, None, Snapshot(self._nodes), branch)
        entry = self.entry(number)
        return Commit(number, entry, Snapshot(self._nodes, entry.root, entry.lookup), branch)


def jump_from(parent: LogEntry, entry: Callable[[int], LogEntry], oldest: int) -> int:
    """Return the jump of a version made on ``parent``; 0 where it would be before ``oldest``."""
    rest, term = parent.depth + 1, 0
    while rest:
        term = (1 << (rest + 1).bit_length() - 1) - 1
        rest -= term
    if term == 1:
        return parent.number
    return entry(parent.jump).jump if parent.jump >= max(1, oldest) else 0

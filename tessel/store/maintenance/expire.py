"""Expiry: versions are given up, so that a collection may take what only they refer to.

It is one entry of the log, like every change of a store: it lands or it does not, and everybody
sees it in the same place. The oldest version that is kept moves forward and never back.

The rule: with ``oldest`` the versions from it on are kept, whole and without gaps, and so are their
log entries; before it, only versions with a tag and the newest ones of branches. An expired version
raises ``SnapshotExpiredError``, whether or not its objects are still there. ``as_of`` an instant
answers from ``oldest`` on, on each branch. A commit that was made on a version before it, and would
have to be compared with changes that have expired, is refused as a conflict.

The repository enters here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tessel.errors import InvalidInputError, VersionNotFoundError
from tessel.expression.scalars import moment_of, time_span_of, whole_number
from tessel.lazy import dataclass
from tessel.store.history.history import History
from tessel.store.history.log import LogEntry
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.versions import timestamp_of

OlderThan = int | datetime | timedelta
"""Versions before a number; before the one that was the newest at an instant; or an age ago."""


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """Which versions were given up, or would be.

    Attributes
    ----------
    dry_run
        Whether nothing was to be changed.
    oldest_before, oldest
        The oldest version that is kept, besides those with a tag and the newest ones of branches:
        until now, and from now on.
    expired
        How many versions are given up.
    kept
        Versions before ``oldest`` that are kept for a tag or as the newest of a branch.
    oldest_time
        When ``oldest`` landed; None where there is no version.
    version
        The version that the expiry became; None where nothing was to be done, or changed.
    """

    dry_run: bool
    oldest_before: int
    oldest: int
    expired: int
    kept: tuple[int, ...]
    oldest_time: datetime | None
    version: int | None

    def __str__(self) -> str:
        if not self.expired:
            return f"nothing to expire: versions from {self.oldest} on are kept"
        verb = "would expire" if self.dry_run else "expired"
        beside = f"; of those before it {len(self.kept)} are kept too" if self.kept else ""
        return f"{self.expired} versions {verb}, version {self.oldest} is the oldest{beside}"


def expire(history: History, older_than: OlderThan, *, dry_run: bool = True) -> ExpiryReport:
    """Give up the versions before one, besides those with a tag and the newest ones of branches.

    Raises InvalidInputError for something else; VersionNotFoundError for a number that no version
    has.

    Parameters
    ----------
    older_than
        A version number, which is kept itself; an instant with a time zone, or an age: the version
        that was the newest then, on whatever branch, is the oldest that is kept.
    """
    head = history.head()
    refs = history.refs_at(head)
    number = _number(history, head, refs, older_than)
    landed: int | None = None
    if number > max(1, refs.oldest) and not dry_run:
        landed = history.expire_before(number).number
    return _report(history, head, refs, number, landed, dry_run=dry_run)


def _report(
    history: History,
    head: LogEntry | None,
    refs: Refs,
    number: int,
    landed: int | None,
    *,
    dry_run: bool,
) -> ExpiryReport:
    before = max(1, refs.oldest)
    # The main branch gets a newer version by the expiry itself.
    others = (at for branch, at in refs.branches.items() if branch != MAIN)
    pinned = {*refs.tags.values(), *others}
    oldest = max(before, number)
    return ExpiryReport(
        dry_run=dry_run,
        oldest_before=before,
        oldest=oldest,
        expired=oldest - before - sum(before <= at < oldest for at in pinned),
        kept=tuple(sorted(at for at in pinned if 0 < at < oldest)),
        oldest_time=None if head is None else timestamp_of(history.entry(oldest)),
        version=landed,
    )


def _number(history: History, head: LogEntry | None, refs: Refs, older_than: OlderThan) -> int:
    """Return the oldest version to keep; 0 or one before the oldest kept where all stay."""
    newest = 0 if head is None else head.number
    number = whole_number(older_than)
    if number is not None:
        if not 0 <= number <= newest:
            raise VersionNotFoundError.for_version(number, newest=newest)
        return number
    return history.newest_by(_moment(older_than), max(0, refs.oldest - 1), newest)


def _moment(older_than: object) -> datetime:
    moment, age = moment_of(older_than), time_span_of(older_than)
    if age is not None:
        if age < timedelta(0):
            raise InvalidInputError(f"older_than={older_than!r} is no age: it is negative")
        try:
            return datetime.now(UTC) - age
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    if moment is None:
        raise InvalidInputError(
            f"older_than={older_than!r} is no version, instant or age",
            hint="give a version number, a datetime with a zone, or a timedelta",
        )
    if moment.tzinfo is None:
        raise InvalidInputError(
            f"older_than={moment.isoformat()} has no time zone",
            hint="commits have instants: write datetime(…, tzinfo=datetime.UTC)",
        )
    return moment

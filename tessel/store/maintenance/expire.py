"""Expiry of versions, and leases for reads that last.

A query reads one version, which may expire while it runs, and be collected under it. Whoever knows
that asks for a lease before. For all others a thread of this process looks from time to time which
reads have gone on for long, and leases their versions until they end. It harms no read: where a
lease cannot be had, the read goes on without one.

Expiry is one entry of the log, like every change of a store: it lands or it does not, and everybody
sees it in the same place. The oldest version that is kept moves forward and never back.

The rule: with ``oldest`` the versions from it on are kept, whole and without gaps, and so are their
log entries; before it, only versions with a tag and the newest ones of branches. An expired version
raises ``SnapshotExpiredError``, whether or not its objects are still there. ``as_of`` an instant
answers from ``oldest`` on, on each branch. A commit that was made on a version before it, and would
have to be compared with changes that have expired, is refused as a conflict.
"""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from tessel.errors import InvalidInputError, TesselError, VersionNotFoundError
from tessel.expression.scalars import moment_of, time_span_of, whole_number
from tessel.forking import after_fork
from tessel.lazy import dataclass
from tessel.store.history.history import History
from tessel.store.history.log import LogEntry
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.versions import seconds, timestamp_of
from tessel.store.maintenance import LEASE_SECONDS
from tessel.store.objects.base import ObjectStore
from tessel.telemetry import emit

if TYPE_CHECKING:
    from tessel.store.history.history import History
    from tessel.store.maintenance.leases import Lease


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
    before = max(1, refs.oldest)
    oldest = max(before, number)
    landed = history.expire_before(number).number if number > before and not dry_run else None
    # The main branch gets a newer version by the expiry itself.
    others = (at for branch, at in refs.branches.items() if branch != MAIN)
    pinned = {*refs.tags.values(), *others}
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


_LEASED_AFTER_SECONDS: Final = 60.0
_LOOKED_AT_SECONDS: Final = 15.0
_RENEWED_AFTER_SECONDS: Final = LEASE_SECONDS / 4


class LeasedIfLong:
    """Leases versions for the rest of a block, once it has lasted for a minute.

    Parameters
    ----------
    objects, history
        The store; it can be written to.
    versions
        What is read; more may be added to it.
    at_once
        Lease them when the block begins: whoever knows that it will last.
    """

    def __init__(
        self, objects: ObjectStore, history: History, versions: set[int], *, at_once: bool = False
    ) -> None:
        self._objects = objects
        self._history = history
        self._versions = versions
        self._at_once = at_once
        self._began = seconds()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ended = False
        self._leases: dict[int, tuple[Lease, float]] = {}

    def __enter__(self) -> None:
        if self._at_once:
            self.keep_up()
        _watch.begin(self)

    def __exit__(self, *error: object) -> None:
        _watch.end(self)
        self._end()

    def is_long(self) -> bool:
        """Whether it has lasted so long that it is to be leased."""
        return seconds() - self._began >= _LEASED_AFTER_SECONDS

    def keep_up(self) -> None:
        """Lease its versions, or begin the time of the leases anew."""
        for version in self._versions.copy():
            with self._lock:
                if self._ended:
                    return
                try:
                    self._keep(version)
                except TesselError as error:
                    emit("lease.failed", version=version, kind=error.kind, message=error.message)

    def _keep(self, version: int) -> None:
        lease, since = self._leases.get(version, (None, 0.0))
        now = seconds()
        if lease is None:
            from tessel.store.maintenance.leases import Lease, inventory_of

            inventory_of(self._objects)
            self._leases[version] = Lease(self._objects, self._history, version, LEASE_SECONDS), now
            emit("lease.taken", version=version)
        elif now - since >= _RENEWED_AFTER_SECONDS:
            lease.renew()
            self._leases[version] = lease, now

    def _end(self) -> None:
        """Give the leases back; one that cannot be given back ends by itself."""
        if os.getpid() != self._process:
            return  # a forked child lets go of what its parent still reads
        with self._lock:
            self._ended = True
            for lease, _ in self._leases.values():
                with contextlib.suppress(TesselError):
                    lease.release()


class _Watch:
    """The thread that looks after reads; it begins with the first of them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child does: there are no threads, and no reads of its own."""
        self._lock = threading.Lock()
        self._reads: dict[int, LeasedIfLong] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def begin(self, read: LeasedIfLong) -> None:
        """Look after a read from now on."""
        with self._lock:
            self._reads[id(read)] = read
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="tessel-long-reads", daemon=True
                )
                self._thread.start()

    def end(self, read: LeasedIfLong) -> None:
        """Look after a read no longer; a forked child may not know it."""
        with self._lock:
            self._reads.pop(id(read), None)

    def _run(self) -> None:
        stopped = self._stopped
        while not stopped.wait(_LOOKED_AT_SECONDS):
            with self._lock:
                reads = list(self._reads.values())
            for read in reads:
                if read.is_long():
                    read.keep_up()


_watch = _Watch()
after_fork(_watch, _Watch.forget)

"""The verbs that keep a store small, sound and packed, as ``Repository`` has them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    OptionError,
    SnapshotExpiredError,
)
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import time_span_of
from tessel.progress import operation
from tessel.store.maintenance import LEASE_SECONDS, MINIMUM_AGE
from tessel.store.manifest.packing.configuration import ManifestConfiguration, usual_configuration
from tessel.store.manifest.packing.preload import Preloader
from tessel.store.objects.base import freeing
from tessel.store.timeline import AsOf, Timeline

if TYPE_CHECKING:
    from tessel.store.maintenance.expire import ExpiryReport, OlderThan
    from tessel.store.maintenance.gc import CollectionReport
    from tessel.store.maintenance.leases import Lease
    from tessel.store.manifest.packing.repacking import RepackReport

Manifests = ManifestConfiguration | Mapping[str, Any] | None
"""A configuration of manifests, or the plain data of one; None for that of the store."""


def checked_configuration(given: Manifests) -> ManifestConfiguration | None:
    """Return a configuration that a user gave; ``OptionError`` for what is none."""
    if given is None or isinstance(given, ManifestConfiguration):
        return given
    if isinstance(given, Mapping):
        return ManifestConfiguration.from_json(given)
    raise OptionError(
        f"manifests={given!r:.60} is no configuration of manifests",
        hint="give a ManifestConfiguration, or a mapping as its to_json() returns it",
        option="manifests",
    )


@checks_arguments
class Upkeep(Timeline):
    """A store as something to look after, whose symbols share manifests by rules."""

    _override: ManifestConfiguration | None = None
    _preloader: Preloader | None = None

    def gc(self, *, minimum_age: timedelta = MINIMUM_AGE, dry_run: bool = True) -> CollectionReport:
        """Delete the objects that no kept version refers to; by default, only say which.

        Parameters
        ----------
        minimum_age
            Younger objects are left alone: they may belong to a commit that has not landed yet. A
            writer that takes longer leases what it has written.
        dry_run
            Only look.

        Raises
        ------
        StoreError
            In one of its kinds, naming the object, when something cannot be read or is not known.
            Nothing was deleted.

        Examples
        --------
        >>> store.gc().dry_run
        True
        """
        from tessel.store.maintenance.gc import collect

        if not dry_run:
            self.check_writable()
        with operation("gc"):
            return collect(self.objects, self.history, minimum_age=minimum_age, dry_run=dry_run)

    def expire(self, older_than: OlderThan, *, dry_run: bool = True) -> ExpiryReport:
        """Give up old versions; by default, only say which. ``gc`` then frees what they held.

        Versions with a tag, and the newest ones of branches, are always kept.

        Parameters
        ----------
        older_than
            A version number, which is kept itself; an instant with a time zone, or an age: the
            version that was the newest then is the oldest that is kept.
        dry_run
            Only look.

        Examples
        --------
        >>> store.expire(2, dry_run=True).dry_run
        True
        """
        if not dry_run:
            self.check_writable()
        with contextlib.nullcontext() if dry_run else freeing(self.objects):
            from tessel.store.maintenance.expire import expire

            with operation("expire"):
                return expire(self.history, older_than, dry_run=dry_run)

    def lease(
        self, as_of: AsOf = None, *, lasting: timedelta = timedelta(seconds=LEASE_SECONDS)
    ) -> Lease:
        """Keep a version for as long as a block lasts, whatever expires meanwhile.

        Parameters
        ----------
        as_of
            The version; by default the newest of the branch.
        lasting
            When the lease ends by itself, should this process be killed; ``renew`` begins it anew.

        Raises
        ------
        SnapshotExpiredError
            When the version has expired already.

        Examples
        --------
        >>> with store.lease(1):
        ...     store.read("trades", as_of=1).shape
        (4, 4)
        """
        from tessel.store.maintenance.leases import Lease, inventory_of

        self.check_writable()
        inventory_of(self.objects)
        span = time_span_of(lasting)
        if span is None or span < timedelta(seconds=1):
            raise InvalidInputError(
                f"lasting={lasting!r} is no time that a lease can last",
                hint="give a timedelta of a second or more: lease(lasting=timedelta(hours=1))",
            )
        number = self.at(as_of).number
        return Lease(self.objects, self.history, number, int(span.total_seconds()))

    @contextlib.contextmanager
    def reading(self, *numbers: int, at_once: bool = False) -> Iterator[set[int]]:
        """Tell damage from expiry while versions are read; more may be added to what it gives.

        A read that lasts for more than a minute leases its versions, where it may write;
        ``at_once``, for one that is known to last, when it begins.

        Raises
        ------
        SnapshotExpiredError
            Where an object was not found, or not whole, and one of the versions has expired.

        Examples
        --------
        >>> with store.reading(store.version):
        ...     store.view("names").row_count
        2
        """
        versions = set(numbers)
        leased: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if not self.read_only:
            from tessel.store.maintenance.expire import LeasedIfLong

            leased = LeasedIfLong(self.objects, self.history, versions, at_once=at_once)
        with leased:  # until it is known why a read failed
            try:
                yield versions
            except CorruptStoreError as error:
                self._raise_if_expired(versions, error)
                raise

    def _raise_if_expired(self, versions: set[int], error: CorruptStoreError) -> None:
        head = self.history.head()
        refs = self.history.refs_at(head)
        for number in sorted(versions):
            if head and not refs.keeps(number) and not self.history.leased[number]:
                raise SnapshotExpiredError.for_version(
                    number, newest=head.number, oldest=refs.oldest
                ) from error

    # --- manifests --------------------------------------------------------------------------------

    @property
    def manifest_configuration(self) -> ManifestConfiguration:
        """Which symbols share a manifest: as given when it was opened, else as the store says."""
        self.history.head()
        return self.known_configuration()

    def known_configuration(self) -> ManifestConfiguration:
        """Return the configuration as of the newest version that was seen, of whatever branch."""
        if self._override is not None:
            return self._override
        stored = self.history.refs_at(self.history.known_head).manifests
        return usual_configuration() if stored is None else stored

    def set_manifest_configuration(self, configuration: Manifests) -> int:
        """Say which symbols share a manifest from now on, on all branches; return the version.

        What is packed already stays as it is until it is touched; :meth:`repack` applies the
        configuration to everything.

        Parameters
        ----------
        configuration
            A ``ManifestConfiguration``, or plain data as its ``to_json`` makes them.

        Raises
        ------
        OptionError
            For an option that cannot be, with its path. Nothing was changed.

        Examples
        --------
        >>> store.set_manifest_configuration(store.manifest_configuration)
        3
        """
        self.check_writable()
        checked = checked_configuration(configuration)
        return self.history.set_manifests(checked or usual_configuration()).number

    def repack(self, configuration: Manifests = None, *, dry_run: bool = False) -> RepackReport:
        """Pack all manifests of the branch anew, tails included, in one commit.

        No segment is written and no answer changes. A symbol that another writer packs or changes
        meanwhile keeps the manifests that it has then.

        Parameters
        ----------
        configuration
            Pack by this one, without making it that of the store; by default by the store's.
        dry_run
            Only plan it.

        Raises
        ------
        OptionError
            For a configuration that cannot be.

        Examples
        --------
        >>> store.repack(dry_run=True).dry_run
        True
        """
        from tessel.store.maintenance.leases import WriteSession
        from tessel.store.manifest.packing.repacking import RepackReport, repack_all

        checked = checked_configuration(configuration)
        if not dry_run:
            self.check_writable()
        base = self.history.newest(self.branch)
        by = self.known_configuration() if checked is None else checked
        with operation("repack"):
            plan, objects, repackings = repack_all(by, base.snapshot, self.manifest)
        size = sum(len(data) for _, data in objects)
        if dry_run or not repackings:
            return RepackReport(base.number, dry_run, plan, len(repackings), size)
        with operation("repack"), contextlib.closing(WriteSession(self.objects)) as session:
            landed = self.history.commit(
                base,
                repackings,
                "repack",
                survived=session.survived,
                act="repack",
                objects=objects,
                through=session,
            )
        return RepackReport(landed.number, False, plan, len(repackings), size)

    # --- fetching early ---------------------------------------------------------------------------

    def preload(self, as_of: AsOf = None) -> None:
        """Begin to fetch the manifests that ``preload`` of the configuration chooses.

        It goes on in the background, and fails nothing. Opening a store begins it for the branch;
        it is begun once for each branch or tag.

        Parameters
        ----------
        as_of
            The branch or tag; by default the branch that is open.

        Examples
        --------
        >>> store.preload()
        """
        if self._preloader is None:
            self._preloader = Preloader(self.manifest)
        name = self.branch if as_of is None else str(as_of)
        self._preloader.start(name, lambda: (self.at(as_of), self.known_configuration()))

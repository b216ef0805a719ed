"""The verbs that keep a store small and sound, as ``Repository`` has them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from tessel.errors import CorruptStoreError, InvalidInputError, SnapshotExpiredError
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import time_span_of
from tessel.progress import operation
from tessel.store.maintenance import LEASE_SECONDS, MINIMUM_AGE
from tessel.store.maintenance.long_reads import leased_if_long
from tessel.store.objects.base import freeing
from tessel.store.timeline import AsOf, Timeline

if TYPE_CHECKING:
    from tessel.store.maintenance.expire import OlderThan
    from tessel.store.maintenance.leases import Lease
    from tessel.store.maintenance.reports import CollectionReport, ExpiryReport


@checks_arguments
class Upkeep(Timeline):
    """A store as something to look after."""

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
        # A lease is held until it is known why a read failed.
        with contextlib.ExitStack() as leased:
            if not self.read_only:
                leased.enter_context(
                    leased_if_long(self.objects, self.history, versions, at_once=at_once)
                )
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

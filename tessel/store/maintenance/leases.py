"""Leases: what a long session needs is left alone by collections while it lasts.

A writer's objects are referred to by nobody until its commit lands, and a collection tells them
from garbage by their age alone. So a transaction that lasts longer than a small part of that age
leases everything written since its first object. A reader leases a version, so that expiry takes
nothing away under it.

Leases keep sessions going; that nothing is lost does not hang on them, or on any clock of theirs.
A collection announces in the log from which instant on objects are safe, and only then looks for
what is not referred to. A commit that lands after the announcement stands on it, and is refused
where one of its own objects is older by the very stamp that the collection goes by
(:meth:`WriteSession.survived`). All instants are those of the place where the objects are.

The repository and its transactions enter here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import pyarrow as pa

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    LeaseExpiredError,
    NotFoundError,
    StoreError,
    StoreNotFoundError,
    TesselError,
)
from tessel.lazy import dataclass
from tessel.store.history.documents import (
    HEADER,
    check_format,
    damaged,
    seal,
    unseal,
)
from tessel.store.history.refs import Refs
from tessel.store.history.versions import Versions, seconds
from tessel.store.maintenance import LEASE_SECONDS
from tessel.store.names import LEASES, STORE, new_name
from tessel.store.objects.base import ObjectStore, ParallelPuts, SupportsInventory

_LEASED_AFTER_SECONDS: Final = 1800.0
"""From this age on a transaction has a lease: a small part of the age that collections leave."""

_RENEWED_AFTER_SECONDS: Final = LEASE_SECONDS / 4
_PUTS_IN_FLIGHT: Final = 4
_FIRST_PUTS: Final = 64
_HINT: Final = (
    "repeat it; a minimum age of collections that is longer than any transaction avoids this"
)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as it is stored.

    Attributes
    ----------
    until_us
        When it ends; microseconds since 1970 UTC by the clock of the place.
    since_us
        What was written from this instant on is left alone; None where it is about versions only.
    versions
        Versions that the lease retains, whatever expires.
    """

    name: str
    until_us: int
    since_us: int | None
    versions: tuple[int, ...]


def inventory_of(objects: ObjectStore) -> SupportsInventory:
    """Return what says how old objects are; ``InvalidInputError`` for a place that cannot."""
    if not isinstance(objects, SupportsInventory):
        raise InvalidInputError(
            f"the place {objects.uri!r} does not say how old its objects are, so that nothing can "
            "be collected or leased there",
            hint="its class needs the methods of tessel.store.objects.SupportsInventory",
            uri=objects.uri,
        )
    return objects


def put_lease(
    objects: ObjectStore,
    *,
    lasting_seconds: int,
    since_us: int | None = None,
    versions: tuple[int, ...] = (),
) -> str:
    """Write a lease and return its name."""
    name = new_name("lease")
    document = {"lasting_seconds": lasting_seconds, "since_us": since_us, "versions": versions}
    objects.put_if_absent(name, seal({**HEADER, **document}))
    return name


def all_leases(objects: ObjectStore) -> Iterator[LeaseRecord]:
    """Yield all leases, those that have ended too; raises where one cannot be read."""
    for facts in inventory_of(objects).inventory(LEASES):
        try:
            found = read_lease(objects, facts.name, facts.modified_us)
        except NotFoundError:
            continue  # its session has just ended
        yield found


def read_lease(objects: ObjectStore, name: str, modified_us: int = 0) -> LeaseRecord:
    """Return a lease that was written at an instant; ``CorruptStoreError`` where it is damaged."""
    fields = unseal(objects.get(name), name)
    check_format(fields)
    lasting = fields.integer("lasting_seconds")
    since_us = fields.optional_integer("since_us")
    if since_us is not None and since_us < 0:
        damaged(name, "it begins before all time")
    until_us = modified_us + lasting * 1_000_000
    return LeaseRecord(name, until_us, since_us, tuple(fields.integers("versions")))


class Lease:
    """A lease that retains a version until the block ends; made by ``Repository.lease``.

    ``with store.lease(version) as lease: store.read("s", as_of=lease.version)``.

    Attributes
    ----------
    version
        The version.
    """

    def __init__(
        self, objects: ObjectStore, versions: Versions, version: int, lasting_seconds: int
    ) -> None:
        self._objects = objects
        self._versions = versions
        self._lasting_seconds = lasting_seconds
        self._held = True
        self.version = version
        self._since = seconds()
        self._name = put_lease(objects, lasting_seconds=lasting_seconds, versions=(version,))
        try:
            # Looked up after the lease is there: what is kept now has not been taken, and what a
            # collection takes from now on is not this.
            versions.at(version)
        except TesselError:
            objects.delete(self._name)
            raise
        versions.leased[version] += 1

    def __repr__(self) -> str:
        return f"<Lease of version {self.version}>"

    def renew(self) -> None:
        """Begin the time of the lease anew.

        Raises
        ------
        LeaseExpiredError
            When it had run out: what the version needs may be gone.
        """
        before, since = self._name, seconds()
        self._name = put_lease(
            self._objects, lasting_seconds=self._lasting_seconds, versions=(self.version,)
        )
        self._objects.delete(before)
        # Looked at last: whoever is stopped on the way must not go on with a lease that had ended.
        if seconds() - self._since >= self._lasting_seconds:
            self.release()
            raise LeaseExpiredError(
                f"the lease of version {self.version} ran out before it was renewed",
                hint=f"ask for a longer one: it lasted {self._lasting_seconds} seconds",
                version=self.version,
            )
        self._since = since

    def release(self) -> None:
        """End the lease; doing it again does nothing."""
        if self._held:
            self._held = False
            self._versions.leased[self.version] -= 1
            self._objects.delete(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class WriteSession:
    """Objects as one transaction writes them: it knows them all, and leases them when it lasts.

    Satisfies :class:`~tessel.store.objects.ObjectStore`; everything but puts is passed on.

    Attributes
    ----------
    puts_in_flight
        How many objects are worth writing at a time.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.uri = objects.uri
        self.get, self.get_range, self.list = objects.get, objects.get_range, objects.list
        self.delete, self.size, self.exists = objects.delete, objects.size, objects.exists
        # Asked once: whether an object satisfies a protocol takes 40 µs to say.
        self.puts_in_flight: int = (
            objects.puts_in_flight if isinstance(objects, ParallelPuts) else _PUTS_IN_FLIGHT
        )
        self._names: list[str] = []
        self._lease: str | None = None
        self._upkeep_at = seconds() + _LEASED_AFTER_SECONDS
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<WriteSession of {len(self._names)} objects in {self._objects.uri!r}>"

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object, and see to the lease; raises for a store that is gone."""
        try:
            written = self._objects.put_if_absent(name, data)
        except StoreError as error:
            if not self._objects.exists(STORE):
                raise StoreNotFoundError.gone(self.uri) from error
            raise
        self._names.append(name)
        if seconds() >= self._upkeep_at:
            self._keep_up()
        return written

    def _keep_up(self) -> None:
        """Lease what the session has written, or begin the time of its lease anew."""
        objects = self._objects
        if not isinstance(objects, SupportsInventory):
            return
        with self._lock:
            if seconds() < self._upkeep_at:
                return  # another thread was here
            # Side by side, the first to begin need not be the first to end.
            since_us = min(self._modified_us(name) for name in self._names[:_FIRST_PUTS])
            before = self._lease
            self._lease = put_lease(
                objects, lasting_seconds=LEASE_SECONDS, since_us=max(0, since_us)
            )
            self._upkeep_at = seconds() + _RENEWED_AFTER_SECONDS
            if before is not None:
                objects.delete(before)

    def adopt(self, names: Iterable[str]) -> None:
        """Take objects that others wrote, and no version refers to, as those of this session."""
        self._names.extend(names)

    def disown(self, names: Iterable[str]) -> None:
        """Say that objects which were adopted are not needed."""
        gone = set(names)
        self._names = [name for name in self._names if name not in gone]

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """End the session after a block, in which own objects may turn out to be gone.

        Raises LeaseExpiredError when one is.
        """
        try:
            yield
        except CorruptStoreError as error:
            name = error.attributes.get("object")
            if name not in self._names or self._objects.exists(name):
                raise
            raise LeaseExpiredError(
                f"the transaction took so long that {name}, which it wrote, has been collected; "
                "nothing of it landed",
                hint=_HINT,
                object=name,
            ) from error
        finally:
            self.close()

    def survived(self, refs: Refs) -> None:
        """Raise where a collection may have taken one of the objects.

        Raises LeaseExpiredError when one is older than what was condemned, or gone.
        """
        for name in self._names:
            if self._modified_us(name) < refs.condemned_us:
                raise LeaseExpiredError(
                    f"the transaction took so long that version {refs.collected} announced the "
                    f"collection of {name}, which it wrote; nothing of it landed",
                    hint=_HINT,
                    object=name,
                    version=refs.collected,
                )

    def _modified_us(self, name: str) -> int:
        if not isinstance(self._objects, SupportsInventory):
            return -1
        try:
            return self._objects.modified_us(name)
        except NotFoundError:
            return -1

    def close(self) -> None:
        """End the lease, if there is one; that it could not be ended harms nobody."""
        with self._lock:
            if self._lease is not None:
                try:
                    self._objects.delete(self._lease)
                except TesselError:
                    return
                self._lease = None

    def __reduce__(self) -> Any:
        raise TypeError("a session of writing stays in its process")

"""What a place for bytes has to offer: named objects that are written once and never change.

The whole store needs one primitive, put-if-absent. There is no overwrite, no rename and no lock.
A new kind of place is one file with a class that satisfies :class:`ObjectStore` and a line in
:mod:`tessel.store.objects.open`.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

import google_crc32c
import pyarrow as pa

from tessel.errors import CorruptStoreError, InvalidInputError, NotAStoreError, NotFoundError
from tessel.lazy import dataclass

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")
_NAME_CHARACTERS = 200
_PUTS_IN_FLIGHT = 4
_MOST_THREADS = 256
_BYTES_IN_FLIGHT = 256 << 20


@runtime_checkable
class ForeignObjects(Protocol):
    """A place whose objects are read in parts; any number of threads at once."""

    @property
    def uri(self) -> str:
        """Where the objects are; opening it again, in another process too, finds them."""

    def size(self, name: str) -> int:
        """Return the length of an object in bytes; ``NotFoundError`` where there is none."""

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of an object.

        Raises
        ------
        NotFoundError
            Where there is no such object.
        CorruptStoreError
            Where the object ends before ``offset + length``; nothing is allocated then.
        """


@runtime_checkable
class ObjectStore(ForeignObjects, Protocol):
    """Named immutable objects.

    Names are made by the store, never from what users type: lower-case letters, digits,
    ``. _ -`` and ``/`` between the parts. All methods may be called from several threads at once.
    """

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object unless one of that name exists.

        An answer can be lost on its way. Then an object with exactly these bytes counts as written
        by this call, so bytes for which it matters who wrote them hold something random.

        Returns
        -------
        bool
            True where this call wrote it; False where it exists already, with whatever content.

        Raises
        ------
        StoreError
            When the write failed. With the attribute ``landed="unknown"`` the object may exist.
        """

    def get(self, name: str) -> pa.Buffer:
        """Return the bytes of an object; ``NotFoundError`` where there is none."""

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        """Yield the names that start with ``prefix``, sorted.

        Parameters
        ----------
        prefix
            Empty, or whole parts of names with the ``/`` at the end.
        after
            Yield only names greater than this one.
        limit
            Stop after so many names; a small limit costs less than a whole listing.
        """

    def delete(self, name: str) -> None:
        """Remove an object; removing one that does not exist does nothing."""

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""


@runtime_checkable
class ParallelPuts(Protocol):
    """Says how many puts are worth having in flight; without it, four: what a disk makes use of."""

    @property
    def puts_in_flight(self) -> int:
        """How many objects are worth writing at a time."""


@runtime_checkable
class VerifiesPuts(Protocol):
    """Writes through a server of others; without it, put-if-absent is known to hold."""

    def verify_put_if_absent(self, name: str) -> None:
        """Put the bytes of an object again, once a process, and expect that to be refused.

        Raises
        ------
        ConditionalWriteError
            When it was not.
        """


@runtime_checkable
class SupportsDurableNames(Protocol):
    """Shows names before they would survive power loss; without it, what is seen stays."""

    def make_durable(self, name: str) -> None:
        """Return once an object that was seen, whoever wrote it, survives power loss.

        Raises
        ------
        StoreError
            When the disk refuses.
        """


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a place knows of an object without reading it.

    Attributes
    ----------
    name
        Its name.
    size
        Bytes.
    modified_us
        When it was written, in microseconds since 1970 UTC, by the clock of the place: only
        instants of one place are compared with one another.
    """

    name: str
    size: int
    modified_us: int


@runtime_checkable
class SupportsReserve(Protocol):
    """Can run out of room, and keeps some back; without it, there is always room."""

    def keep_reserve(self) -> None:
        """Make the reserve where there is none, if there is room; costs nothing where there is."""

    def freeing(self) -> AbstractContextManager[None]:
        """Return a block that frees room: its puts may use the reserve, made anew at its end."""


def freeing(objects: ObjectStore) -> AbstractContextManager[None]:
    """Return a block of acts that free room, which a full disk must let through."""
    return objects.freeing() if isinstance(objects, SupportsReserve) else nullcontext()


@runtime_checkable
class SupportsInventory(Protocol):
    """Says how large and how old objects are; without it, nothing can be collected there."""

    def inventory(self, prefix: str = "") -> Iterator[ObjectFacts]:
        """Yield the objects whose names start with ``prefix``, as ``list`` sorts them.

        One that goes away meanwhile may be left out.
        """

    def modified_us(self, name: str) -> int:
        """Return when an object was written, as :class:`ObjectFacts` has it.

        Raises
        ------
        NotFoundError
            Where there is no such object.
        """


@runtime_checkable
class SupportsLeftovers(Protocol):
    """Puts through files that a killed process leaves behind; without it, there are none."""

    def leftovers(self) -> Iterator[ObjectFacts]:
        """Yield the files that puts under way, or ended halfway, have left."""

    def remove_leftover(self, name: str) -> None:
        """Remove one of them; removing one that does not exist does nothing."""


def check_name(name: str) -> str:
    """Return ``name`` if it can name an object; raise ``InvalidInputError`` otherwise."""
    if len(name) > _NAME_CHARACTERS or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{name[:_NAME_CHARACTERS]!r} cannot name an object",
            hint="parts of a-z 0-9 . _ - that begin with a letter or digit, joined by '/'",
        )
    return name


def checksum(data: bytes | pa.Buffer) -> int:
    """Return the CRC-32C of some bytes (Castagnoli polynomial, RFC 3720)."""
    return int(google_crc32c.value(data))


def object_absent(name: str, uri: str) -> NotFoundError:
    """Make the error for an object that does not exist."""
    return NotFoundError(f"no object {name!r} in {uri!r}", object=name, uri=uri)


def irregular_object(name: str, error: NotAStoreError) -> CorruptStoreError:
    """Make the error for a pipe or a device where an object should be."""
    return CorruptStoreError.for_object(
        f"object {name!r}", f"is damaged: {error.message}", object=name
    )


def short_object(name: str, offset: int, length: int, size: int) -> CorruptStoreError:
    """Make the error for a range that lies outside its object."""
    return CorruptStoreError.for_object(
        f"object {name!r}",
        f"is cut short: bytes {offset} to {offset + length} were asked for, it has {size}",
        object=name,
        offset=offset,
        length=length,
        size=size,
    )


def put_all(
    objects: ObjectStore,
    items: Iterable[tuple[str, bytes | pa.Buffer]],
    *,
    bytes_in_flight: int = _BYTES_IN_FLIGHT,
) -> None:
    """Write objects of new, random names, several at a time.

    ``items`` is consumed as the writes go on, so that a generator that encodes needs the memory of
    what is in flight only. The first failure is raised after the writes in flight have ended.

    Parameters
    ----------
    objects
        Where to; says by :class:`ParallelPuts` how many at a time.
    items
        Names and bytes.
    bytes_in_flight
        While so many bytes are being written, no other object is taken; one that is larger is
        written alone.
    """
    iterator = iter(items)
    head = list(itertools.islice(iterator, 2))
    if len(head) < 2:
        for name, data in head:
            _put_new(objects, name, data)
        return
    most = objects.puts_in_flight if isinstance(objects, ParallelPuts) else _PUTS_IN_FLIGHT
    # The caller, who would wait, puts the last one: a commit of two needs one thread.
    last = len(items) if isinstance(items, Sized) else None
    running: dict[Future[None], int] = {}
    try:
        for number, (name, data) in enumerate(itertools.chain(head, iterator), 1):
            size = len(memoryview(data))
            while running and (
                len(running) >= most or sum(running.values()) + size > bytes_in_flight
            ):
                _take_ended(running)
            if number == last:
                _put_new(objects, name, data)
            else:
                running[_threads(os.getpid()).submit(_put_new, objects, name, data)] = size
        while running:
            _take_ended(running)
    finally:
        for future in running:
            future.cancel()
        wait(running)


@functools.lru_cache(maxsize=1)
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return the threads that put; kept, as each small commit needs one, and not across a fork."""
    return ThreadPoolExecutor(_MOST_THREADS, "tessel-put")


def _take_ended(running: dict[Future[None], int]) -> None:
    """Wait for one put or more, and raise the first failure."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        del running[future]
        future.result()


def _put_new(objects: ObjectStore, name: str, data: bytes | pa.Buffer) -> None:
    if objects.put_if_absent(name, data):
        return
    found = objects.get(name)
    if checksum(found) != checksum(data) or found.size != len(memoryview(data)):
        raise CorruptStoreError(
            f"object {name!r} exists already with other content", object=name, uri=objects.uri
        )

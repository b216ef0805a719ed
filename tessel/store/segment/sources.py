"""What a place to read bytes from has to offer, and what it is asked.

Whoever adds a source writes a class that satisfies :class:`ReadSource`, and registers with
:func:`open_source`, which says what reads a store.

Whole objects are seen of mapped files, the default for local disks, and of memory: no thread, no
copy, no system call a range. Ranges are checked all at once, then sliced.

Touching a mapped page that its file no longer has ends the process (SIGBUS), so every range is
checked against the length that was mapped, and files are looked at again in every call: one that
has become shorter is an error. Segment files never shrink; where one does not trust a disk to keep
that promise between the check and the touch,
:class:`~tessel.store.segment.sources.ObjectStoreSource` is the choice.

Requests of any other object store, or of files by ``pread``, take their time, so many are in
flight. Cold drives and network mounts gain from reads in parallel, and a file that is cut short
while it is read is an error here, where under a map it would end the process.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import singledispatch
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import different
from tessel.errors import InvalidInputError, OptionError, StoreError, TesselError
from tessel.forking import after_fork
from tessel.lazy import dataclass
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore, short_object
from tessel.store.objects.local import LocalObjects, object_path, open_object
from tessel.store.objects.mapped import file_bytes
from tessel.store.objects.memory import MemoryObjects

Integers: TypeAlias = npt.NDArray[np.int64]

ReadAnswer: TypeAlias = "pa.Buffer | Exception"
"""The bytes of one range, or why it cannot be read."""


@dataclass(frozen=True, slots=True)
class CoalesceLimits:
    """How near ranges must lie to be read as one, and how much is read at once.

    Attributes
    ----------
    gap_bytes
        What a request costs, in bytes: ranges are read together with at most so many unwanted bytes
        between them in all.
    part_bytes
        A part has at most this many bytes; a longer range is cut.

    Raises
    ------
    InvalidInputError
        For a negative gap, or parts without bytes.
    """

    gap_bytes: int
    part_bytes: int

    def __post_init__(self) -> None:
        if self.gap_bytes < 0 or self.part_bytes < 1:
            raise InvalidInputError(
                f"reads cannot be coalesced over {self.gap_bytes} bytes into parts of "
                f"{self.part_bytes}",
                hint="the gap is 0 or more, a part has 1 byte or more",
            )


LOCAL: Final = CoalesceLimits(1 << 12, 1 << 22)
"""Local disks: a seek costs about as much as reading another 4 KiB."""

REMOTE: Final = CoalesceLimits(3 << 19, 1 << 24)
"""Object stores: some 30 ms to the first byte, and 20 ms a mebibyte of one request (Durner, Leis,
Neumann: Exploiting Cloud Object Storage for High-Performance Analytics, VLDB 2023)."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteRanges:
    """Byte ranges of objects, as arrays of one length.

    Attributes
    ----------
    names
        Objects, each once.
    object
        Which of ``names``, int64.
    start, end
        Bytes ``[start, end)``, int64.
    """

    names: tuple[str, ...]
    object: Integers
    start: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.start)

    def take(self, positions: Sequence[int] | Integers) -> ByteRanges:
        """Return some of the ranges, in the order of ``positions``."""
        at = np.asarray(positions, dtype=np.int64)
        return ByteRanges(self.names, self.object[at], self.start[at], self.end[at])

    @property
    def total_bytes(self) -> int:
        """The bytes of all ranges; what overlaps counts for each."""
        return int((self.end - self.start).sum())

    def inside(self, parts: ByteRanges) -> npt.NDArray[np.bool_]:
        """Return which ranges lie in one of some parts of the same objects."""
        found = np.zeros(len(self), np.bool_)
        for part, start, end in zip(parts.object, parts.start, parts.end, strict=True):
            found |= (self.object == part) & (self.start >= start) & (self.end <= end)
        return found

    def outside(self, sizes: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return which ranges are none, or do not lie inside their object.

        Parameters
        ----------
        sizes
            Length in bytes of each of ``names``.
        """
        limits = np.asarray(sizes, dtype=np.int64)[self.object]
        return (self.start < 0) | (self.end < self.start) | (self.end > limits)


class ReadSource(Protocol):
    """Reads byte ranges of objects. May be called from several threads at once."""

    @property
    def limits(self) -> CoalesceLimits:
        """How requests to this source are put together."""

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Read ranges, side by side where that is faster, and wait for all.

        Parameters
        ----------
        ranges
            What to read; it is checked against the sizes of the objects before anything is touched
            or allocated.

        Returns
        -------
        list
            One answer per range, in their order. A range that cannot be read is an error
            (``NotFoundError``, ``CorruptStoreError`` for one outside its object, ``StoreError``),
            so that the others are not lost with it.
        """


_EMPTY = pa.py_buffer(b"")


class Viewing(ABC):
    """Shows whole objects without reading them: ranges are slices of them, no thread, no copy.

    A source that is none is asked for bytes by range.
    """

    limits: ClassVar[CoalesceLimits] = LOCAL

    @abstractmethod
    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object, as a view.

        Raises
        ------
        NotFoundError
            Where there is no such object.
        CorruptStoreError
            Where it has become shorter since it was first looked at.
        """

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Return the slice of an object for each range, an error where there is none.

        Parameters
        ----------
        ranges
            Untrusted.
        """
        views: list[pa.Buffer] = [_EMPTY] * len(ranges.names)
        errors: dict[int, TesselError] = {}
        for at in different(ranges.object).tolist():
            try:
                views[at] = self.view(ranges.names[at])
            except TesselError as error:
                errors[at] = error
        outside = ranges.outside([whole.size for whole in views]).tolist()
        places = zip(
            ranges.object.tolist(), ranges.start.tolist(), ranges.end.tolist(), strict=True
        )
        answers: list[ReadAnswer] = []
        for (at, start, end), wrong in zip(places, outside, strict=True):
            if at in errors:
                answers.append(errors[at])
            elif wrong:
                name = ranges.names[at]
                answers.append(short_object(name, start, end - start, views[at].size))
            else:
                answers.append(views[at].slice(start, end - start))
        return answers


class MemorySource(Viewing):
    """Slices of buffers.

    Parameters
    ----------
    objects
        A store whose ``get`` does not copy.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object."""
        return self._objects.get(name)


_cache: Final[LruCache[tuple[int, str], _File]] = LruCache(256)
"""Files that were used last, of all sources together, by the number of the source and by name.

No descriptors, so the bound is for the memory of small files, and the maps of large ones. What
leaves it stays open until those who use it are done.
"""

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """The bytes of a file, and what tells whether it was cut since."""

    path: str
    inode: int
    whole: pa.Buffer

    def size(self) -> int:
        """Return how many bytes may be touched: all where the file has another one's name now."""
        try:
            now = os.stat(self.path)
        except OSError:
            return int(self.whole.size)
        return now.st_size if now.st_ino == self.inode else int(self.whole.size)


class MmapSource(Viewing):
    """Slices of mapped files.

    Parameters
    ----------
    objects
        A store on a local disk.
    """

    def __init__(self, objects: LocalObjects) -> None:
        self._root = objects.uri
        self._number = next(_numbers)
        # A process that ends has taken its modules apart before the last sources go.
        weakref.finalize(self, _forget, self._number).atexit = False

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object."""
        # Another thread may be faster; either will do.
        found = _cache.get_or_make((self._number, name), lambda: _mapped(self._root, name))
        size = found.size()
        if size < found.whole.size:
            raise short_object(name, 0, found.whole.size, size)
        return found.whole


def _mapped(root: str, name: str) -> _File:
    descriptor = open_object(root, name)
    try:
        facts = os.fstat(descriptor)
        whole = file_bytes(descriptor, 0, facts.st_size)
    except OSError as error:
        raise StoreError(f"could not map object {name!r}: {error}", object=name) from error
    finally:
        os.close(descriptor)
    if whole.size != facts.st_size:
        raise short_object(name, 0, facts.st_size, whole.size)
    return _File(object_path(root, name), facts.st_ino, whole)


def _forget(number: int) -> None:
    """Drop what is mapped for a source that nobody has any more."""
    _cache.drop(lambda key: key[0] == number)


class ObjectStoreSource:
    """One ``get_range`` per range, in threads; the store itself refuses ranges it does not have.

    Threads are started as they are needed.

    Raises OptionError for fewer than one request at a time.

    Parameters
    ----------
    in_flight
        Requests at a time, beside those of the threads that ask.
    """

    def __init__(
        self, objects: ObjectStore, *, in_flight: int = 64, limits: CoalesceLimits = REMOTE
    ) -> None:
        if in_flight < 1:
            raise OptionError(f"a store answers 1 request at a time or more, not {in_flight}")
        self._objects = objects
        self._in_flight = in_flight
        self.limits = limits
        self._renew()
        after_fork(self, ObjectStoreSource._renew)

    def _renew(self) -> None:
        """Begin without threads; those of the parent are not in a forked child."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Make one request per range.

        The thread that asks has to wait, so it makes the last request itself: most touches are one
        request, which then crosses no thread. The main thread does not, since a read in native code
        would keep Ctrl-C waiting.
        """
        names = [ranges.names[at] for at in ranges.object.tolist()]
        places = list(zip(names, ranges.start.tolist(), ranges.end.tolist(), strict=True))
        is_main = threading.current_thread() is threading.main_thread()
        own = places[len(places) if is_main else -1 :]
        handed: Any = ()
        if len(places) > len(own):
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self._in_flight, "tessel-get")
                handed = self._pool.map(self._answer, places[: len(places) - len(own)])
        answers = [self._answer(place) for place in own]
        return [*handed, *answers]

    def _answer(self, place: tuple[str, int, int]) -> ReadAnswer:
        try:
            return self._get(*place)
        except Exception as error:
            return error

    def _get(self, name: str, start: int, end: int) -> pa.Buffer:
        if start < 0 or end < start:
            raise short_object(name, start, end - start, 0)
        found = self._objects.get_range(name, start, end - start)
        if found.size != end - start:
            raise short_object(name, start, end - start, start + found.size)
        return found


@singledispatch
def open_source(objects: ObjectStore) -> ReadSource:
    """Return the source that suits a kind of store; a store of another kind registers its own."""
    return ObjectStoreSource(objects)


@open_source.register
def _(objects: LocalObjects) -> ReadSource:
    if objects.mapped:
        return MmapSource(objects)
    return ObjectStoreSource(objects, in_flight=8, limits=LOCAL)


@open_source.register
def _(objects: MemoryObjects) -> ReadSource:
    return MemorySource(objects)

"""Sources that see whole objects: of mapped files, the default for local disks, and of memory.

No thread, no copy, no system call a range: ranges are checked all at once, then sliced.

Touching a mapped page that its file no longer has ends the process (SIGBUS), so every range is
checked against the length that was mapped, and files are looked at again in every call: one that
has become shorter is an error. Segment files never shrink; where one does not trust a disk to keep
that promise between the check and the touch,
:class:`~tessel.store.segment.sources.requests.ObjectStoreSource` is the choice.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable
from typing import ClassVar, Final

import pyarrow as pa

from tessel.arrays import different
from tessel.errors import StoreError, TesselError
from tessel.lazy import dataclass
from tessel.store.lru_cache import LruCache
from tessel.store.objects.base import ObjectStore, short_object
from tessel.store.objects.local import LocalObjects, object_path, open_object
from tessel.store.objects.mapped import file_bytes
from tessel.store.segment.sources.base import (
    LOCAL,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)

_EMPTY = pa.py_buffer(b"")


def answers_from_views(ranges: ByteRanges, view: Callable[[str], pa.Buffer]) -> list[ReadAnswer]:
    """Return the slice of an object for each range, an error where there is none.

    Parameters
    ----------
    ranges
        Untrusted.
    """
    views: list[pa.Buffer] = [_EMPTY] * len(ranges.names)
    errors: dict[int, TesselError] = {}
    for at in different(ranges.object).tolist() if len(ranges.names) > 1 else [0]:
        try:
            views[at] = view(ranges.names[at])
        except TesselError as error:
            errors[at] = error
    outside = ranges.outside([whole.size for whole in views])
    lengths = (ranges.end - ranges.start).tolist()
    starts, objects = ranges.start.tolist(), ranges.object.tolist()
    if not errors and not outside.any():
        if len(views) == 1:
            slice_of = views[0].slice
            return [slice_of(start, length) for start, length in zip(starts, lengths, strict=True)]
        return [
            views[at].slice(start, length)
            for at, start, length in zip(objects, starts, lengths, strict=True)
        ]
    answers: list[ReadAnswer] = []
    for at, start, length, wrong in zip(objects, starts, lengths, outside.tolist(), strict=True):
        if at in errors:
            answers.append(errors[at])
        elif wrong:
            name, size = ranges.names[at], views[at].size
            answers.append(short_object(name, start, length, size))
        else:
            answers.append(views[at].slice(start, length))
    return answers


class MemorySource:
    """Slices of buffers; no thread, no copy.

    Parameters
    ----------
    objects
        A store whose ``get`` does not copy.
    """

    limits: ClassVar[CoalesceLimits] = LOCAL

    def __init__(self, objects: ObjectStore) -> None:
        self.view = objects.get

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Return a slice per range."""
        return answers_from_views(ranges, self.view)


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


class MmapSource:
    """Slices of mapped files.

    Parameters
    ----------
    objects
        A store on a local disk.
    """

    limits: ClassVar[CoalesceLimits] = LOCAL

    def __init__(self, objects: LocalObjects) -> None:
        self._root = objects.uri
        self._number = next(_numbers)
        # A process that ends has taken its modules apart before the last sources go.
        weakref.finalize(self, _forget, self._number).atexit = False

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Return a slice of the map per range."""
        return answers_from_views(ranges, self.view)

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

"""Reads mapped files: the default for local disks. No thread, no copy, no system call a range.

Touching a mapped page that its file no longer has ends the process (SIGBUS), so every range is
checked against the length that was mapped, and files are looked at again in every call: one that
has become shorter is an error. Segment files never shrink; where one does not trust a disk to keep
that promise between the check and the touch, :class:`~tessel.store.segment.sources.PreadSource` is
the choice.
"""

from __future__ import annotations

import os
from typing import ClassVar, Final

import pyarrow as pa

from tessel.errors import StoreError
from tessel.lazy import dataclass
from tessel.store.objects.base import short_object
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.mapped import file_bytes
from tessel.store.segment.sources.base import (
    LOCAL,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)
from tessel.store.segment.sources.files import FileCache, OpenFiles, object_path, open_object

__all__ = ["MmapSource"]

_cache: Final[FileCache[_File]] = FileCache(256)
"""No descriptors, so the bound is for the memory of small files, and the maps of large ones."""


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

    kind: ClassVar[str] = "mmap"
    limits: ClassVar[CoalesceLimits] = LOCAL

    def __init__(self, objects: LocalObjects) -> None:
        self._root = objects.uri
        self._files: OpenFiles[_File] = OpenFiles(self._open, _cache)

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Return a slice of the map per range."""
        from tessel.store.segment.sources.viewed import answers_from_views

        return answers_from_views(ranges, self.view)

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object."""
        found = self._files.get(name)
        size = found.size()
        if size < found.whole.size:
            raise short_object(name, 0, found.whole.size, size)
        return found.whole

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return int(self.view(name).size)

    def close(self) -> None:
        """Let go of the maps; what was handed out keeps its own alive."""
        self._files.clear()

    def _open(self, name: str) -> _File:
        descriptor = open_object(self._root, name)
        try:
            facts = os.fstat(descriptor)
            whole = file_bytes(descriptor, 0, facts.st_size)
        except OSError as error:
            raise StoreError(f"could not map object {name!r}: {error}", object=name) from error
        finally:
            os.close(descriptor)
        if whole.size != facts.st_size:
            raise short_object(name, 0, facts.st_size, whole.size)
        return _File(object_path(self._root, name), facts.st_ino, whole)

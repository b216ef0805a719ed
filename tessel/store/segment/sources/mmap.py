"""Reads mapped files: the default for local disks. No thread, no copy, no system call a range.

Touching a mapped page that its file no longer has ends the process (SIGBUS), so every range is
checked against the length that was mapped, and files are looked at again in every call: one that
has become shorter is an error. Segment files never shrink; where one does not trust a disk to keep
that promise between the check and the touch, :class:`~tessel.store.segment.sources.PreadSource` is
the choice.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from tessel.errors import StoreError
from tessel.store.objects import LocalObjects
from tessel.store.objects.base import short_object
from tessel.store.segment.sources.base import (
    KEPT_WHOLE,
    ByteRanges,
    CoalesceLimits,
    Integers,
    ReadAnswer,
)
from tessel.store.segment.sources.files import OpenFiles, open_object
from tessel.store.segment.sources.viewed import answers_from_views

__all__ = ["MmapSource"]

_MOST_MAPS: Final = 256
"""Each holds a file descriptor, of which a process often has 1,024."""


@dataclass(frozen=True, slots=True, eq=False)
class _Map:
    """A mapped file; ``pages`` is None for an empty one, which cannot be mapped."""

    pages: mmap.mmap | None
    whole: pa.Buffer


class MmapSource:
    """Slices of mapped files.

    Parameters
    ----------
    objects
        A store on a local disk.
    limits
        How requests are put together.
    """

    kind: ClassVar[str] = "mmap"
    immediate: ClassVar[bool] = True

    def __init__(self, objects: LocalObjects, *, limits: CoalesceLimits = KEPT_WHOLE) -> None:
        self._root = objects.uri
        self._maps: OpenFiles[_Map] = OpenFiles(self._map, _MOST_MAPS)
        self.limits = limits

    def read(self, ranges: ByteRanges, priorities: Integers) -> list[ReadAnswer]:
        """Return a slice of the map per range."""
        return answers_from_views(ranges, self.view)

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object."""
        found = self._maps.get(name)
        if found.pages is not None:
            size = found.pages.size()
            if size < found.whole.size:
                raise short_object(name, 0, found.whole.size, size)
        return found.whole

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return int(self.view(name).size)

    def close(self) -> None:
        """Let go of the maps; what was handed out keeps its own alive."""
        self._maps.clear()

    def _map(self, name: str) -> _Map:
        descriptor = open_object(self._root, name)
        try:
            size = os.fstat(descriptor).st_size
            if size == 0:
                return _Map(None, pa.py_buffer(b""))
            pages = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            # ValueError: the file became shorter after its size was asked for.
            raise StoreError(f"could not map object {name!r}: {error}", object=name) from error
        finally:
            os.close(descriptor)
        return _Map(pages, pa.py_buffer(pages))

"""Reads what is in memory already: stores in memory, blobs that came from another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from tessel.store.objects.base import ObjectStore, object_absent
from tessel.store.segment.sources.base import (
    LOCAL,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)
from tessel.store.segment.sources.viewed import answers_from_views

__all__ = ["MemorySource"]


class MemorySource:
    """Slices of buffers; no thread, no copy.

    Parameters
    ----------
    objects
        A store whose ``get`` does not copy, or buffers by name.
    """

    kind: ClassVar[str] = "memory"
    limits: ClassVar[CoalesceLimits] = LOCAL

    def __init__(self, objects: ObjectStore | Mapping[str, pa.Buffer]) -> None:
        self._objects = objects

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Return a slice per range."""
        return answers_from_views(ranges, self.view)

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object."""
        if not isinstance(self._objects, Mapping):
            return self._objects.get(name)
        found = self._objects.get(name)
        if found is None:
            raise object_absent(name, "memory")
        return found

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return int(self.view(name).size)

    def close(self) -> None:
        """Do nothing: nothing is held."""

"""What a place to read bytes from has to offer, and what it is asked.

Whoever fetches enters here, and whoever adds a source: one file with a class that satisfies
:class:`ReadSource`, and a line in :func:`open_source`, which says what reads a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects

Integers: TypeAlias = npt.NDArray[np.int64]

ReadAnswer: TypeAlias = "pa.Buffer | Exception"
"""The bytes of one range, or why it cannot be read."""

KIB: Final = 1024
MIB: Final = 1024 * 1024


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


LOCAL: Final = CoalesceLimits(4 * KIB, 4 * MIB)
"""Local disks: a seek costs about as much as reading another 4 KiB."""

REMOTE: Final = CoalesceLimits(3 * MIB // 2, 16 * MIB)
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


@runtime_checkable
class Viewing(Protocol):
    """Shows whole objects without reading them. Without it, bytes are asked for by range."""

    def view(self, name: str) -> pa.Buffer:
        """Return all bytes of an object, as a view.

        Raises
        ------
        NotFoundError
            Where there is no such object.
        CorruptStoreError
            Where it has become shorter since it was first looked at.
        """


@singledispatch
def open_source(objects: ObjectStore) -> ReadSource:
    """Return the source that suits a kind of store; a store of another kind registers its own."""
    from tessel.store.segment.sources.requests import ObjectStoreSource

    return ObjectStoreSource(objects)


@open_source.register
def _(objects: LocalObjects) -> ReadSource:
    if objects.mapped:
        from tessel.store.segment.sources.views import MmapSource

        return MmapSource(objects)
    from tessel.store.segment.sources.requests import ObjectStoreSource

    return ObjectStoreSource(objects, in_flight=8, limits=LOCAL)


@open_source.register
def _(objects: MemoryObjects) -> ReadSource:
    from tessel.store.segment.sources.views import MemorySource

    return MemorySource(objects)

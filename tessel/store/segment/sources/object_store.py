"""Reads through any object store: many requests in flight, since each takes its time."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pyarrow as pa

from tessel.errors import OptionError
from tessel.store.objects.base import ObjectStore, short_object
from tessel.store.segment.sources.base import (
    REMOTE,
    ByteRanges,
    CoalesceLimits,
    ReadAnswer,
)
from tessel.store.segment.sources.workers import ReadWorkers

__all__ = ["ObjectStoreSource"]


class ObjectStoreSource:
    """One ``get_range`` per range, in threads; the store itself refuses ranges it does not have.

    Parameters
    ----------
    objects
        Any store.
    in_flight
        Requests at a time.
    limits
        How requests are put together.

    Raises
    ------
    OptionError
        For fewer than one request at a time.
    """

    kind: ClassVar[str] = "object_store"

    def __init__(
        self, objects: ObjectStore, *, in_flight: int = 64, limits: CoalesceLimits = REMOTE
    ) -> None:
        if in_flight < 1:
            raise OptionError(f"a store answers 1 request at a time or more, not {in_flight}")
        self._objects = objects
        self._workers = ReadWorkers(in_flight, "tessel-get")
        self.limits = limits

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        """Make one request per range."""
        places = zip(
            ranges.object.tolist(), ranges.start.tolist(), ranges.end.tolist(), strict=True
        )
        return self._workers.run(
            [[partial(self._get, ranges.names[at], start, end)] for at, start, end in places]
        )

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return self._objects.size(name)

    def close(self) -> None:
        """Cancel what was not started, and wait for what was."""
        self._workers.close()

    def _get(self, name: str, start: int, end: int) -> pa.Buffer:
        if start < 0 or end < start:
            raise short_object(name, start, end - start, 0)
        found = self._objects.get_range(name, start, end - start)
        if found.size != end - start:
            raise short_object(name, start, end - start, start + found.size)
        return found

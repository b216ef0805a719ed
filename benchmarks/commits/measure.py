"""Clocks and counters: what a place was asked, and how long each fsync took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tessel.store.objects import MemoryObjects, ObjectStore


class Puts:
    """What was put at a place, and when."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._put = objects.put_if_absent
        self.listed: list[tuple[str, int, float]] = []
        objects.put_if_absent = self._watched  # type: ignore[method-assign]

    def _watched(self, name: str, data: bytes | pa.Buffer) -> bool:
        self.listed.append((name, len(memoryview(data)), time.perf_counter()))
        return self._put(name, data)

    def restore(self) -> None:
        """Watch no longer."""
        self._objects.put_if_absent = self._put  # type: ignore[method-assign]

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.listed)

    def first(self, kind: str) -> float:
        """Return when the first object of a kind was begun."""
        return min(at for name, _, at in self.listed if name.startswith(kind))


class Asked(MemoryObjects):
    """A place in memory, asked as a cloud would be, that remembers what it was asked."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.requests: list[str] = []

    def get(self, name: str) -> pa.Buffer:
        self.requests.append(_kind(name))
        return super().get(name)

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        self.requests.append(_kind(name))
        return MemoryObjects.get(self, name).slice(offset, length)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        self.requests.append(f"list {prefix}")
        return super().list(prefix, after=after, limit=limit)

    def exists(self, name: str) -> bool:
        self.requests.append(f"exists {_kind(name)}")
        return super().exists(name)

    def size(self, name: str) -> int:
        self.requests.append(f"size {_kind(name)}")
        return super().size(name)


def _kind(name: str) -> str:
    return name.split("/")[0]


class Synced:
    """When fsyncs ran, and the processor time in them; several threads may be in one at once."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self.processor = 0.0

    def add(self, start: float, stop: float, processor: float) -> None:
        self._spans.append((start, stop))
        self.processor += processor

    @property
    def seconds(self) -> float:
        """How long at least one fsync ran."""
        total = until = 0.0
        for start, stop in sorted(self._spans):
            total += max(0.0, stop - max(start, until))
            until = max(until, stop)
        return total


@contextmanager
def fsync_time() -> Iterator[Synced]:
    """Gather how long fsyncs take."""
    found = Synced()
    real = os.fsync

    def watched(fd: Any) -> None:
        start, used = time.perf_counter(), time.thread_time()
        real(fd)
        found.add(start, time.perf_counter(), time.thread_time() - used)

    os.fsync = watched
    try:
        yield found
    finally:
        os.fsync = real

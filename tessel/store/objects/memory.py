"""Objects in the memory of this process, for tests, examples and scratch work.

``memory://name`` is the same store wherever it is opened in the process. ``memory://`` alone makes
a new one, which lives as long as something refers to it and can be opened again by its ``uri``.
"""

from __future__ import annotations

import bisect
import time
import uuid
import weakref
from collections.abc import Iterator

import pyarrow as pa

from tessel.forking import ChildSafeLock
from tessel.store.objects.base import ObjectFacts, check_name, object_absent, short_object

_lock = ChildSafeLock()


class MemoryObjects:
    """A dictionary of objects; satisfies :class:`~tessel.store.objects.base.ObjectStore`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        """``memory://`` and the name."""
        self._data: dict[str, pa.Buffer] = {}
        self._modified_us: dict[str, int] = {}
        self._names: list[str] = []
        """Sorted: each commit lists the log, of which it wants a few of many names."""

    def __repr__(self) -> str:
        return f"<MemoryObjects {self.uri!r}: {len(self._data)} objects>"

    @staticmethod
    def named(name: str) -> MemoryObjects:
        """Return the store of that name, made where there is none; a new one for no name."""
        with _lock:
            if not name:
                name = uuid.uuid4().hex
                return _unnamed.setdefault(name, MemoryObjects(f"memory://{name}"))
            if name in _unnamed:
                return _unnamed[name]
            return _named.setdefault(name, MemoryObjects(f"memory://{name}"))

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object unless one of that name exists; the bytes are copied."""
        kept = pa.py_buffer(bytes(memoryview(data)))
        with _lock:
            if self._data.setdefault(check_name(name), kept) is not kept:
                return False
            self._modified_us[name] = time.time_ns() // 1000
            bisect.insort(self._names, name)
            return True

    def get(self, name: str) -> pa.Buffer:
        """Return the bytes of an object."""
        with _lock:
            found = self._data.get(check_name(name))
        if found is None:
            raise object_absent(name, self.uri)
        return found

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of an object, without a copy."""
        whole = self.get(name)
        if offset < 0 or length < 0 or offset + length > whole.size:
            raise short_object(name, offset, length, whole.size)
        return whole.slice(offset, length)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        """Yield the names that start with ``prefix``, sorted."""
        with _lock:
            names = self._names
            start = bisect.bisect_left(names, prefix)
            stop = bisect.bisect_right(names, prefix, key=lambda name: name[: len(prefix)])
            if after is not None:
                start = max(start, bisect.bisect_right(names, after))
            found = names[start : stop if limit is None else min(stop, start + limit)]
        yield from found

    def delete(self, name: str) -> None:
        """Remove an object."""
        with _lock:
            if self._data.pop(name, None) is not None:
                del self._names[bisect.bisect_left(self._names, name)]
            self._modified_us.pop(name, None)

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        return int(self.get(name).size)

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        with _lock:
            return name in self._data

    def inventory(self, prefix: str = "") -> Iterator[ObjectFacts]:
        """Yield names, sizes and times of writing."""
        for name in self.list(prefix):
            with _lock:
                data, modified_us = self._data.get(name), self._modified_us.get(name, 0)
            if data is not None:
                yield ObjectFacts(name, int(data.size), modified_us)

    def modified_us(self, name: str) -> int:
        """Return when an object was written."""
        with _lock:
            found = self._modified_us.get(check_name(name))
        if found is None:
            raise object_absent(name, self.uri)
        return found


_named: dict[str, MemoryObjects] = {}
_unnamed: weakref.WeakValueDictionary[str, MemoryObjects] = weakref.WeakValueDictionary()

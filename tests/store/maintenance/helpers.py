"""What the tests of maintenance share: memory whose objects age; an oracle of what is needed."""

from __future__ import annotations

import re
from datetime import timedelta

import pyarrow as pa

from tessel.errors import StoreError
from tessel.store import Repository
from tessel.store.manifest.manifest import Manifest
from tessel.store.names import STORE, log_name, segment_name
from tessel.store.objects import MemoryObjects
from tests.store.helpers import read

DAY = timedelta(days=1)
LONG = 30 * DAY
_REFERENCE = re.compile(rb"(?:leaf|refs|man)/[0-9a-f]{32}")


class AgingObjects(MemoryObjects):
    """Memory whose objects can be made older, and whose deletes can be made to fail."""

    def __init__(self, uri: str = "memory://aging") -> None:
        super().__init__(uri)
        self.deletes_left = 10**9
        self.deleted: list[str] = []

    def age(self, by: timedelta, prefix: str = "") -> None:
        """Make all objects of a prefix older."""
        for name in self._modified_us:
            if name.startswith(prefix):
                self._modified_us[name] -= by // timedelta(microseconds=1)

    def newest_us(self) -> int:
        """Return when the newest object was written."""
        return max(self._modified_us.values())

    def delete(self, name: str) -> None:
        if self.deletes_left <= 0:
            raise StoreError(f"the process was killed before it deleted {name}")
        self.deletes_left -= 1
        self.deleted.append(name)
        super().delete(name)

    def copy(self) -> AgingObjects:
        """Return the same objects, of the same age, somewhere else."""
        other = AgingObjects()
        other._data, other._modified_us = dict(self._data), dict(self._modified_us)
        other._names = sorted(other._data)
        return other

    def replaced(self, name: str, data: bytes | None) -> AgingObjects:
        """Return the same objects with one of them other than it was, or missing."""
        other = self.copy()
        if data is None:
            MemoryObjects.delete(other, name)
        else:
            other._data[name] = pa.py_buffer(data)
            other._names = sorted(other._data)
        return other


def opened(objects: MemoryObjects, *, read_only: bool = False, branch: str = "main") -> Repository:
    """Return the store in some objects as another process would see it."""
    return Repository(objects, "id", read_only=read_only, branch=branch)


def contents(repository: Repository, number: int) -> dict[str, list[object]]:
    """Return the values of every symbol at a version."""
    return {
        name: read(repository.view(name, number)).column("x").to_pylist()
        for name in repository.symbols(as_of=number)
    }


def needed(objects: MemoryObjects, versions: set[int]) -> set[str]:
    """Return the objects that versions refer to, by the text of the documents.

    Exact where every node of the symbol index is in an object of its own, or in the log entry.
    """
    waiting = [log_name(number) for number in versions]
    found = {STORE}
    references = {}
    for number in versions:
        snapshot = opened(objects).history.on_branch(number, "main").snapshot
        for state in snapshot.values():
            references |= {e.reference.object: e.reference for e in state.manifests}
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name.startswith("man/"):
            ids = Manifest(objects, references[name]).segments.column("object").to_pylist()
            found |= {segment_name(each) for each in ids}
        else:
            data = objects.get(name).to_pybytes()
            waiting += [match.decode() for match in _REFERENCE.findall(data)]
    return found

"""What the tests of the history share: symbols without rows, places that count and fail."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from tessel.errors import CorruptStoreError
from tessel.expression.schema import TableSchema
from tessel.store.history.changes import Change, Removal, Replacement
from tessel.store.history.history import History
from tessel.store.history.symbol import SymbolState
from tessel.store.history.versions import Commit
from tessel.store.names import STORE
from tessel.store.objects import MemoryObjects
from tests.store.helpers import new_place

_ids = itertools.count(1)


def state(value: object, *, identity: int | None = None, columns: int = 1) -> SymbolState:
    """Return a symbol without rows, told from others by its metadata."""
    schema = TableSchema(pa.schema([(f"column{n}", pa.int64()) for n in range(columns)]))
    ids = {name: at for at, name in enumerate(schema.names)}
    number = next(_ids) if identity is None else identity
    return SymbolState(number, schema, ids, len(ids), metadata={"value": value})


def values(commit: Commit) -> dict[str, object]:
    """Return the value of each symbol at a version."""
    return {name: found.metadata["value"] for name, found in commit.snapshot.items()}


def put(history: History, branch: str, changes: Mapping[str, object], message: str = "") -> int:
    """Commit values (None deletes) on a branch and return the version."""
    base = history.newest(branch)
    return history.commit(base, changes_of(changes), message).number


def changes_of(changes: Mapping[str, object]) -> Sequence[Change]:
    """Return what sets symbols to values; None deletes one."""
    return [
        Removal(name) if value is None else Replacement(name, state(value))
        for name, value in changes.items()
    ]


class CountingObjects(MemoryObjects):
    """Memory that remembers what was asked of it, and may call back before a put."""

    def __init__(self, uri: str = "memory://counting") -> None:
        super().__init__(uri)
        self.reads: list[str] = []
        self.puts: list[tuple[str, int]] = []
        self.before_put: Callable[[str], None] = lambda name: None
        MemoryObjects.put_if_absent(self, STORE, new_place("memory://made").get(STORE))

    def forget(self) -> None:
        """Begin to count anew."""
        self.reads, self.puts = [], []

    @property
    def put_kinds(self) -> Counter[str]:
        """How many objects of each kind were put."""
        return Counter(name.split("/")[0] for name, _ in self.puts)

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        self.before_put(name)
        self.puts.append((name, len(memoryview(data))))
        return super().put_if_absent(name, data)

    def get(self, name: str) -> pa.Buffer:
        self.reads.append(name)
        return super().get(name)

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        self.reads.append(name)
        whole = MemoryObjects.get(self, name)
        if offset + length > whole.size:
            raise CorruptStoreError(f"{name} is cut short")
        return whole.slice(offset, length)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        self.reads.append(f"list {prefix}")
        return super().list(prefix, after=after, limit=limit)

    def exists(self, name: str) -> bool:
        self.reads.append(f"exists {name}")
        return super().exists(name)


@contextlib.contextmanager
def small_nodes() -> Iterator[None]:
    """Make the nodes of the symbol index so small that a few symbols need a deep tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tessel.store.history.leaves.LEAF_SYMBOLS", 8)
        patch.setattr("tessel.store.history.leaves.LEAF_BYTES", 800)
        patch.setattr("tessel.store.history.leaves.INNER_CHILDREN", 8)
        patch.setattr("tessel.store.history.tree.INNER_CHILDREN", 8)
        patch.setattr("tessel.store.history.tree.ROOT_CHILDREN", 3)
        patch.setattr("tessel.store.history.tree.ROOT_BYTES", 200)
        patch.setattr("tessel.store.history.tree._OBJECT_BYTES", 2_000)
        yield

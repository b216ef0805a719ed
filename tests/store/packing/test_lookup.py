"""The lookup from manifests to symbols, where it is damaged or contradicts the symbols."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tessel.errors import CorruptStoreError
from tessel.store.history.leaves import Leaf
from tessel.store.history.snapshot import Lookup, Snapshot
from tessel.store.history.tree import Nodes
from tessel.store.manifest.packing.snapshot_membership import SnapshotMembership
from tessel.store.objects import MemoryObjects
from tessel.store.repository import Repository
from tests.store.helpers import new_place

SHARED = {"sets": [{"name": "small"}], "rules": [{"target": "small"}]}
"""One manifest for all symbols, packed by closure, and so with a lookup."""

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})


@pytest.mark.parametrize(
    ("key", "document"),
    [
        ("small", {"name": "a", "segments": 1}),
        ("small/00/zz", {"name": "a", "segments": 1}),
        ("small/00/01/02", {"name": "a", "segments": 1}),
        ("small/00/01", {"name": 7, "segments": 1}),
        ("small/00/01", {"name": "a", "segments": -1}),
        ("small/00/01", {"name": "a"}),
    ],
)
def test_an_entry_that_cannot_be_is_refused(key: str, document: dict[str, object]) -> None:
    nodes = Nodes(MemoryObjects("memory://damaged"))
    lookup = Lookup(nodes, Leaf([(key, document)], "leaf/x"))
    with pytest.raises(CorruptStoreError, match="is damaged"):
        list(lookup)


def test_a_member_that_is_no_symbol_is_noticed_before_anything_is_packed() -> None:
    store = Repository(new_place("memory://contradiction"), "id", read_only=False)
    store.set_manifest_configuration(SHARED)
    with store.transaction() as changes:
        changes.write("a", ROWS)
        changes.write("b", ROWS)
    snapshot = store.at(None).snapshot
    (extent,) = snapshot["a"].manifests
    key = f"small/{extent.reference.object.removeprefix('man/')}/{12345:016x}"
    lie = Leaf([(key, {"name": "b", "segments": 1})], "leaf/x")
    membership = SnapshotMembership(Snapshot(snapshot.nodes, snapshot.root, lie), store.manifest)
    membership.know("a", snapshot["a"])
    (manifest,) = membership.manifests_of(snapshot["a"].id)
    assert membership.members_of(manifest) == {12345: 1}
    with pytest.raises(CorruptStoreError, match="'b'"):
        membership.manifests_of(12345)


def test_a_revert_brings_the_lookup_back_with_the_symbols() -> None:
    store = Repository(new_place("memory://revert"), "id", read_only=False)
    store.set_manifest_configuration(SHARED)
    store.write("a", ROWS)
    before = list(store.at(None).snapshot.lookup)
    store.write("b", ROWS)
    store.delete("b")
    store.write("a", ROWS)
    store.revert(2)
    assert list(store.at(None).snapshot.lookup) == before

"""What the proofs of this folder have found, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tessel.api import Store
from tessel.errors import CommitConflictError, CorruptStoreError, InvalidInputError
from tessel.options import options
from tessel.store.history.documents import open_store
from tessel.store.maintenance.fsck import check_store
from tessel.store.transaction import Transaction
from tests.store.maintenance.helpers import AgingObjects, opened


def test_rows_are_not_taken_twice_where_the_version_that_took_them_has_expired() -> None:
    store = Store.open("memory://")
    store.write("s", {"x": [1]})
    staged = store.stage("s", {"x": [2]}, task_id="t")
    landed = store.finalize("s", [staged], mode="append")
    store.write("other", {"x": [1]})
    assert store.finalize("s", [staged], mode="append") == landed
    store.expire(landed + 1, dry_run=False)
    version = store.version
    with pytest.raises(InvalidInputError, match="has expired"):
        store.finalize("s", [staged], mode="append")
    assert store.version == version
    assert store.read("s").to_arrow().column("x").to_pylist() == [1, 2]


def test_rows_that_were_staged_after_what_has_expired_are_taken() -> None:
    store = Store.open("memory://")
    store.write("s", {"x": [1]})
    store.write("s", {"x": [2]})
    store.expire(2, dry_run=False)
    staged = store.stage("s", {"x": [3]}, task_id="t")
    store.expire(3, dry_run=False)
    assert store.finalize("s", [staged], mode="append") == store.version
    assert store.read("s").to_arrow().column("x").to_pylist() == [2, 3]


@pytest.mark.parametrize("verb", ["append", "write"])
def test_a_symbol_gets_an_index_in_a_transaction_that_wrote_it_without(verb: str) -> None:
    store = Store.open("memory://")
    store.write("s", {"t": [3, 1]})
    with store.transaction() as transaction:
        getattr(transaction, verb)("s", {"t": [5, 4]})
        transaction.write("s", {"t": [1, 2]}, index="t")
        assert transaction.read("s").column("t").to_pylist() == [1, 2]
        transaction.update("s", {"t": [2, 2]})
    assert store.read("s").to_arrow().column("t").to_pylist() == [1, 2, 2]
    with store.transaction() as transaction:
        transaction.write("s", {"t": [9, 8]})
        transaction.write("s", {"t": [4]}, index="t")
    assert store.read("s").to_arrow().column("t").to_pylist() == [4]
    assert store.check().damages == []


def test_what_was_changed_back_and_packed_elsewhere_does_not_differ() -> None:
    store = Store.open("memory://")
    with options(segment_rows=2):
        store.write("s", {"t": range(9)}, index="t")
        store.write("neighbour", {"x": [1]})
    before = store.version
    store.append("s", {"t": [20]})
    store.revert(before)
    assert not store.diff(before)
    store.repack({"sets": [{"name": "one", "max_segments": 2}], "rules": [{"target": "one"}]})
    assert store.view("s").row_count == 9
    assert not store.diff(before)
    store.delete_rows("s", rows=(3, 4))
    (changed,) = store.diff(before).changed
    assert changed.symbol == "s"


def test_a_check_says_which_lease_keeps_everything_from_collection() -> None:
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    store = opened(objects)
    store.write("s", {"x": [1]})
    with store.lease():
        (name,) = objects.list("lease/")
        damaged = opened(objects.replaced(name, objects.get(name).to_pybytes()[:20]))
        with pytest.raises(CorruptStoreError, match=name):
            damaged.gc(minimum_age=timedelta(0), dry_run=False)
        assert [damage.object for damage in check_store(damaged).damages] == [name]
        assert check_store(store).damages == []


# --- beside a compaction --------------------------------------------------------------------------

Act = Callable[[Transaction], object]


def _beside_a_compaction(act: Act) -> tuple[Store, Transaction]:
    """Return a transaction that did something before a symbol was compacted."""
    store = Store.open("memory://")
    store.write("s", {"x": [0]})
    for value in range(1, 4):
        store.append("s", {"x": [value]})
    store.write("other", {"x": [7]})
    late = store.transaction()
    act(late)
    assert store.compact("s", target=4).version == store.version == 6
    return store, late


def _fill_and_drop(tx: Transaction) -> None:
    tx.add_column("s", "f", 1)
    tx.drop_column("s", "f")


def _fill_and_rename(tx: Transaction) -> None:
    tx.add_column("s", "f", [1, 2, 3, 4])
    tx.rename_symbol("s", "z")


@pytest.mark.parametrize(
    "act", [lambda tx: tx.add_column("s", "f", 1), _fill_and_drop, _fill_and_rename]
)
def test_a_column_with_values_does_not_land_after_a_compaction(act: Act) -> None:
    store, late = _beside_a_compaction(act)
    with pytest.raises(CommitConflictError, match="version 6 came first: symbol 's' was compacted"):
        late.commit()
    assert store.version == 6
    assert store.read("s").to_arrow().to_pydict() == {"x": [0, 1, 2, 3]}


def _write_and_fill(tx: Transaction) -> None:
    tx.write("s", {"x": [5]})
    tx.add_column("s", "f", 1)


def _empty_and_fill(tx: Transaction) -> None:
    tx.delete_rows("s", rows=(0, 4))
    tx.add_column("s", "f", 1)


def _delete_and_take_its_name(tx: Transaction) -> None:
    tx.delete("s")
    tx.rename_symbol("other", "s")


def _rename_and_take_its_name(tx: Transaction) -> None:
    tx.rename_symbol("s", "z")
    tx.rename_symbol("other", "s")


def _fill_and_take_its_name(tx: Transaction) -> None:
    tx.add_column("s", "f", 1)
    tx.add_column("other", "g", 2)
    tx.delete("s")
    tx.rename_symbol("other", "s")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (_write_and_fill, {"other": {"x": [7]}, "s": {"x": [5], "f": [1]}}),
        (_empty_and_fill, {"other": {"x": [7]}, "s": {"x": [], "f": []}}),
        (_delete_and_take_its_name, {"s": {"x": [7]}}),
        (_rename_and_take_its_name, {"s": {"x": [7]}, "z": {"x": [0, 1, 2, 3]}}),
        (_fill_and_take_its_name, {"s": {"x": [7], "g": [2]}}),
    ],
)
def test_other_changes_land_after_a_compaction(
    act: Act, expected: dict[str, dict[str, list[int]]]
) -> None:
    store, late = _beside_a_compaction(act)
    assert late.commit() == store.version == 7
    for name in store.symbols():
        assert store.read(name).to_arrow().to_pydict() == expected.pop(name)
    assert not expected
    assert store.check().damages == []

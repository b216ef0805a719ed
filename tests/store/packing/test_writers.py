"""Writers that pack the same closure at once: their changes are of different symbols, and all land.

What one packs of a symbol that another has moved meanwhile is left out, so a set can have more
manifests than its cardinality until it is packed the next time. Nothing else may be wrong.
"""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.options import options
from tessel.store.history.changes import Repacking
from tessel.store.history.history import History
from tessel.store.manifest.packing import ManifestConfiguration
from tessel.store.repository import Repository
from tests.store.helpers import assert_same, new_place, read
from tests.store.packing.laws import check_extents, check_limits, check_lookup

COMMITS = 12


def table(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def _work(repository: Repository, writer: int) -> None:
    own = f"writer{writer}"
    for number in range(COMMITS):
        if number % 3 == 2:
            repository.append(own, table(-number))
        else:
            repository.write(own, table(writer, number))


def _expected(writer: int) -> pa.Table:
    last = COMMITS - 1
    assert last % 3 == 2
    return table(writer, last - 1, -last)


def _check(repository: Repository, writers: int) -> None:
    for writer in range(writers):
        assert_same(read(repository.view(f"writer{writer}")), _expected(writer))
    assert_same(read(repository.view("bystander")), table(1, 2, 3))
    assert repository.versions("bystander") == [1]
    assert repository.newest == 1 + writers * COMMITS
    for number in range(1, repository.newest + 1):
        check_lookup(repository.at(number).snapshot)
    check_extents(repository)
    # The next packing of the set puts right what came together by chance.
    repository.write("last", table(0))
    check_limits(repository, ManifestConfiguration())


def test_threads_that_pack_one_closure_all_land() -> None:
    objects = new_place("memory://writers")
    repository = Repository(objects, "id", read_only=False)
    repository.write("bystander", table(1, 2, 3))
    failures: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            own = repository if writer % 2 else Repository(objects, "id", read_only=False)
            _work(own, writer)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    _check(repository, 4)


def _process(uri: str, writer: int) -> None:
    with options(fsync=False):
        _work(Repository.open(uri), writer)


def test_processes_that_pack_one_closure_all_land(tmp_path: Path) -> None:
    uri = str(tmp_path / "store")
    with options(fsync=False):
        Repository.open(uri).write("bystander", table(1, 2, 3))
        spawn = multiprocessing.get_context("spawn")
        processes = [spawn.Process(target=_process, args=(uri, writer)) for writer in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * 4
        _check(Repository.open(uri), 4)


# --- one race after another, made by hand ---------------------------------------------------------


@pytest.fixture
def store() -> Repository:
    repository = Repository(new_place("memory://races"), "id", read_only=False)
    with repository.transaction() as changes:
        for name in "abc":
            changes.write(name, table(1, 2, 3))
    return repository


@pytest.mark.parametrize("verb", ["write", "append", "delete_rows", "rename", "delete", "repack"])
def test_ours_is_packed_after_theirs_changed_a_sharer(store: Repository, verb: str) -> None:
    ours = store.transaction()
    ours.write("a", table(7))
    expected = {"a": table(7), "b": table(1, 2, 3), "c": table(1, 2, 3)}
    if verb == "write":
        store.write("b", table(8))
        expected["b"] = table(8)
    elif verb == "append":
        store.append("b", table(8))
        expected["b"] = table(1, 2, 3, 8)
    elif verb == "delete_rows":
        store.delete_rows("b", rows=(1, 2))
        expected["b"] = table(1, 3)
    elif verb == "rename":
        store.rename_symbol("b", "d")
        expected["d"] = expected.pop("b")
    elif verb == "delete":
        store.delete("b")
        del expected["b"]
    else:
        store.repack(ManifestConfiguration(sets=(), rules=()))
    changed = {name: state.changed for name, state in store.at(None).snapshot.items()}
    ours.commit()
    snapshot = store.at(None).snapshot
    assert list(snapshot) == sorted(expected)
    for name, rows in expected.items():
        assert_same(read(store.view(name)), rows)
        assert name == "a" or snapshot[name].changed == changed[name]
    check_lookup(snapshot)
    check_extents(store)


def test_a_repack_gives_way_to_whatever_landed_first(store: Repository) -> None:
    before = store.history.newest()
    state = before.snapshot["b"]
    store.write("b", table(9))
    moved = Repacking("b", state.id, state.manifests, state.manifests)
    store.history.commit(before, [moved], "late")
    assert_same(read(store.view("b")), table(9))
    assert not History(store.objects).entry(store.newest).changes
    assert store.versions("b") == [1, 2]


def test_a_repack_is_no_difference_and_is_reverted_by_nothing(store: Repository) -> None:
    version = store.newest
    report = store.repack(ManifestConfiguration(sets=(), rules=()))
    assert (report.symbols, report.version) == (3, version + 1)
    assert not store.diff(version, report.version)
    assert store.revert(version) == report.version
    store.write("b", table(4))
    store.revert(version)
    for name in "abc":
        assert_same(read(store.view(name)), table(1, 2, 3))
    check_lookup(store.at(None).snapshot)
    assert [each.change for each in store.log()][-2:] == ["write", "write"]
    assert "repack" in [each.change for each in store.log()]

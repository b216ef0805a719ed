"""Collection: what is needed stays, what is dead and old goes, whatever happens on the way."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tessel.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptStoreError,
    FormatVersionError,
    InvalidInputError,
    LeaseExpiredError,
    ReadOnlyStoreError,
    SnapshotExpiredError,
    StoreError,
)
from tessel.store import Repository
from tessel.store.history.documents import FORMAT, open_store, seal
from tessel.store.maintenance import leases
from tessel.store.maintenance.fsck import check_store
from tessel.store.maintenance.leases import put_lease
from tessel.store.names import log_name
from tessel.store.objects import LocalObjects
from tessel.store.objects.local import TEMPORARY
from tests.store.history.helpers import small_nodes
from tests.store.maintenance.helpers import DAY, LONG, AgingObjects, contents, needed, opened


def _grown(symbols: int = 3, rounds: int = 4) -> AgingObjects:
    """Return a store with a history, an aborted transaction, and nothing expired."""
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    repository = opened(objects)
    for number in range(rounds):
        for symbol in range(symbols):
            repository.write(f"s{symbol}", {"x": [number, symbol]})
    repository.create_tag("first", at=2)
    repository.create_branch("dev", at=3)
    with contextlib.suppress(RuntimeError), repository.transaction() as transaction:
        transaction.write("lost", {"x": [1]})
        transaction._stage.flush()
        raise RuntimeError("never lands")
    return objects


def _expired(objects: AgingObjects, number: int) -> Repository:
    repository = opened(objects)
    repository.expire(number, dry_run=False)
    objects.age(LONG)
    return repository


def _kept(repository: Repository) -> set[int]:
    refs = repository.history.refs()
    newest = repository.history.newest_number
    return {number for number in range(1, newest + 1) if refs.keeps(number)}


def test_a_dry_run_changes_nothing_and_counts_what_a_real_one_takes() -> None:
    objects = _grown()
    kept = _kept(_expired(objects, 10))
    before = set(objects.list())
    report = opened(objects, read_only=True).gc()
    assert set(objects.list()) == before
    assert report.dry_run
    assert report.deleted.objects == 0
    dead = {kind: (tally.objects, tally.bytes) for kind, tally in report.dead.items()}
    garbage = before - needed(objects, kept)
    counted = Counter(name.split("/")[0] for name in garbage)
    assert {kind: count for kind, (count, _) in dead.items()} == counted
    assert counted.keys() == {"log", "man", "seg"}
    assert report.dead_bytes == sum(objects.size(name) for name in garbage)
    real = opened(objects).gc(dry_run=False)
    assert {kind: (tally.objects, tally.bytes) for kind, tally in real.dead.items()} == dead
    assert real.deleted.objects == sum(count for count, _ in dead.values())
    assert real.deleted.bytes == real.dead_bytes == sum(size for _, size in dead.values())
    assert opened(objects).gc().dead == {}


def test_what_is_needed_stays_and_the_rest_goes() -> None:
    objects = _grown()
    repository = _expired(objects, 10)
    wanted = {number: contents(repository, number) for number in _kept(repository)}
    old = set(objects.list()) - needed(objects, _kept(repository))
    assert old
    repository.gc(dry_run=False)
    assert set(objects.list()) == needed(objects, _kept(repository))
    again = opened(objects)
    assert {number: contents(again, number) for number in wanted} == wanted
    with pytest.raises(SnapshotExpiredError):
        again.view("s0", 5)
    assert check_store(again).orphans == 0


def test_young_objects_stay() -> None:
    objects = _grown()
    repository = opened(objects)
    repository.expire(10, dry_run=False)
    before = set(objects.list())
    report = repository.gc(dry_run=False)
    assert (set(objects.list()), report.dead) == (before, {})
    assert {"log", "man", "seg"} <= set(report.young)
    objects.age(timedelta(hours=23))
    assert repository.gc(dry_run=False).dead == {}
    # Log entries are left alone for six hours, whatever is asked for.
    objects = _grown()
    opened(objects).expire(10, dry_run=False)
    report = opened(objects).gc(minimum_age=timedelta(0), dry_run=False)
    assert set(report.dead) == {"man", "seg"}
    assert report.young["log"].objects > 0


def test_a_collection_without_anything_to_take_makes_no_version() -> None:
    objects = _grown()
    repository = opened(objects)
    objects.age(LONG)
    repository.gc(dry_run=False)
    version = repository.newest
    repository.gc(dry_run=False)
    assert repository.newest == version


def _killed(repository: Repository) -> bool:
    try:
        repository.gc(dry_run=False)
    except StoreError:
        return True
    return False


def test_killed_at_every_delete_and_begun_again() -> None:
    objects = _grown()
    repository = _expired(objects, 10)
    kept = _kept(repository)
    wanted = {number: contents(repository, number) for number in kept}
    killed = 0
    for deletes in range(10_000):
        copy = objects.copy()
        copy.deletes_left = deletes
        if not _killed(opened(copy)):
            break
        killed += 1
        copy.deletes_left = 10**9
        survivor = opened(copy)
        assert check_store(survivor).damages == []
        assert {number: contents(survivor, number) for number in kept} == wanted
        copy.age(LONG)
        survivor.gc(dry_run=False)
        assert set(copy.list()) == needed(copy, _kept(survivor))
    assert killed >= 15


def _unreadable(objects: AgingObjects) -> Iterator[tuple[str, AgingObjects]]:
    kept = needed(objects, _kept(opened(objects)))
    for name in sorted(kept - {"store.json"}):
        data = objects.get(name).to_pybytes()
        if not name.startswith("seg/"):  # the bytes of segments refer to nothing
            yield name, objects.replaced(name, data[:-1] + bytes([data[-1] ^ 1]))
            if name != next(objects.list("log/")):
                yield name, objects.replaced(name, None)


def test_anything_unreadable_and_nothing_is_deleted() -> None:
    objects = _grown()
    _expired(objects, 10)
    cases = 0
    for name, damaged in _unreadable(objects):
        for dry_run in (True, False):
            before = set(damaged.list())
            with pytest.raises(StoreError, match="nothing was deleted") as caught:
                opened(damaged).gc(dry_run=dry_run)
            assert name in str(caught.value)
            assert set(damaged.list()) == before
        cases += 1
    assert cases > 20


@pytest.mark.parametrize("name", ["conf/x", "Notes.TXT", "seg/aa/xx", "log/1", "man/zz"])
def test_anything_unknown_and_nothing_is_deleted(name: str) -> None:
    objects = _grown()
    _expired(objects, 10)
    strange = objects.replaced(name, b"?")
    strange._modified_us[name] = 0
    before = set(strange.list())
    with pytest.raises(FormatVersionError, match=f"'{name}' is of no kind"):
        opened(strange).gc(dry_run=False)
    assert set(strange.list()) == before


def test_an_entry_of_a_newer_format_and_nothing_is_deleted() -> None:
    objects = _grown()
    _expired(objects, 10)
    newest = opened(objects).history.newest_number
    name = log_name(newest + 1)
    document = seal({"format": FORMAT, "version": [9, 0], "number": newest + 1})
    newer = objects.replaced(name, document)
    newer._modified_us[name] = 0
    before = set(newer.list())
    with pytest.raises(FormatVersionError, match=r"9\.0"):
        opened(newer).gc(dry_run=False)
    assert set(newer.list()) == before


@pytest.mark.parametrize("age", [timedelta(-1), 5, None, "1d"])
def test_ages_that_are_none(age: object) -> None:
    with pytest.raises(InvalidInputError, match="is no age"):
        opened(_grown()).gc(minimum_age=age)  # type: ignore[arg-type]


def test_a_store_that_is_read_only_is_looked_at_only() -> None:
    repository = opened(_grown(), read_only=True)
    repository.gc()
    repository.expire(3)
    for act in (repository.gc, lambda **_: repository.expire(3, dry_run=False)):
        with pytest.raises(ReadOnlyStoreError):
            act(dry_run=False)
    with pytest.raises(ReadOnlyStoreError):
        repository.lease()


def test_a_deep_symbol_index_is_walked_and_shared_nodes_stay() -> None:
    with small_nodes():
        objects = _grown(symbols=40, rounds=2)
        repository = _expired(objects, 60)
        assert sum(name.startswith("leaf/") for name in objects.list()) > 40
        wanted = {number: contents(repository, number) for number in sorted(_kept(repository))[:8]}
        report = repository.gc(dry_run=False)
        assert report.dead["leaf"].objects > 10
        again = opened(objects)
        assert {number: contents(again, number) for number in wanted} == wanted
        assert check_store(again).damages == []


# --- writers that are at work ---------------------------------------------------------------------


def test_a_writer_whose_objects_were_condemned_is_refused() -> None:
    objects = _grown()
    repository = opened(objects)
    transaction = repository.transaction()
    transaction.write("slow", {"x": [1]})
    transaction._stage.flush()
    objects.age(LONG)
    opened(objects).gc(dry_run=False)
    transaction.write("late", {"x": [2]})
    with pytest.raises(LeaseExpiredError, match="nothing of it landed") as caught:
        transaction.commit()
    assert caught.value.attributes["object"].startswith(("seg/", "man/"))
    assert "slow" not in opened(objects).symbols()
    assert check_store(opened(objects)).damages == []


def test_a_writer_whose_objects_are_young_lands_after_a_collection() -> None:
    objects = _grown()
    objects.age(LONG)
    repository = opened(objects)
    with repository.transaction() as transaction:
        transaction.write("quick", {"x": [1]})
        transaction._stage.flush()
        assert opened(objects).gc(dry_run=False).deleted.objects > 0
    assert contents(opened(objects), transaction.landed)["quick"] == [1]


def test_a_long_writer_leases_what_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(leases, "seconds", lambda: now[0])
    objects = _grown()
    repository = _expired(objects, 10)
    with repository.transaction() as transaction:
        transaction.write("slow", {"x": [1]})
        transaction._stage.flush()
        objects.age(timedelta(hours=20))
        for name in ("slow too", "slower"):
            now[0] += 7 * 3600
            transaction.write(name, {"x": [2]})
            transaction._stage.flush()
            assert len(list(objects.list("lease/"))) == 1  # the first one is renewed
        report = opened(objects).gc(minimum_age=timedelta(hours=1), dry_run=False)
        assert report.deleted.objects > 0
        assert report.leased["seg"].objects > 0
    assert list(objects.list("lease/")) == []
    found = contents(opened(objects), transaction.landed)
    assert [found[name] for name in ("slow", "slow too", "slower")] == [[1], [2], [2]]


def test_a_lease_that_has_ended_protects_nothing_and_is_collected() -> None:
    objects = _grown()
    _expired(objects, 10)
    put_lease(objects, lasting_seconds=3600, since_us=0, versions=(5,))
    assert opened(objects).gc(dry_run=False).deleted.objects == 0
    objects.age(2 * DAY)
    report = opened(objects).gc(dry_run=False)
    assert report.dead["lease"].objects == 1
    assert list(objects.list("lease/")) == []
    assert report.deleted.objects > 10


def test_a_lease_that_cannot_be_read_and_nothing_is_deleted() -> None:
    objects = _grown()
    _expired(objects, 10)
    name = put_lease(objects, lasting_seconds=3600)
    for data in (b"", objects.get(name).to_pybytes()[:-1]):
        damaged = objects.replaced(name, data)
        with pytest.raises(CorruptStoreError, match=name):
            opened(damaged).gc(dry_run=False)
        assert set(damaged.list()) - set(objects.list()) == set()


# --- numbers that are free again ------------------------------------------------------------------


def test_an_idle_writer_does_not_land_on_a_number_that_was_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    for module in ("versions", "committer"):
        monkeypatch.setattr(f"tessel.store.history.{module}.seconds", lambda: now[0])
    objects = _grown()
    idle = opened(objects)
    known = idle.write("idle", {"x": [0]})
    for number in range(5):
        opened(objects).write("busy", {"x": [number]})
    opened(objects).expire(known + 4, dry_run=False)
    objects.age(LONG)
    opened(objects).gc(dry_run=False)
    assert not objects.exists(log_name(known + 1))
    now[0] += 7 * 24 * 3600
    landed = idle.write("idle", {"x": [1]})
    assert landed == opened(objects).newest > known + 5
    assert contents(opened(objects), landed)["idle"] == [1]


@pytest.mark.parametrize("follower", [True, False])
def test_a_writer_that_was_stopped_at_its_entry_notices_that_the_number_was_taken(
    follower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    for module in ("versions", "committer"):
        monkeypatch.setattr(f"tessel.store.history.{module}.seconds", lambda: now[0])
    objects = _grown()
    stopped = opened(objects)
    number = stopped.history.newest_number + 1
    put = objects.put_if_absent

    def stop(name: str, data: bytes) -> bool:
        if name != log_name(number):
            return put(name, data)
        monkeypatch.setattr(objects, "put_if_absent", put)
        for value in range(6):
            opened(objects).write("busy", {"x": [value]})
        if follower:
            opened(objects).create_tag("follower", at=number + 1)
        opened(objects).expire(number + 3, dry_run=False)
        objects.age(LONG)
        opened(objects).gc(dry_run=False)
        assert not objects.exists(name)
        now[0] += 30 * 24 * 3600
        return put(name, data)

    monkeypatch.setattr(objects, "put_if_absent", stop)
    expected = (CommitConflictError, LeaseExpiredError) if follower else (CommitUnknownError,)
    with pytest.raises(expected):
        stopped.write("stopped", {"x": [1]})
    assert "stopped" not in opened(objects).symbols()


# --- files without a name -------------------------------------------------------------------------


def test_what_killed_puts_left_is_collected_by_the_same_rule(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path / "store")
    repository.write("s", {"x": [1]})
    folder = tmp_path / "store" / TEMPORARY
    young, old = (folder / f"1-{digit * 32}" for digit in "ab")
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    report = repository.gc()
    assert (report.dead["temporary"].objects, report.young["temporary"].objects) == (1, 1)
    repository.gc(dry_run=False)
    assert (young.exists(), old.exists()) == (True, False)
    assert isinstance(repository.objects, LocalObjects)

"""Reads that last lease what they read; short ones and those that cannot write do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import CorruptStoreError, SnapshotExpiredError, StoreError
from tessel.store.history.documents import open_store
from tessel.store.maintenance import expire as long_reads
from tessel.store.objects import MemoryObjects
from tessel.telemetry import Event, subscribe
from tests.store.maintenance.helpers import LONG, AgingObjects, contents, opened

ROWS = 10_000


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look often, with a thread of the test's own, which ends with it."""
    monkeypatch.setattr(long_reads, "_LOOKED_AT_SECONDS", 0.005)
    monkeypatch.setattr(long_reads, "_LEASED_AFTER_SECONDS", 0.02)
    ours = long_reads._Watch()
    monkeypatch.setattr(long_reads, "_watch", ours)
    yield
    ours._stopped.set()
    if ours._thread is not None:
        ours._thread.join()


def _leases(objects: MemoryObjects) -> list[str]:
    return list(objects.list("lease/"))


def _until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def _store(**options: Any) -> ts.Store:
    store = ts.open("memory://", **options)
    with ts.options(segment_rows=1_000):
        for number in range(5):
            store.write("s", {"x": range(number, number + ROWS)})
    return store


@pytest.mark.usefixtures("watch")
def test_a_long_read_outlasts_expiry_and_collection() -> None:
    store = _store()
    batches = store.scan("s", as_of=2).iter_batches()
    found = [next(batches)]
    _until(lambda: _leases(store.objects))
    store.expire(5, dry_run=False)
    assert store.gc(minimum_age=timedelta(0), dry_run=False).leased
    found += list(batches)
    assert pa.Table.from_batches(found).column("x").to_pylist() == list(range(1, ROWS + 1))
    assert _leases(store.objects) == []
    with pytest.raises(SnapshotExpiredError):
        store.read("s", as_of=2)


@pytest.mark.usefixtures("watch")
def test_a_read_that_is_given_up_gives_its_lease_back() -> None:
    store = _store()
    batches = store.scan("s", as_of=2).iter_batches()
    next(batches)
    _until(lambda: _leases(store.objects))
    batches.close()  # type: ignore[attr-defined]
    assert _leases(store.objects) == []
    assert not store.history.leased[2]


@pytest.mark.usefixtures("watch")
def test_versions_that_are_added_are_leased_and_all_leases_are_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    repository = opened(objects)
    for number in range(4):
        repository.write("s", {"x": [number]})
    with repository.reading(2) as versions:
        _until(lambda: len(_leases(objects)) == 1)
        versions.add(3)
        _until(lambda: len(_leases(objects)) == 2)
        before = set(_leases(objects))
        monkeypatch.setattr(long_reads, "_RENEWED_AFTER_SECONDS", 0.0)
        _until(lambda: len(_leases(objects)) == 2 and before.isdisjoint(_leases(objects)))
        monkeypatch.setattr(long_reads, "_RENEWED_AFTER_SECONDS", 1e6)
        opened(objects).expire(4, dry_run=False)
        objects.age(LONG, "seg/")
        opened(objects).gc(dry_run=False)
        assert contents(repository, 2) == {"s": [1]}
        assert contents(repository, 3) == {"s": [2]}
        # What is damaged under a lease is damaged, and has not expired.
        with pytest.raises(CorruptStoreError), repository.reading(2):
            raise CorruptStoreError("an object is missing")
    assert _leases(objects) == []


def test_a_short_read_writes_nothing() -> None:
    store = _store()
    before = list(store.objects.list())
    assert len(store.read("s")) == ROWS
    assert list(store.objects.list()) == before


@pytest.mark.usefixtures("watch")
def test_a_reader_that_may_not_write_leases_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "store")
    ts.open(uri).write("s", {"x": [1]})
    store = ts.open(uri, read_only=True)
    with store.reading(1):
        time.sleep(0.1)
        assert not list(store.objects.list("lease/"))
    assert long_reads._watch._thread is None


@pytest.mark.usefixtures("watch")
@pytest.mark.parametrize("step", ["put_if_absent", "delete"])
def test_a_lease_that_cannot_be_had_or_given_back_fails_no_read(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = _store()
    original = getattr(MemoryObjects, step)

    def failing(self: MemoryObjects, name: str, *more: Any) -> Any:
        if name.startswith("lease/"):
            raise StoreError("no")
        return original(self, name, *more)

    monkeypatch.setattr(MemoryObjects, step, failing)
    events: list[Event] = []
    with subscribe(events.append):
        batches = store.scan("s").iter_batches()
        rows = next(batches).num_rows
        wanted = "lease.failed" if step == "put_if_absent" else "lease.taken"
        _until(lambda: wanted in {event.name for event in events})
        assert rows + sum(batch.num_rows for batch in batches) == ROWS


@pytest.mark.usefixtures("watch")
def test_a_forked_child_looks_after_its_own_reads() -> None:
    store = _store()
    with store.reading(2):
        _until(lambda: _leases(store.objects))
        thread = long_reads._watch._thread
        stopped = long_reads._watch._stopped
        long_reads._watch.forget()  # as in the child of a fork
        assert long_reads._watch._thread is None
        with store.reading(3):
            _until(lambda: len(_leases(store.objects)) == 2)
    assert _leases(store.objects) == []
    stopped.set()
    assert thread is not None
    thread.join()

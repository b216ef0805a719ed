"""Leases: versions that readers keep, and what becomes of readers without one."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import tessel as ts
import tessel.api
from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    LeaseExpiredError,
    SnapshotExpiredError,
    VersionNotFoundError,
)
from tessel.store.history.documents import open_store
from tessel.store.maintenance import leases
from tests.store.maintenance.helpers import LONG, AgingObjects, contents, opened

HOUR = timedelta(hours=1)


def _store() -> AgingObjects:
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    repository = opened(objects)
    for number in range(5):
        repository.write("s", {"x": [number]})
    return objects


def _collect(objects: AgingObjects, number: int) -> None:
    opened(objects).expire(number, dry_run=False)
    objects.age(LONG, "seg/")
    objects.age(LONG, "man/")
    objects.age(LONG, "log/")
    opened(objects).gc(dry_run=False)


def test_a_leased_version_is_read_while_the_lease_lasts() -> None:
    objects = _store()
    reader = opened(objects)
    with reader.lease(2) as lease:
        _collect(objects, 5)
        assert contents(reader, lease.version) == {"s": [1]}
        with pytest.raises(SnapshotExpiredError):
            reader.at(1)
        with pytest.raises(SnapshotExpiredError):
            opened(objects).at(2)  # leased, but not by this one
    with pytest.raises(SnapshotExpiredError):
        reader.at(2)
    assert list(objects.list("lease/")) == []
    objects.age(LONG)
    assert opened(objects).gc(dry_run=False).deleted.objects > 0  # what the lease had kept


def test_a_lease_of_what_has_expired_is_refused_and_leaves_nothing() -> None:
    objects = _store()
    opened(objects).expire(3, dry_run=False)
    with pytest.raises(SnapshotExpiredError):
        opened(objects).lease(2)
    with pytest.raises(VersionNotFoundError):
        opened(objects).lease(99)
    for lasting in (timedelta(0), 5, timedelta(-1)):
        with pytest.raises(InvalidInputError, match="can last"):
            opened(objects).lease(lasting=lasting)  # type: ignore[arg-type]
    assert list(objects.list("lease/")) == []


def test_a_version_that_expires_while_a_lease_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = _store()
    reader = opened(objects)
    put = leases.put_lease

    def expire_first(*arguments: object, **more: object) -> str:
        opened(objects).expire(4, dry_run=False)
        return put(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "put_lease", expire_first)
    with pytest.raises(SnapshotExpiredError):
        reader.lease(2)
    assert list(objects.list("lease/")) == []


def test_renewing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(leases, "seconds", lambda: now[0])
    objects = _store()
    lease = opened(objects).lease(2, lasting=HOUR)
    first = list(objects.list("lease/"))
    now[0] += 3599
    lease.renew()
    second = list(objects.list("lease/"))
    assert len(second) == 1
    assert second != first
    now[0] += 3600
    with pytest.raises(LeaseExpiredError, match="ran out before it was renewed"):
        lease.renew()
    assert list(objects.list("lease/")) == []
    lease.release()


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
def test_leases_do_not_depend_on_the_clocks_of_sessions(
    skew: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease of a minute protects nothing after an hour, whatever the collector's clock says."""
    objects = _store()
    reader = opened(objects)
    lease = reader.lease(2, lasting=timedelta(minutes=1))
    real = time.time_ns
    opened(objects).expire(5, dry_run=False)
    for prefix in ("seg/", "man/", "log/"):
        objects.age(LONG, prefix)
    with monkeypatch.context() as patch:
        # Only this process's clock is off; the place stamps objects by its own.
        patch.setattr(
            "tessel.store.history.committer.time.time_ns",
            lambda: real() + int(skew.total_seconds() * 10**9),
        )
        patch.setattr("tessel.store.objects.memory.time.time_ns", real, raising=False)
        opened(objects).gc(dry_run=False)
    assert contents(reader, 2) == {"s": [1]}
    objects.age(timedelta(minutes=2), "lease/")
    opened(objects).gc(dry_run=False)
    reader.history.leased.clear()
    with pytest.raises(SnapshotExpiredError):
        contents(reader, 2)
    lease.release()


# --- readers without a lease ----------------------------------------------------------------------


def _slow_table(store: ts.Store) -> ts.LazyTable:
    return store.scan("s", as_of=2)


def test_a_query_whose_version_goes_away_says_so() -> None:
    store = ts.open("memory://")
    for number in range(5):
        store.write("s", {"x": [number] * 10})
    objects = store.objects
    table = _slow_table(store)
    batches = table.iter_batches()
    store.expire(5, dry_run=False)
    with pytest.raises(SnapshotExpiredError):
        table.collect()
    with pytest.raises(SnapshotExpiredError):
        next(batches)
    # Planned before it expired, read afterwards.
    with pytest.raises(SnapshotExpiredError) as caught, store.reading(2):
        raise CorruptStoreError("an object is missing")
    assert isinstance(caught.value.__cause__, CorruptStoreError)
    with pytest.raises(CorruptStoreError), store.reading(5):
        raise CorruptStoreError("an object is missing")
    assert objects.uri == store.uri


def test_a_read_that_was_planned_before_the_collection_gives_no_half_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = ts.open("memory://")
    with ts.options(segment_rows=5):
        for number in range(5):
            store.write("s", {"x": range(number, number + 10_000)})
    table = _slow_table(store)
    planned = tessel.api.plan_query

    def plan_then_collect(*arguments: object, **more: object) -> object:
        made = planned(*arguments, **more)  # type: ignore[arg-type]
        store.expire(5, dry_run=False)
        store.gc(minimum_age=timedelta(0), dry_run=False)
        return made

    monkeypatch.setattr(tessel.api, "plan_query", plan_then_collect)
    with pytest.raises(SnapshotExpiredError) as caught:
        table.collect()
    assert "missing" in str(caught.value.__cause__)

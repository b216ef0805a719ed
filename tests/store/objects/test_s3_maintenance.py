"""Collecting, leasing, expiring and checking a store in S3, against moto's HTTP server."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest

from tessel.errors import LeaseExpiredError, SnapshotExpiredError, StoreError
from tessel.store import Repository
from tessel.store.maintenance.fsck import check_store
from tessel.store.objects import CloudObjects
from tests.store.maintenance.helpers import DAY, LONG, contents, needed
from tests.store.objects.servers import CREDENTIALS, MotoServer


class Place:
    """A store in a bucket of its own, whose objects can be made older."""

    def __init__(self, moto: MotoServer) -> None:
        self._moto = moto
        self._bucket = moto.new_bucket()
        self.uri = f"s3://{self._bucket}/stores/one"

    def open(self, *, read_only: bool = False) -> Repository:
        """Return the store as another process would see it."""
        return Repository.open(
            self.uri, credentials=CREDENTIALS, options=self._moto.options, read_only=read_only
        )

    def age(self, by: timedelta = LONG, kind: str = "") -> None:
        """Make all objects of a kind older."""
        self._moto.age(self._bucket, by, f"stores/one/{kind}")

    def names(self) -> set[str]:
        """Return all objects."""
        return set(self.open(read_only=True).objects.list())

    def replace(self, name: str, data: bytes | None) -> None:
        """Put other bytes, or none, in place of an object."""
        objects = self.open().objects
        objects.delete(name)
        if data is not None:
            assert objects.put_if_absent(name, data)


@pytest.fixture
def place(moto: MotoServer) -> Place:
    """Return a store with a history, a tag, a branch, and a transaction that never landed."""
    found = Place(moto)
    repository = found.open()
    for number in range(3):
        for symbol in range(2):
            repository.write(f"s{symbol}", {"x": [number, symbol]})
    repository.create_tag("first", at=2)
    repository.create_branch("dev", at=3)
    with contextlib.suppress(RuntimeError), repository.transaction() as transaction:
        transaction.write("lost", {"x": [1]})
        transaction._stage.flush()
        raise RuntimeError("never lands")
    return found


def _kept(repository: Repository) -> set[int]:
    refs = repository.history.refs()
    return {n for n in range(1, repository.history.newest_number + 1) if refs.keeps(n)}


def test_what_is_needed_stays_and_the_rest_goes(place: Place) -> None:
    repository = place.open()
    repository.expire(6, dry_run=False)
    before = place.names()
    # Young objects stay.
    report = repository.gc(dry_run=False)
    assert (place.names(), report.dead) == (before, {})
    place.age()
    kept = _kept(place.open())
    wanted = {number: contents(repository, number) for number in kept}
    garbage = before - needed(repository.objects, kept)
    planned = place.open(read_only=True).gc()
    assert place.names() == before
    assert {kind.split("/")[0] for kind in garbage} == planned.dead.keys() == {"log", "man", "seg"}
    assert sum(tally.objects for tally in planned.dead.values()) == len(garbage)
    done = place.open().gc(dry_run=False)
    assert done.deleted.objects == len(garbage)
    again = place.open()
    assert place.names() == needed(again.objects, _kept(again))
    assert {number: contents(again, number) for number in kept} == wanted
    with pytest.raises(SnapshotExpiredError):
        again.view("s0", 4)
    checked = check_store(again)
    assert (checked.damages, checked.orphans) == ([], 0)


def test_killed_between_deletes_and_begun_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.open().expire(6, dry_run=False)
    place.age()
    kept = _kept(place.open())
    wanted = {number: contents(place.open(), number) for number in kept}
    delete = CloudObjects.delete
    left = iter(range(4))

    def killed(objects: CloudObjects, name: str) -> None:
        if not name.startswith("lease/") and next(left, None) is None:
            raise StoreError(f"the process was killed before it deleted {name}")
        delete(objects, name)

    with monkeypatch.context() as patch:
        patch.setattr(CloudObjects, "delete", killed)
        with pytest.raises(StoreError, match="was killed"):
            place.open().gc(dry_run=False)
    survivor = place.open()
    assert check_store(survivor).damages == []
    assert {number: contents(survivor, number) for number in kept} == wanted
    place.age()
    survivor.gc(dry_run=False)
    assert place.names() == needed(survivor.objects, _kept(survivor))


def test_a_leased_version_is_read_while_the_lease_lasts(place: Place) -> None:
    reader = place.open()
    with reader.lease(4) as lease:
        place.open().expire(6, dry_run=False)
        for kind in ("seg/", "man/", "log/"):
            place.age(kind=kind)
        place.open().gc(dry_run=False)
        assert contents(reader, lease.version) == {"s0": [1, 0], "s1": [1, 1]}
        lease.renew()
        assert contents(reader, lease.version) == {"s0": [1, 0], "s1": [1, 1]}
        with pytest.raises(SnapshotExpiredError):
            place.open().view("s0", 4)  # leased, but not by this one
    assert not list(reader.objects.list("lease/"))
    place.age()
    assert place.open().gc(dry_run=False).deleted.objects > 0  # what the lease had kept
    with pytest.raises(SnapshotExpiredError):
        reader.view("s0", 4)


def test_a_long_transaction_leases_what_it_has_written(place: Place) -> None:
    place.age()
    with place.open().transaction() as transaction:
        transaction.write("slow", {"x": [7]})
        transaction._stage.flush()
        # Two days later it writes more, and sees that it takes long.
        place.age(2 * DAY)
        transaction._stage.session._upkeep_at = 0.0
        transaction.write("slower", {"x": [8]})
        transaction._stage.flush()
        assert len(list(place.open().objects.list("lease/"))) == 1
        collected = place.open().gc(dry_run=False)
        assert collected.deleted.objects > 0  # of the transaction that never landed
        assert {"lease", "man", "seg"} <= collected.leased.keys()
    assert contents(place.open(), place.open().newest)["slow"] == [7]
    assert not list(place.open().objects.list("lease/"))
    assert check_store(place.open()).damages == []


def test_a_transaction_that_was_collected_does_not_land(place: Place) -> None:
    late = place.open().transaction()
    late.write("slow", {"x": [7]})
    late._stage.flush()
    place.age(2 * DAY)
    place.open().gc(dry_run=False)
    with pytest.raises(LeaseExpiredError):
        late.commit()
    assert "slow" not in place.open().symbols()
    assert check_store(place.open()).damages == []


@pytest.mark.parametrize("kind", ["log/", "man/", "seg/"])
@pytest.mark.parametrize("missing", [False, True])
def test_a_check_finds_what_is_damaged_or_gone(place: Place, kind: str, missing: bool) -> None:
    assert check_store(place.open()).damages == []
    repository = place.open()
    name = min(n for n in needed(repository.objects, {6}) if n.startswith(kind))
    data = bytearray(repository.objects.get(name).to_pybytes())
    data[len(data) // 2] ^= 1
    place.replace(name, None if missing else bytes(data))
    report = check_store(place.open())
    assert name in {damage.object for damage in report.damages}
    # Collecting would have to guess what the damaged object refers to.
    if kind != "seg/":
        before = place.names()
        with pytest.raises(StoreError, match="nothing was deleted"):
            place.open().gc(dry_run=False)
        assert place.names() == before

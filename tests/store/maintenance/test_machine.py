"""Everything that changes, expires and collects a store, in any order, against dictionaries."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tessel.errors import LeaseExpiredError, SnapshotExpiredError
from tessel.store.history.documents import open_store
from tessel.store.maintenance.fsck import check_store
from tessel.store.maintenance.leases import Lease
from tests.store.maintenance.helpers import LONG, AgingObjects, contents, needed, opened

NAMES = st.sampled_from(["a", "b", "c"])


class MaintenanceMachine(RuleBasedStateMachine):
    """A store in memory, what each of its versions held, and which are kept."""

    @initialize()
    def start(self) -> None:
        self.objects = AgingObjects()
        open_store(self.objects, create=True, read_only=False)
        self.versions: dict[int, dict[str, list[object]]] = {0: {}}
        self.branches = {"main": 0}
        self.tags: dict[str, int] = {}
        self.oldest = 0
        self.leases: list[Lease] = []
        self.values = 0
        self.open()

    def open(self) -> None:
        self.repository = opened(self.objects)

    @rule()
    def reopen(self) -> None:
        for lease in self.leases:
            lease.release()
        self.leases = []
        self.open()

    # --- the model --------------------------------------------------------------------------------

    def kept(self, *, leased: bool = False) -> set[int]:
        pinned = {*self.tags.values(), *self.branches.values()}
        if leased:
            pinned |= {lease.version for lease in self.leases}
        return {n for n in self.versions if n and (n >= self.oldest or n in pinned)}

    def landed(self, number: int, branch: str, state: dict[str, list[object]]) -> None:
        assert number == max(self.versions) + 1
        self.versions[number] = state
        self.branches[branch] = number

    def act(self, number: int) -> None:
        self.landed(number, "main", self.versions[self.branches["main"]])

    # --- what can be done -------------------------------------------------------------------------

    @rule(name=NAMES, what=st.sampled_from(["write", "append", "delete"]), data=st.data())
    def change(self, name: str, what: str, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        state = dict(self.versions[self.branches[branch]])
        repository = self.repository.on_branch(branch)
        self.values += 1
        if what == "write" or name not in state:
            state[name] = [self.values, 0]
            number = repository.write(name, {"x": state[name]})
        elif what == "append":
            state[name] = [*state[name], self.values]
            number = repository.append(name, {"x": [self.values]})
        else:
            del state[name]
            number = repository.delete(name)
        self.landed(number, branch, state)

    @rule(name=NAMES)
    def abandon(self, name: str) -> None:
        with contextlib.suppress(RuntimeError), self.repository.transaction() as transaction:
            transaction.write(name, {"x": [0]})
            transaction._stage.flush()
            raise RuntimeError("never lands")

    @precondition(lambda self: len(self.branches) < 4)
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.kept() | {0})))
        name = f"branch{max(self.versions)}"
        number = self.repository.create_branch(name, at)
        self.landed(number, name, self.versions[at])

    @precondition(lambda self: len(self.tags) < 3)
    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.kept() | {0})))
        name = f"tag{max(self.versions)}"
        number = self.repository.create_tag(name, at)
        self.tags[name] = at
        self.act(number)

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def delete_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        del self.tags[name]
        self.act(self.repository.delete_tag(name))

    @precondition(lambda self: len(self.branches) > 1)
    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.branches) - {"main"})))
        del self.branches[name]
        self.act(self.repository.delete_branch(name))

    @rule(data=st.data())
    def lease(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, max(self.versions)))
        if at and at not in self.kept():
            if at not in self.kept(leased=True):
                with pytest.raises(SnapshotExpiredError):
                    self.repository.lease(at)
            return
        self.leases.append(self.repository.lease(at))

    @precondition(lambda self: self.leases)
    @rule()
    def release(self) -> None:
        self.leases.pop(0).release()

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, max(self.versions)))
        told = self.repository.expire(number)
        assert self.repository.history.newest_number == max(self.versions)
        before, tip = self.kept(), self.branches["main"]
        report = self.repository.expire(number, dry_run=False)
        assert (report.expired, report.oldest, report.kept) == (
            (told.expired, told.oldest, told.kept)
        )
        if number <= max(1, self.oldest):
            assert report.version is None
            return
        assert report.version is not None
        self.act(report.version)
        self.oldest = number
        gone = before - self.kept()
        # The version that was the newest of the main branch is not kept for that any more.
        late = {tip} if 0 < tip < told.oldest_before else set()
        assert report.expired == len(gone - late)

    @rule(everything_old=st.booleans())
    def collect(self, everything_old: bool) -> None:
        if everything_old:
            self.objects.age(LONG, "seg/")
            for prefix in ("man/", "leaf/", "refs/", "log/"):
                self.objects.age(LONG, prefix)
        before = set(self.objects.list())
        young = {n for n in before if not self.is_old(n)}
        report = self.repository.gc(dry_run=False)
        newest = self.repository.history.newest_number
        if newest > max(self.versions):
            self.act(newest)
        after = set(self.objects.list())
        wanted = needed(self.objects, self.kept(leased=True))
        leased = {n for n in after if n.startswith("lease/")}
        assert wanted <= after
        assert after <= wanted | young | leased
        assert report.deleted.objects == len(before - after)
        self.everything_reads_back()

    def is_old(self, name: str) -> bool:
        age = self.objects.newest_us() - self.objects.modified_us(name)
        return age > timedelta(days=2) // timedelta(microseconds=1)

    @rule()
    def everything_reads_back(self) -> None:
        again = opened(self.objects)
        for number in self.versions:
            if number in self.kept() or number == 0:
                assert contents(again, number) == self.versions[number]
            else:
                with pytest.raises(SnapshotExpiredError):
                    again.at(number)
        for lease in self.leases:
            found = contents(self.repository, lease.version)
            assert found == self.versions[lease.version]

    @rule()
    def it_is_sound(self) -> None:
        report = check_store(opened(self.objects))
        assert report.damages == []
        assert report.versions == len(self.kept())

    @rule(name=NAMES, everything_old=st.booleans())
    def a_collection_in_the_midst_of_a_commit(self, name: str, everything_old: bool) -> None:
        self.values += 1
        state = dict(self.versions[self.branches["main"]])
        transaction = self.repository.transaction()
        transaction.write(name, {"x": [self.values]})
        transaction._stage.flush()
        self.collect(everything_old)
        state[name] = [self.values]
        refs = self.repository.history.refs()
        refused = refs.collected > transaction.base_version and everything_old
        if refused:
            with pytest.raises(LeaseExpiredError):
                transaction.commit()
            return
        self.landed(transaction.commit(), "main", state)


TestMaintenance: Any = MaintenanceMachine.TestCase
TestMaintenance.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@pytest.mark.slow
class TestMaintenanceForLong(MaintenanceMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=1_000, stateful_step_count=60, deadline=None)

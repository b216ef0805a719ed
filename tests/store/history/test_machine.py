"""Everything a history can do, in any order, against dictionaries: nothing differs, ever."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tessel.errors import (
    CommitConflictError,
    InvalidInputError,
    RefExistsError,
    RefNotFoundError,
    SnapshotExpiredError,
    SymbolNotFoundError,
    VersionNotFoundError,
)
from tessel.store.history.versions import Commit, timestamp_of
from tessel.store.names import log_name
from tessel.store.repository import Repository
from tests.store.history.helpers import CountingObjects, changes_of, put, small_nodes, values

SYMBOLS = st.sampled_from([*(f"s{n:02}" for n in range(25)), "..", "A", "a", "É", "\U00010000"])
CHANGES = st.dictionaries(SYMBOLS, st.none() | st.integers(0, 2), min_size=1, max_size=6)
NAMES = st.sampled_from(["main", "dev", "v1", "release/2", "été"])


@dataclass(frozen=True)
class Made:
    """A version as the model knows it."""

    parent: int
    branch: str
    state: dict[str, object]
    touched: frozenset[str]
    time: datetime


class HistoryMachine(RuleBasedStateMachine):
    """A store in memory, and what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = small_nodes()
        self.nodes.__enter__()

    @initialize()
    def start(self) -> None:
        self.objects = CountingObjects()
        self.repository = Repository(self.objects, "id", read_only=False)
        self.versions: list[Made] = []
        self.branches = {"main": 0}
        self.tags: dict[str, int] = {}
        self.retired: set[str] = set()
        self.oldest = 0
        self.pending: list[tuple[Commit, dict[str, object]]] = []

    def teardown(self) -> None:
        self.nodes.__exit__(None, None, None)

    # --- the model --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        return len(self.versions)

    def state(self, number: int) -> dict[str, object]:
        return dict(self.versions[number - 1].state) if number else {}

    def line(self, number: int) -> list[int]:
        found = []
        while number:
            found.append(number)
            number = self.versions[number - 1].parent
        return found

    def kept(self, number: int) -> bool:
        pinned = {0, *self.tags.values(), *self.branches.values()}
        return number >= self.oldest or number in pinned

    def landed(
        self, number: int, branch: str, parent: int, state: dict[str, object], touched: Any = ()
    ) -> None:
        assert number == self.newest + 1
        entry = self.repository.history.entry(number)
        self.versions.append(Made(parent, branch, state, frozenset(touched), timestamp_of(entry)))
        self.branches[branch] = number

    def acted(self, number: int) -> None:
        """Something changed the refs: a version of the main branch without changes."""
        tip = self.branches["main"]
        self.landed(number, "main", tip, self.state(tip))

    # --- what can be done -------------------------------------------------------------------------

    @rule(changes=CHANGES, data=st.data())
    def commit(self, changes: dict[str, Any], data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        tip = self.branches[branch]
        state = self.state(tip)
        changes = {n: v for n, v in changes.items() if v is not None or n in state}
        if not changes:
            return
        number = put(self.repository.history, branch, changes)
        self.landed(number, branch, tip, _after(state, changes), changes)

    @rule(changes=CHANGES, data=st.data())
    def begin(self, changes: dict[str, Any], data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        base = self.repository.history.newest(branch)
        state = self.state(base.number)
        changes = {n: v for n, v in changes.items() if v is not None or n in state}
        if changes:
            self.pending.append((base, changes))

    @precondition(lambda self: self.pending)
    @rule()
    def finish(self) -> None:
        base, changes = self.pending.pop(0)
        history = self.repository.history
        tip = self.branches.get(base.branch)
        line = [] if tip is None else [*self.line(tip), 0]
        lands = base.number in line
        if lands and tip is not None:
            since = line[: line.index(base.number)]
            lands = all(self.versions[n - 1].touched.isdisjoint(changes) for n in since)
            lands = lands and all(n >= self.oldest or n == tip for n in since)
        if not lands or tip is None:
            with pytest.raises(CommitConflictError):
                history.commit(base, changes_of(changes), "")
            return
        number = history.commit(base, changes_of(changes), "").number
        self.landed(number, base.branch, tip, _after(self.state(tip), changes), changes)

    @rule(name=NAMES, data=st.data())
    def create_branch(self, name: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, self.newest))
        if not self.kept(at):
            with pytest.raises(SnapshotExpiredError):
                self.repository.create_branch(name, at)
        elif name in {*self.branches, *self.tags, *self.retired}:
            with pytest.raises(RefExistsError):
                self.repository.create_branch(name, at)
        else:
            number = self.repository.create_branch(name, at)
            self.landed(number, name, at, self.state(at))

    @rule(name=NAMES)
    def delete_branch(self, name: str) -> None:
        if name == "main":
            with pytest.raises(InvalidInputError, match="cannot be deleted"):
                self.repository.delete_branch(name)
        elif name not in self.branches:
            with pytest.raises(RefNotFoundError):
                self.repository.delete_branch(name)
        else:
            number = self.repository.delete_branch(name)
            del self.branches[name]
            self.acted(number)

    @rule(name=NAMES, data=st.data())
    def reset_branch(self, name: str, data: st.DataObject) -> None:
        to = data.draw(st.integers(0, self.newest + 1))
        if to > self.newest:
            with pytest.raises(VersionNotFoundError):
                self.repository.reset_branch(name, to)
        elif not self.kept(to):
            with pytest.raises(SnapshotExpiredError):
                self.repository.reset_branch(name, to)
        elif name not in self.branches:
            with pytest.raises(RefNotFoundError):
                self.repository.reset_branch(name, to)
        else:
            number = self.repository.reset_branch(name, to)
            self.landed(number, name, to, self.state(to))

    @rule(name=NAMES, data=st.data())
    def create_tag(self, name: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, self.newest))
        if not self.kept(at):
            with pytest.raises(SnapshotExpiredError):
                self.repository.create_tag(name, at)
        elif name in {*self.branches, *self.tags, *self.retired}:
            with pytest.raises(RefExistsError):
                self.repository.create_tag(name, at)
        else:
            number = self.repository.create_tag(name, at)
            self.tags[name] = at
            self.acted(number)

    @rule(name=NAMES)
    def delete_tag(self, name: str) -> None:
        if name not in self.tags:
            with pytest.raises(RefNotFoundError):
                self.repository.delete_tag(name)
        else:
            number = self.repository.delete_tag(name)
            del self.tags[name]
            self.retired.add(name)
            self.acted(number)

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        to = data.draw(st.integers(0, self.newest).filter(self.kept))
        here = self.repository.on_branch(branch)
        tip, target = self.branches[branch], self.state(to)
        number = here.revert(to)
        if target == self.state(tip) and number == tip:
            return
        # Symbols of equal values are still others where they were deleted and made anew.
        touched = {change.name for change in self.repository.history.entry(number).changes}
        state = self.state(tip)
        assert touched >= {n for n in {*state, *target} if state.get(n) != target.get(n)}
        self.landed(number, branch, tip, target, touched)

    @precondition(lambda self: self.newest > 3)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(max(1, self.oldest), self.newest))
        number = self.repository.history.expire_before(before).number
        self.oldest = before
        self.acted(number)
        for gone in range(1, self.newest + 1):
            if not self.kept(gone):
                self.objects.delete(log_name(gone))
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.repository = Repository(self.objects, "id", read_only=False)
        self.pending = [
            (self.repository.history.on_branch(base.number, base.branch), changes)
            for base, changes in self.pending
            if base.number == 0 or self.kept(base.number)
        ]

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def branches_and_tags_are_those(self) -> None:
        assert self.repository.branches() == self.branches
        assert self.repository.tags() == self.tags
        assert self.repository.history.newest_number == self.newest
        assert self.repository.newest == self.branches["main"]

    @rule(data=st.data())
    def read_a_version(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, self.newest))
        if self.kept(number):
            assert values(self.repository.at(number)) == self.state(number)
        else:
            with pytest.raises(SnapshotExpiredError):
                self.repository.at(number)

    @rule(name=NAMES)
    def read_a_name(self, name: str) -> None:
        number = self.tags.get(name, self.branches.get(name))
        if number is None:
            with pytest.raises(RefNotFoundError):
                self.repository.at(name)
        else:
            assert values(self.repository.at(name)) == self.state(number)
            assert self.repository.at(name).number == number

    @precondition(lambda self: self.newest)
    @rule(data=st.data())
    def read_an_instant(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        moment = data.draw(st.sampled_from(self.versions)).time
        moment += timedelta(microseconds=data.draw(st.integers(-1, 1)))
        here = self.repository.on_branch(branch)
        tip = self.branches[branch]
        line = [*self.line(tip), 0]
        expected = next(n for n in line if n == 0 or self.versions[n - 1].time <= moment)
        first_kept = self.versions[self.oldest - 1].time if self.oldest > 1 else None
        # Before version 1 there was nothing, whatever is kept.
        if not self.kept(expected) or (
            first_kept is not None and moment < first_kept and expected != tip and tip > 1
        ):
            with pytest.raises(SnapshotExpiredError):
                here.at(moment)
        else:
            assert here.at(moment).number == expected
            assert values(here.at(moment)) == self.state(expected)

    @rule(data=st.data(), symbol=SYMBOLS, limit=st.none() | st.integers(1, 4))
    def read_the_log(self, data: st.DataObject, symbol: str, limit: int | None) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        here = self.repository.on_branch(branch)
        tip = self.branches[branch]
        line = [n for n in self.line(tip) if n >= self.oldest or n == tip]
        assert list(dict.fromkeys(v.number for v in here.log(limit=limit))) == line[:limit]
        touching = [n for n in line if symbol in self.versions[n - 1].touched]
        if touching:
            assert [v.number for v in here.log(symbol, limit=limit)] == touching[:limit]
            assert here.versions(symbol) == touching[::-1]
        else:
            with pytest.raises(SymbolNotFoundError):
                here.log(symbol)

    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        a, b = (data.draw(st.integers(0, self.newest).filter(self.kept)) for _ in range(2))
        before, after = self.state(a), self.state(b)
        found = self.repository.diff(a, b)
        assert (found.before, found.after) == (a, b)
        assert set(found.added) == after.keys() - before.keys()
        assert set(found.removed) == before.keys() - after.keys()
        changed = {one.symbol: one for one in found.changed}
        both = before.keys() & after.keys()
        assert {n for n in both if before[n] != after[n]} <= changed.keys() <= both
        for name, one in changed.items():
            assert one.metadata_before == {"value": before[name]}
            assert one.metadata_after == {"value": after[name]}
            assert one.recreated or before[name] != after[name]


def _after(state: dict[str, object], changes: dict[str, Any]) -> dict[str, object]:
    merged = {**state, **changes}
    return {name: value for name, value in merged.items() if value is not None}


TestHistory = HistoryMachine.TestCase
TestHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

"""The whole of ``Store`` as a state machine, against dictionaries.

What is checked after every step: the newest version of the branch that changed, and some other
version that is kept, hold what the model says, to the bit; branches, tags and numbers are those of
the model. At the end every byte is verified.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tessel.api import Store
from tessel.errors import (
    CommitConflictError,
    InvalidInputError,
    LeaseExpiredError,
    SnapshotExpiredError,
)
from tessel.options import options
from tessel.store.history.versions import timestamp_of
from tessel.store.maintenance import MINIMUM_AGE
from tessel.store.manifest.packing import ManifestConfiguration
from tessel.store.objects import MemoryObjects
from tessel.store.operations.finalize import Mode
from tessel.store.operations.staged import StagedRows
from tessel.store.transaction import Isolation
from tests.store.helpers import assert_same, read
from tests.store.manifest.histories import configurations
from tests.store.packing.laws import check_extents, check_limits, check_lookup, small_folds
from tests.store.proofs.model import SYMBOLS, State, Table, Verbs, copied, frame

NAMES = st.sampled_from(["main", "dev", "v1", "release/2"])
_LONG = timedelta(days=30)


@dataclasses.dataclass(frozen=True)
class Made:
    """A version as the model knows it."""

    parent: int
    state: State
    time: datetime


@dataclasses.dataclass
class Staged:
    """What a worker staged, and whether a collection has been free to take it."""

    rows: StagedRows
    symbol: str
    table: Table
    doomed: bool = False


class StoreMachine(RuleBasedStateMachine):
    """A store, what each of its versions holds, and which of them are kept."""

    @initialize(
        directory=st.booleans(),
        segment_rows=st.sampled_from([3, 5, 1_000]),
        segment_columns=st.sampled_from([1, 2, 256]),
        small=st.booleans(),
        seed=st.integers(0, 2**32),
    )
    def start(
        self, directory: bool, segment_rows: int, segment_columns: int, small: bool, seed: int
    ) -> None:
        self.stack = contextlib.ExitStack()
        self.segment_columns = segment_columns
        shape = {"segment_rows": segment_rows, "segment_columns": segment_columns}
        self.stack.enter_context(options(fsync=False, workers=1, **shape))
        if small:
            self.stack.enter_context(small_folds())
        uri = "memory://"
        if directory:
            uri = self.stack.enter_context(tempfile.TemporaryDirectory()) + "/store"
        self.store = Store.open(uri)
        self.verbs = Verbs()
        self.chance = random.Random(seed)
        self.versions: list[Made] = []
        self.branches = {"main": 0}
        self.tags: dict[str, int] = {}
        self.retired: set[str] = set()
        self.oldest = 0
        self.staged: list[Staged] = []
        self.finalized: list[tuple[list[Staged], str, Mode, int]] = []
        self.configuration = ManifestConfiguration()

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            report = Store.open(self.store.uri, create=False, read_only=True).check()
            assert report.damages == []
            for number in range(len(self.versions) + 1):
                self.check_version(number)

    # --- the model --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        return len(self.versions)

    def state(self, number: int) -> State:
        return copied(self.versions[number - 1].state) if number else {}

    def line(self, number: int) -> list[int]:
        found = []
        while number:
            found.append(number)
            number = self.versions[number - 1].parent
        return found

    def kept(self, number: int) -> bool:
        pinned = {0, *self.tags.values(), *self.branches.values()}
        return number >= self.oldest or number in pinned

    def drawn_kept(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from([n for n in range(self.newest + 1) if self.kept(n)]))

    def drawn_branch(self, data: st.DataObject) -> tuple[str, Store]:
        branch = data.draw(st.sampled_from(sorted(self.branches)), label="branch")
        return branch, self.store.on_branch(branch)

    def landed(self, number: int, branch: str, parent: int, state: State) -> None:
        """Note a version that was made."""
        assert number == self.newest + 1
        moment = timestamp_of(self.store.history.entry(number))
        self.versions.append(Made(parent, state, moment))
        self.branches[branch] = number
        check_lookup(self.store.at(number).snapshot)
        self.check_version(number)

    def landed_or_same(self, number: int, branch: str, base: int, state: State) -> None:
        """Note what a change of version ``base`` became: no version where it changes nothing."""
        if number == base:
            before = self.state(base)
            assert before.keys() == state.keys()
            for name, table in before.items():
                assert_same(state[name].arrow(), table.arrow())
                assert state[name].metadata == table.metadata
        else:
            # What was compacted meanwhile is another thing than it was, with the same rows.
            was, now = self.state(base), self.state(self.branches[branch])
            for name in state.keys() & was.keys() & now.keys():
                if state[name].stamp == was[name].stamp:
                    state[name].stamp = now[name].stamp
            self.landed(number, branch, self.branches[branch], state)

    def acted(self, number: int) -> None:
        """Note what changed no symbol: a version of the main branch."""
        tip = self.branches["main"]
        self.landed(number, "main", tip, self.state(tip))

    # --- changes ----------------------------------------------------------------------------------

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        number = self.verbs.change(data, store, state)
        self.landed_or_same(number, branch, tip, state)

    @rule(data=st.data(), count=st.integers(1, 5), fails=st.booleans())
    def transaction(self, data: st.DataObject, count: int, fails: bool) -> None:
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        isolation: Isolation = data.draw(st.sampled_from(["snapshot", "serializable"]))
        with contextlib.suppress(ZeroDivisionError):
            with store.transaction(isolation=isolation) as transaction:
                for _ in range(count):
                    self.verbs.change(data, transaction, state)
                    for name in sorted(state)[:1]:
                        assert_same(transaction.read(name), state[name].arrow())
                if fails:
                    raise ZeroDivisionError
            self.landed_or_same(transaction.landed, branch, tip, state)

    @rule(data=st.data(), count=st.integers(1, 3))
    def a_change_that_comes_late(self, data: st.DataObject, count: int) -> None:
        """Commit after something that changed no row has landed.

        Only a column with values, which is cut as the rows were, does not land after a compaction.
        """
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        begun = dict(state)
        transaction = store.transaction()
        for _ in range(count):
            self.verbs.change(data, transaction, state)
        left = {id(table) for table in state.values()}
        filled = {name for name, table in begun.items() if table.filled and id(table) in left}
        if data.draw(st.booleans()):
            transaction._stage.flush()
        act = data.draw(
            st.sampled_from([self.compact, self.repack, self.configure, self.create_tag])
        )
        if act == self.create_tag:
            self.create_tag("v1", data)
        else:
            act(data)
        was, now = self.state(tip), self.state(self.branches[branch])
        if act == self.compact and any(was[name].stamp != now[name].stamp for name in filled):
            with pytest.raises(CommitConflictError, match="was compacted"):
                transaction.commit()
            assert self.store.history.newest_number == self.newest
            return
        self.landed_or_same(transaction.commit(), branch, tip, state)

    @rule(data=st.data())
    def a_change_beside_upkeep(self, data: st.DataObject) -> None:
        """Commit after an expiry or a collection, which may refuse it but never spoil it."""
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        transaction = store.transaction()
        self.verbs.change(data, transaction, state)
        transaction._stage.flush()
        act = data.draw(st.sampled_from([self.expire, self.collect]))
        act(data)
        try:
            number = transaction.commit()
        except (CommitConflictError, LeaseExpiredError):
            assert self.store.history.newest_number == self.newest
            return
        self.landed_or_same(number, branch, tip, state)

    @rule(data=st.data(), symbol=SYMBOLS, calls=st.integers(1, 4), flush_rows=st.integers(1, 8))
    def appender(self, data: st.DataObject, symbol: str, calls: int, flush_rows: int) -> None:
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        if symbol not in state:
            return
        before, table = self.newest, state[symbol]
        with store.appender(symbol, flush_rows=flush_rows, flush_interval_ms=None) as appender:
            for _ in range(calls):
                rows = self.verbs.later_rows(data, table)
                appender.append(frame(table.types, rows))
                table.rows += rows
        made = store.history.newest_number - before
        # Where flushes cut the rows is not the model's to say: parts of them are versions too.
        for number in range(before + 1, before + made + 1):
            part = copied(state)
            held = store.view(symbol, number).row_count
            part[symbol].rows = part[symbol].rows[:held]
            self.verbs.serial += 1
            part[symbol].stamp = self.verbs.serial
            self.landed(number, branch, number - 1 if number > before + 1 else tip, part)
        assert_same(self.contents(self.branches[branch], symbol), table.arrow())

    @rule(data=st.data(), symbol=SYMBOLS)
    def what_is_refused(self, data: st.DataObject, symbol: str) -> None:
        """Misuse raises a typed error and makes no version."""
        branch, store = self.drawn_branch(data)
        state = self.state(self.branches[branch])
        table = state.get(symbol)
        wrong: list[Any] = [
            lambda: store.revert(self.newest + 1),
            lambda: store.read("no such symbol"),
            lambda: store.delete("no such symbol"),
            lambda: store.write(symbol, {"t": [2, 1]}, index="t"),
        ]
        if table is not None:
            other = sorted(state)[0]
            wrong += [
                lambda: store.append(symbol, {"unknown": [1]}),
                lambda: store.rename_columns(symbol, {"k": table.time}),
                lambda: store.widen(symbol, {"k": "int8"}),
                lambda: store.delete_rows(symbol, rows=(0, len(table.rows) + 1)),
                lambda: (
                    store.upsert(symbol, frame(table.types, table.rows[:1] * 2), keys=["k"])
                    if table.rows
                    else store.read("no such symbol")
                ),
            ]
            if other != symbol:
                wrong.append(lambda: store.rename_symbol(symbol, other))
            if table.index is not None and table.rows:
                early = [{**table.rows[0], table.time: -100}]
                wrong.append(lambda: store.append(symbol, frame(table.types, early)))
                wrong.append(lambda: store.drop_column(symbol, table.time))
        with pytest.raises((InvalidInputError, LookupError)):
            data.draw(st.sampled_from(wrong))()
        assert store.history.newest_number == self.newest

    # --- staged writes ----------------------------------------------------------------------------

    @rule(data=st.data(), symbol=SYMBOLS, like=st.booleans(), tasks=st.integers(1, 3))
    def stage(self, data: st.DataObject, symbol: str, like: bool, tasks: int) -> None:
        branch, store = self.drawn_branch(data)
        here = self.state(self.branches[branch]).get(symbol)
        made = self.verbs.new_table(data, most=6)
        if here is not None and like:
            made = dataclasses.replace(here, rows=[])
        # Without an index of its own, a table has that of the symbol where it has the column.
        elif made.index is None and here is not None and here.index in made.types:
            made.index = here.index
        for _ in range(tasks):
            end = here if here is not None and like else made
            rows = self.verbs.later_rows(data, dataclasses.replace(made, rows=end.rows))
            table = dataclasses.replace(made, rows=rows)
            given = None if here is not None and here.index == made.index else made.index
            task = f"task {self.verbs.serial} {len(self.staged)}"
            staged = store.stage(symbol, table.arrow(), task_id=task, index=given)
            assert staged.schema.index == table.index
            self.staged.append(Staged(staged, symbol, table))
        if data.draw(st.booleans()):
            mode: Mode = "append" if like else "write"
            self.finalize(data, mode, made.index is not None and data.draw(st.booleans()))

    @precondition(lambda self: self.staged)
    @rule(data=st.data(), mode=st.sampled_from(["write", "append"]), sort=st.booleans())
    def finalize(self, data: st.DataObject, mode: Mode, sort: bool) -> None:
        branch, store = self.drawn_branch(data)
        symbol = data.draw(st.sampled_from(sorted({each.symbol for each in self.staged})))
        waiting = [each for each in self.staged if each.symbol == symbol]
        if data.draw(st.integers(0, 3)):  # mostly those that go together
            first = data.draw(st.sampled_from(waiting)).table
            waiting = [w for w in waiting if w.table.types == first.types]
        chosen = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique_by=id))
        tip = self.branches[branch]
        state = self.state(tip)
        given = [each.rows.to_json() for each in chosen]
        made = self.joined(chosen, state.get(symbol), mode, sort)
        if made is None:
            with pytest.raises((InvalidInputError, LookupError, SnapshotExpiredError)):
                store.finalize(symbol, given, mode=mode, sort=sort)
            assert self.store.history.newest_number == self.newest
            return
        if self.expired_after(branch, min(each.rows.base for each in chosen)):
            # One of those may have taken the rows, for all that is known.
            with pytest.raises(InvalidInputError):
                store.finalize(symbol, given, mode=mode, sort=sort)
            assert self.store.history.newest_number == self.newest
            return
        self.verbs.serial += 1
        state[symbol] = dataclasses.replace(made, stamp=self.verbs.serial)
        number = store.finalize(symbol, given, mode=mode, sort=sort)
        self.landed_or_same(number, branch, tip, state)
        if number == tip:  # no rows at the end are no change
            return
        self.staged = [each for each in self.staged if each not in chosen]
        self.finalized.append((chosen, symbol, mode, number))
        assert store.finalize(symbol, given, mode=mode, sort=sort) == number

    def expired_after(self, branch: str, base: int) -> bool:
        """Whether a version on the line of a branch that is newer than ``base`` is not listed."""
        tip = self.branches[branch]
        gone = [n for n in self.line(tip) if n < self.oldest and n != tip]
        return bool(gone) and gone[0] > base

    def joined(
        self, chosen: list[Staged], before: Table | None, mode: Mode, sort: bool
    ) -> Table | None:
        """Return the table that finalising gives; None where it must be refused."""
        first = chosen[0].table
        if any(each.doomed and each.table.rows for each in chosen):
            return None
        if any((e.table.types, e.table.index) != (first.types, first.index) for e in chosen):
            return None
        if sort and first.index is None:
            return None
        rows = [row for each in chosen for row in each.table.rows]
        if sort:
            rows.sort(key=lambda row: row[first.time])
        if mode == "append":
            if before is None or (before.types, before.index) != (first.types, first.index):
                return None
            rows = before.rows + rows
        made = Table(dict(first.types), rows, first.index, {})
        if mode == "append" and before is not None:
            made.metadata = before.metadata
        times = made.times()
        return None if made.index is not None and times != sorted(times) else made

    @precondition(lambda self: self.finalized)
    @rule(data=st.data())
    def finalize_again(self, data: st.DataObject) -> None:
        """Whatever happened since, the same rows are not taken twice."""
        branch, store = self.drawn_branch(data)
        chosen, symbol, mode, number = data.draw(st.sampled_from(self.finalized))
        if number not in self.line(self.branches[branch]):
            return
        given = [each.rows for each in chosen]
        if number >= self.oldest or number == self.branches[branch]:
            assert store.finalize(symbol, given, mode=mode) == number
        else:
            with pytest.raises(InvalidInputError):
                store.finalize(symbol, given, mode=mode)
        assert self.store.history.newest_number == self.newest

    # --- manifests and segments -------------------------------------------------------------------

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        state = self.state(tip)
        if not state:
            return
        symbol = data.draw(st.sampled_from(sorted(state)))
        target = data.draw(st.sampled_from([None, 2, 4, 100]))
        planned = store.compact(symbol, target=target, dry_run=True)
        report = store.compact(symbol, target=target)
        assert report.segments_before == planned.segments_before
        if store.newest == tip:
            return
        self.verbs.serial += 1
        state[symbol].stamp = self.verbs.serial
        self.landed(store.newest, branch, tip, state)

    @rule(data=st.data())
    def repack(self, data: st.DataObject) -> None:
        branch, store = self.drawn_branch(data)
        tip = self.branches[branch]
        configuration = data.draw(st.none() | configurations())
        store.repack(configuration)
        if store.newest != tip:
            state = self.state(tip)
            for table in state.values():
                self.verbs.serial += 1
                table.stamp = self.verbs.serial
            self.landed(store.newest, branch, tip, state)
        if self.segment_columns > 10:
            # Otherwise a row slice alone may have more segments than a manifest should.
            check_limits(store, configuration or self.configuration)

    @rule(data=st.data())
    def configure(self, data: st.DataObject) -> None:
        self.configuration = data.draw(configurations())
        self.acted(self.store.set_manifest_configuration(self.configuration))

    # --- branches, tags, versions -----------------------------------------------------------------

    @rule(name=NAMES, data=st.data())
    def create_branch(self, name: str, data: st.DataObject) -> None:
        at = self.drawn_kept(data)
        if name in {*self.branches, *self.tags, *self.retired}:
            with pytest.raises(FileExistsError):
                self.store.create_branch(name, at)
        else:
            self.landed(self.store.create_branch(name, at), name, at, self.state(at))

    @rule(name=NAMES, data=st.data())
    def create_tag(self, name: str, data: st.DataObject) -> None:
        at = self.drawn_kept(data)
        if name in {*self.branches, *self.tags, *self.retired}:
            with pytest.raises(FileExistsError):
                self.store.create_tag(name, at)
        else:
            number = self.store.create_tag(name, at)
            self.tags[name] = at
            self.acted(number)

    @rule(data=st.data())
    def delete_ref(self, data: st.DataObject) -> None:
        name = data.draw(NAMES)
        if name in self.tags:
            number = self.store.delete_tag(name)
            del self.tags[name]
            self.retired.add(name)
            self.acted(number)
        elif name in self.branches and name != "main":
            number = self.store.delete_branch(name)
            del self.branches[name]
            self.acted(number)

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        branch, _ = self.drawn_branch(data)
        to = self.drawn_kept(data)
        self.landed(self.store.reset_branch(branch, to), branch, to, self.state(to))

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        branch, store = self.drawn_branch(data)
        to = self.drawn_kept(data)
        self.landed_or_same(store.revert(to), branch, self.branches[branch], self.state(to))

    # --- upkeep -----------------------------------------------------------------------------------

    @precondition(lambda self: self.newest > 2)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        if not self.newest:
            return
        before = data.draw(st.integers(0, self.newest))
        moment = self.versions[before - 1].time if before else None
        given = moment if moment is not None and data.draw(st.booleans()) else before
        told = self.store.expire(given)
        report = self.store.expire(given, dry_run=False)
        assert (told.oldest, told.expired, told.kept) == (
            report.oldest,
            report.expired,
            report.kept,
        )
        if report.version is None:
            assert before <= max(1, self.oldest)
            return
        self.oldest = before
        self.acted(report.version)

    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        old = data.draw(st.booleans())
        if old:
            self.age()
        at_once = data.draw(st.booleans())
        minimum_age = timedelta(0) if at_once else MINIMUM_AGE
        self.store.gc(minimum_age=minimum_age)
        assert self.store.history.newest_number == self.newest
        self.store.gc(minimum_age=minimum_age, dry_run=False)
        if self.store.history.newest_number > self.newest:
            self.acted(self.newest + 1)
        for each in self.staged:
            each.doomed |= old or at_once
        for number in range(self.newest + 1):
            self.check_version(number)

    def age(self) -> None:
        """Make every object a month older."""
        objects = self.store.objects
        if isinstance(objects, MemoryObjects):
            for name in objects._modified_us:
                objects._modified_us[name] -= _LONG // timedelta(microseconds=1)
            return
        for file in Path(self.store.uri.removeprefix("file://")).glob("*/**/*"):
            if file.is_file():
                then = file.stat().st_mtime - _LONG.total_seconds()
                os.utime(file, (then, then))

    @rule()
    def reopen(self) -> None:
        self.store = Store.open(self.store.uri, create=False)

    # --- what must hold ---------------------------------------------------------------------------

    def contents(self, number: int, symbol: str) -> pa.Table:
        """Read a symbol, by a query or past the queries."""
        if self.chance.random() < 0.3:
            found = self.store.read(symbol, as_of=number).to_arrow()
            return found.replace_schema_metadata(None)
        return read(self.store.view(symbol, number))

    def check_version(self, number: int) -> None:
        """Check all that a version holds, or that it has expired."""
        if not self.kept(number):
            with pytest.raises(SnapshotExpiredError):
                self.store.at(number)
            return
        state = self.versions[number - 1].state if number else {}
        assert self.store.symbols(as_of=number) == sorted(state)
        for name, table in state.items():
            view = self.store.view(name, number)
            assert view.schema.index == table.index
            assert view.metadata == table.metadata
            assert view.row_count == len(table.rows)
            assert_same(self.contents(number, name), table.arrow())

    @invariant()
    def versions_hold_what_they_held(self) -> None:
        if hasattr(self, "versions"):
            self.check_version(self.chance.randint(0, self.newest))

    @invariant()
    def branches_and_tags_are_those(self) -> None:
        if hasattr(self, "versions"):
            assert self.store.branches() == self.branches
            assert self.store.tags() == self.tags
            assert self.store.history.newest_number == self.newest

    @rule(data=st.data())
    def as_of_a_name(self, data: st.DataObject) -> None:
        for name, number in {**self.branches, **self.tags}.items():
            assert self.store.at(name).number == number
            state = self.versions[number - 1].state if number else {}
            for symbol in data.draw(st.permutations(sorted(state)))[:1]:
                found = self.store.read(symbol, as_of=name).to_arrow()
                assert_same(found.replace_schema_metadata(None), state[symbol].arrow())
        check_extents(self.store)

    @precondition(lambda self: self.newest)
    @rule(data=st.data())
    def as_of_an_instant(self, data: st.DataObject) -> None:
        branch, store = self.drawn_branch(data)
        moment = data.draw(st.sampled_from(self.versions)).time
        moment += timedelta(microseconds=data.draw(st.integers(-1, 1)))
        tip = self.branches[branch]
        line = [*self.line(tip), 0]
        expected = next(n for n in line if n == 0 or self.versions[n - 1].time <= moment)
        first = self.versions[self.oldest - 1].time if self.oldest > 1 else None
        if not self.kept(expected) or (first and moment < first and expected != tip and tip):
            with pytest.raises(SnapshotExpiredError):
                store.at(moment)
        else:
            assert store.at(moment).number == expected

    @rule(data=st.data())
    def difference(self, data: st.DataObject) -> None:
        one, two = self.drawn_kept(data), self.drawn_kept(data)
        before, after = self.state(one), self.state(two)
        found = self.store.diff(one, two)
        assert set(found.added) == after.keys() - before.keys()
        assert set(found.removed) == before.keys() - after.keys()
        changed = {each.symbol: each for each in found.changed}
        both = before.keys() & after.keys()
        same = {name for name in both if before[name].stamp == after[name].stamp}
        assert not same & changed.keys(), [changed[name] for name in same & changed.keys()]
        for name in both - changed.keys():
            assert_same(before[name].arrow(), after[name].arrow())
            assert before[name].metadata == after[name].metadata
        for name, each in changed.items():
            assert (each.rows_before, each.rows_after) == (
                len(before[name].rows),
                len(after[name].rows),
            )
            assert (each.index_before, each.index_after) == (before[name].index, after[name].index)
            assert each.metadata_before == before[name].metadata
            assert each.metadata_after == after[name].metadata

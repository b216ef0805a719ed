"""Random histories of real commits under random configurations, against plain tables.

After every commit: the content of all symbols, the lookup both ways, the limits of all sets, and
that nothing outside the closure was packed anew.
"""

from __future__ import annotations

import itertools
import random
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.options import options
from tessel.store.manifest.packing import ManifestConfiguration, ManifestSet
from tessel.store.repository import Repository
from tessel.store.transaction import Transaction
from tests.store.helpers import assert_same, new_place, read
from tests.store.manifest.histories import configurations
from tests.store.packing.laws import check_limits, lookup_of_symbols, small_folds

NAMES = ["axis", "axis2", "time", "quotes", "trades", *(f"s{n}" for n in range(12))]


class History:
    """A store, and what it should hold on each of its branches."""

    def __init__(self, configuration: ManifestConfiguration, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects = new_place("memory://packing")
        self.configuration = configuration
        self.branch = "main"
        self.tables: dict[str, dict[str, pa.Table]] = {"main": {}}
        self.times = itertools.count()
        self.repository = self._open()
        self.repository.set_manifest_configuration(configuration)

    def _open(self) -> Repository:
        return Repository(self.objects, "id", read_only=False, branch=self.branch)

    @property
    def held(self) -> dict[str, pa.Table]:
        return self.tables[self.branch]

    def step(self) -> None:
        kind = self.random.choices(
            ["transaction", "appends", "fork", "reopen", "repack"], weights=[10, 6, 1, 1, 1]
        )[0]
        getattr(self, kind)()

    def check(self, configuration: ManifestConfiguration | None = None) -> None:
        snapshot = self.repository.at(None).snapshot
        assert list(snapshot) == sorted(self.held)
        for name, table in self.held.items():
            assert_same(read(self.repository.view(name)), table)
        check_limits(self.repository, configuration or self.configuration)

    # --- commits ----------------------------------------------------------------------------------

    def transaction(self) -> None:
        before = self.repository.at(None).snapshot
        packed = lookup_of_symbols(before)
        touched: set[str] = set()
        with self.repository.transaction() as changes:
            for _ in range(self.random.choice([1, 1, 2, 3, 12])):
                touched |= self.change(changes)
        self.check_closure(packed, touched)

    def change(self, changes: Transaction) -> set[str]:
        """Do something to a symbol, and return its names."""
        name = self.random.choice(NAMES)
        if name not in self.held:
            self.write(changes, name)
            return {name}
        verb = self.random.choice(["write", "append", "update", "remove", "delete", "rename"])
        if verb == "rename":
            return self.rename(changes, name)
        getattr(self, verb)(changes, name)
        return {name}

    def write(self, changes: Transaction, name: str) -> None:
        self.held[name] = self.rows(self.random.choice([0, 1, 2, 5, 9]))
        changes.write(name, self.held[name], index="t")

    def append(self, changes: Transaction, name: str) -> None:
        more = self.rows(self.random.choice([1, 2, 5]))
        changes.append(name, more)
        self.held[name] = pa.concat_tables([self.held[name], more])

    def update(self, changes: Transaction, name: str) -> None:
        table = self.held[name]
        if not table.num_rows:
            return
        low = self.random.randrange(table.num_rows)
        high = min(table.num_rows, low + self.random.randint(1, 3))
        times = table.column("t").slice(low, high - low)
        new = pa.table({"t": times, "x": self.values(high - low), "y": self.values(high - low)})
        changes.update(name, new)
        self.held[name] = pa.concat_tables([table.slice(0, low), new, table.slice(high)])

    def remove(self, changes: Transaction, name: str) -> None:
        table = self.held[name]
        low = self.random.randint(0, table.num_rows)
        high = min(table.num_rows, low + self.random.randint(0, 3))
        changes.delete_rows(name, rows=(low, high))
        self.held[name] = pa.concat_tables([table.slice(0, low), table.slice(high)])

    def delete(self, changes: Transaction, name: str) -> None:
        changes.delete(name)
        del self.held[name]

    def rename(self, changes: Transaction, name: str) -> set[str]:
        free = [other for other in NAMES if other not in self.held]
        if not free:
            return {name}
        to = self.random.choice(free)
        try:
            changes.rename_symbol(name, to)
        except InvalidInputError:  # two names were to be swapped in one transaction
            return {name}
        self.held[to] = self.held.pop(name)
        return {name, to}

    def appends(self) -> None:
        """Append often, to some symbols at a time, so that tails are folded."""
        for _ in range(self.random.choice([1, 5])):
            chosen = self.random.sample(sorted(self.held), min(len(self.held), 4))
            with self.repository.transaction() as changes:
                for name in chosen:
                    self.append(changes, name)

    # --- the rest ---------------------------------------------------------------------------------

    def fork(self) -> None:
        """Begin a branch with what there is, or go to another one."""
        if len(self.tables) < 3:
            name = f"b{len(self.tables)}"
            self.repository.create_branch(name)
            self.tables[name] = dict(self.held)
        self.branch = self.random.choice(sorted(self.tables))
        self.repository = self._open()

    def reopen(self) -> None:
        self.repository = self._open()

    def repack(self) -> None:
        contents = dict(self.repository.at(None).snapshot)
        report = self.repository.repack()
        assert report.version == self.repository.newest
        assert self.repository.repack().symbols == 0
        assert not self.repository.repack().plan.written
        after = self.repository.at(None).snapshot
        assert {name: state.changed for name, state in after.items()} == {
            name: state.changed for name, state in contents.items()
        }

    def check_closure(self, packed: dict, touched: set[str]) -> None:  # type: ignore[type-arg]
        """Check that manifests which no touched symbol reaches are as they were.

        Sets with a cardinality, or that count symbols, may pull others in.
        """
        pulling = any(
            each.cardinality is not None or each.symbols_per_manifest is not None
            for each in self.configuration.sets
        )
        if pulling:
            return
        shared = {
            manifest: {name for name, _ in members.values()}
            for manifests in packed.values()
            for manifest, members in manifests.items()
        }
        reached = set(touched)
        while True:
            grown = reached.union(*(m for m in shared.values() if m & reached))
            if grown == reached:
                break
            reached = grown
        after = lookup_of_symbols(self.repository.at(None).snapshot)
        kept = {manifest for manifests in after.values() for manifest in manifests}
        assert {manifest for manifest, names in shared.items() if not names & reached} <= kept

    def rows(self, count: int) -> pa.Table:
        times = [next(self.times) for _ in range(count)]
        return pa.table(
            {"t": pa.array(times, pa.int64()), "x": self.values(count), "y": self.values(count)}
        )

    def values(self, count: int) -> pa.Array:
        return pa.array([self.random.randrange(1_000) for _ in range(count)], pa.int64())


# The same cases each time; the slow lane draws others, and finds what the next test shows.
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(configuration=configurations(), seed=st.integers(0, 2**32))
def test_histories_of_commits_keep_the_laws(
    configuration: ManifestConfiguration, seed: int
) -> None:
    run(configuration, seed, steps=12)


@pytest.mark.parametrize(
    ("limits", "seed"),
    [
        ({"max_segments": 3}, 3),
        ({"max_segments": 7}, 1),
        ({"max_segments": 7}, 2),
        ({"max_segments": 34}, 26),
        ({"symbols_per_manifest": 2}, 26),
    ],
)
def test_limits_hold_where_rows_were_cut(limits: dict[str, int], seed: int) -> None:
    """Histories in which a limit was passed, or a second repack found something to do."""
    sets = (ManifestSet("c", cardinality=None), ManifestSet("default", **limits))
    run(ManifestConfiguration(sets=sets, rules=()), seed, steps=14)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(configuration=configurations(), seed=st.integers(0, 2**32))
def test_long_histories_of_commits_keep_the_laws(
    configuration: ManifestConfiguration, seed: int
) -> None:
    run(configuration, seed, steps=40)


def run(configuration: ManifestConfiguration, seed: int, *, steps: int) -> None:
    # Ties go by ids, so that a seed is one history only where it makes the ids too.
    drawn = random.Random(seed)
    with (
        mock.patch("secrets.randbits", drawn.getrandbits),
        mock.patch("secrets.token_bytes", drawn.randbytes),
        small_folds(),
        options(segment_rows=2, segment_columns=2, workers=1),
    ):
        history = History(configuration, seed)
        for _ in range(steps):
            history.step()
            history.check()
        # All other branches are as they were left.
        for branch in sorted(history.tables):
            history.branch = branch
            history.reopen()
            history.check()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=configurations(), second=configurations(), seed=st.integers(0, 2**32))
@example(  # of a manifest written under no limit, edits have left fewer segments than the new one
    first=ManifestConfiguration(sets=(ManifestSet("default"),), rules=()),
    second=ManifestConfiguration(sets=(ManifestSet("default", max_segments=15),), rules=()),
    seed=10705,
)
def test_another_configuration_applies_to_everything_once_all_is_repacked(
    first: ManifestConfiguration, second: ManifestConfiguration, seed: int
) -> None:
    with small_folds(), options(segment_rows=2, segment_columns=2):
        history = History(first, seed)
        for _ in range(6):
            history.step()
        history.repository.set_manifest_configuration(second)
        history.configuration = second
        for branch in sorted(history.tables):
            history.branch = branch
            history.reopen()
            assert history.repository.manifest_configuration == second
            planned = history.repository.repack(dry_run=True)
            report = history.repository.repack()
            assert len(planned.plan.written) == len(report.plan.written)
            history.check()
        for _ in range(6):
            history.step()
            history.check()

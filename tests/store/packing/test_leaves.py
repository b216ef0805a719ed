"""Small symbols of the usual configuration: tails and manifests of one leaf, against plain tables.

After every commit: the content of all symbols, how large leaves are, how many tails they have, how
much of their manifests is dead, and how many objects and bytes were put. Nothing here is timed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.store.history import leaves
from tessel.store.history.documents import seal
from tessel.store.history.leaves import Leaf
from tessel.store.history.symbol import Packing, SymbolPacking
from tessel.store.manifest.packing import (
    ManifestConfiguration,
    ManifestRule,
    ManifestSet,
    leaf_folds,
)
from tessel.store.manifest.packing.leaf_folds import LEAF_TAILS, fold_start, plan_leaf_fold
from tessel.store.repository import Repository
from tests.store.helpers import assert_same, read
from tests.store.history.helpers import CountingObjects
from tests.store.packing.laws import check_extents, check_lookup

BEFORE = ManifestConfiguration(
    (ManifestSet("small", max_segments=50_000), ManifestSet("default")),
    (ManifestRule("small", segments=(None, 5_000)),),
)
"""What was usual in stores made before."""


def rows(first: int, count: int = 1) -> pa.Table:
    times = range(first, first + count)
    values = pa.array([time + 0.5 for time in times], pa.float64())
    return pa.table({"t": pa.array(times, pa.int64()), "x": values})


def opened(objects: CountingObjects, before: bool = False) -> Repository:
    """Open a store as it is now, or as a release did that packed all small symbols together."""
    store = Repository(objects, "id", read_only=False)
    store._override = BEFORE if before else None
    return store


def filled(symbols: int, *, before: bool = False) -> tuple[CountingObjects, list[str]]:
    """Return a place with so many symbols of one row, made in one commit."""
    objects = CountingObjects()
    names = [f"s{number:06}" for number in range(symbols)]
    with opened(objects, before).transaction() as changes:
        for name in names:
            changes.write(name, rows(0), index="t")
    return objects, names


# --- the laws -------------------------------------------------------------------------------------


def check_leaves(store: Repository) -> None:
    """Check leaves and manifests of the newest snapshot, as every commit leaves them."""
    snapshot = store.at(None).snapshot
    check_lookup(snapshot)
    check_extents(store)
    owner: dict[str, int] = {}
    live: dict[str, int] = {}
    held: dict[str, int] = {}
    for at, leaf in enumerate(snapshot.leaves()):
        check_size(leaf)
        tails = set()
        for name in leaf.documents:
            for extent in snapshot[name].manifests:
                manifest = extent.reference.object
                if extent.held is not None:
                    assert extent.set == "small"
                    # It is of one leaf, but for a cut between neighbours that did not settle.
                    assert at - owner.setdefault(manifest, at) <= 1
                    live[manifest] = live.get(manifest, 0) + extent.segments
                    held[manifest] = extent.held
                    opened = store.manifest(extent.reference)
                    assert opened.segments.num_rows == extent.held <= 256
                elif extent.set is None:
                    tails.add(manifest)
        assert len(tails) < leaf_folds.LEAF_TAILS
    assert not [manifest for manifest in held if 2 * live[manifest] <= held[manifest]]


def check_size(leaf: Leaf) -> None:
    assert len(leaf) <= leaves.LEAF_SYMBOLS
    assert len(leaf) == 1 or len(seal(leaf.to_json())) <= leaves.LEAF_BYTES + 256


@contextlib.contextmanager
def few() -> Iterator[None]:
    """Fold after few tails, over leaves of few symbols."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaves, "LEAF_SYMBOLS", 8)
        patch.setattr(leaves, "LEAF_BYTES", 4_000)
        patch.setattr("tessel.store.history.leaves.INNER_CHILDREN", 4)
        patch.setattr("tessel.store.history.tree.INNER_CHILDREN", 4)
        patch.setattr("tessel.store.history.tree.ROOT_CHILDREN", 4)
        patch.setattr("tessel.store.history.tree.ROOT_BYTES", 400)
        patch.setattr(leaf_folds, "LEAF_TAILS", 6)
        patch.setattr(leaf_folds, "_LEAST_LIVE", 3)
        patch.setattr("tessel.store.manifest.packing.flush._LONGEST", 4)
        patch.setattr("tessel.store.manifest.packing.flush._LONGEST_PER_ROOT", 1)
        yield


class Model:
    """A store of small symbols, and a dictionary of what it should hold."""

    def __init__(self, seed: int, *, before: int) -> None:
        self.random = random.Random(seed)
        self.objects, names = filled(before, before=True) if before else filled(1)
        self.store = opened(self.objects)
        self.held = {name: rows(0) for name in names}
        self.following = 1

    def step(self) -> None:
        self.objects.forget()
        verb = self.random.choices(["commit", "reopen", "revert", "repack"], weights=[40, 4, 1, 1])[
            0
        ]
        getattr(self, verb)()

    def commit(self) -> None:
        with self.store.transaction() as changes:
            for _ in range(self.random.choice([1, 1, 1, 3, 20])):
                verb = self.random.choices(
                    ["create", "write", "append", "cut", "delete", "rename", "note"],
                    weights=[6, 4, 4, 1, 2, 1, 1],
                )[0]
                name = self.random.choice(sorted(self.held)) if self.held else ""
                if verb == "create" or not name:
                    verb, name = "write", f"s{self.random.randrange(60):06}"
                getattr(self, verb)(changes, name)

    def more(self, count: int) -> pa.Table:
        self.following += count
        return rows(self.following - count, count)

    def write(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        self.held[name] = self.more(self.random.choice([1, 1, 2, 0]))
        changes.write(name, self.held[name], index="t")

    def append(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        more = self.more(1)
        changes.append(name, more)
        self.held[name] = pa.concat_tables([self.held[name], more])

    def cut(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        table = self.held[name]
        low = self.random.randint(0, table.num_rows)
        changes.delete_rows(name, rows=(low, min(low + 1, table.num_rows)))
        self.held[name] = pa.concat_tables([table.slice(0, low), table.slice(low + 1)])

    def delete(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        changes.delete(name)
        del self.held[name]

    def rename(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        to = f"s{self.random.randrange(60):06}"
        if to in self.held:
            return
        with contextlib.suppress(InvalidInputError):  # two names were to be swapped
            changes.rename_symbol(name, to)
            self.held[to] = self.held.pop(name)

    def note(self, changes, name: str) -> None:  # type: ignore[no-untyped-def]
        changes.set_metadata(name, {"note": "x" * self.random.randrange(300)})

    def reopen(self) -> None:
        self.store = opened(self.objects)

    def revert(self) -> None:
        """Go back a little; then touch all, for a revert folds nothing itself."""
        number = self.store.newest
        held = {name: read(self.store.view(name)) for name in self.store.symbols()}
        with self.store.transaction() as changes:
            for name in sorted(held)[::2]:
                changes.delete(name)
        self.store.revert(number)
        assert self.store.symbols() == sorted(held)
        self.repack()

    def repack(self) -> None:
        """Pack all anew: what the first has cut out of large leaves settles in the second."""
        self.store.repack()
        self.store.repack()
        assert self.store.repack().symbols == 0

    def check(self, most: int) -> None:
        """Check the laws, and what some symbols hold: reading all takes most of the time."""
        assert self.store.symbols() == sorted(self.held)
        for name in self.random.sample(sorted(self.held), min(most, len(self.held))):
            assert_same(read(self.store.view(name)), self.held[name])
        check_leaves(self.store)


def run(seed: int, *, before: int, steps: int) -> None:
    drawn = random.Random(seed)
    with (
        mock.patch("secrets.randbits", drawn.getrandbits),
        mock.patch("secrets.token_bytes", drawn.randbytes),
        few(),
    ):
        model = Model(seed, before=before)
        for _ in range(steps):
            model.step()
            model.check(3)
        model.check(1_000)


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), before=st.sampled_from([0, 20]))
def test_small_symbols_keep_the_laws(seed: int, before: int) -> None:
    run(seed, before=before, steps=20)


@pytest.mark.parametrize(
    ("seed", "before"),
    [
        pytest.param(46, 0, id="rows that the commit deletes are not folded"),
        pytest.param(29, 20, id="a fold takes no more than half of what stays"),
    ],
)
def test_laws_that_were_broken(seed: int, before: int) -> None:
    run(seed, before=before, steps=15)


# --- what a commit writes -------------------------------------------------------------------------


def written(symbols: int, changes: int) -> dict[str, list[int]]:
    """Return the bytes of each change of one symbol, in a store of so many."""
    objects, names = filled(symbols)
    store = opened(objects)
    chance = random.Random(symbols)
    found: dict[str, list[int]] = {"create": [], "write": [], "append": []}
    for number in range(1, changes + 1):
        for act, sizes in found.items():
            name = f"n{chance.random()}" if act == "create" else chance.choice(names)
            objects.forget()
            if act == "append":
                store.append(name, rows(1_000 * number))
            else:
                store.write(name, rows(number), index="t")
            sizes.append(sum(size for _, size in objects.puts))
            assert len(objects.puts) <= 4 + 2, "data, tail, index, entry; and what a fold writes"
    check_leaves(store)
    return found


def test_a_small_symbol_costs_the_same_whatever_their_number() -> None:
    few_symbols, many = written(100, 20), written(1_000, 20)
    for act in few_symbols:
        least, most = sorted(sum(each[act]) / len(each[act]) for each in (few_symbols, many))
        assert most <= 30_000, act
        assert most <= 1.3 * least, act


def test_a_store_made_before_gets_there_as_it_is_written() -> None:
    objects, names = filled(120, before=True)
    assert len(list(opened(objects).at(None).snapshot.lookup)) == 120
    store = opened(objects)
    for number, name in enumerate(names):
        store.write(name, rows(number), index="t")
    check_leaves(store)
    assert not list(store.at(None).snapshot.lookup)
    assert_same(read(store.view(names[7])), rows(7))
    # The release before goes on with it, and so does this one after that.
    opened(objects, before=True).write(names[3], rows(50), index="t")
    opened(objects).append(names[3], rows(51))
    assert_same(read(opened(objects).view(names[3])), rows(50, 2))


def test_a_store_made_before_costs_as_little_once_a_leaf_was_written_to() -> None:
    with mock.patch.multiple(leaves, LEAF_SYMBOLS=256, LEAF_BYTES=64 * 1024):
        objects, names = filled(400, before=True)
    store = opened(objects)
    sizes = []
    for number, name in enumerate([*names[::40], *names[1::40], *names[2::40]]):
        objects.forget()
        store.write(name, rows(number), index="t")
        sizes.append(sum(size for _, size in objects.puts))
        assert len(objects.puts) <= 4 + 2, "data, tail, index, entry; and what a fold writes"
    assert sum(sizes[-10:]) <= 10 * 30_000, "a fold may cost one of them more"
    assert all(len(leaf) <= leaves.LEAF_SYMBOLS for leaf in store.at(None).snapshot.leaves())
    assert_same(read(store.view(names[39])), rows(0))


def test_repacking_brings_a_store_made_before_there_at_once() -> None:
    objects, names = filled(120, before=True)
    store = opened(objects)
    store.repack()
    check_leaves(store)
    assert not list(store.at(None).snapshot.lookup)
    assert_same(read(store.view(names[7])), rows(0))


def test_leaves_that_repacking_cuts_are_packed_as_they_come_out() -> None:
    drawn = random.Random(0)  # the digits of checksums decide where a leaf is cut
    with (
        mock.patch("secrets.randbits", drawn.getrandbits),
        mock.patch("secrets.token_bytes", drawn.randbytes),
    ):
        with mock.patch.multiple(leaves, LEAF_SYMBOLS=256, LEAF_BYTES=64 * 1024):
            objects, names = filled(120, before=True)
            for first in range(1, 4):
                with opened(objects, before=True).transaction() as changes:
                    for name in names[::3]:
                        changes.append(name, rows(first))
        store = opened(objects)
        assert store.repack().symbols == 120
        check_leaves(store)
        assert not store.repack().symbols


def test_a_leaf_is_folded_for_its_tails_and_for_half_dead_manifests() -> None:
    usual = ManifestConfiguration()

    def symbol(number: int, *extents: Packing) -> SymbolPacking:
        return SymbolPacking(f"s{number}", number, 2, extents)

    tails = [symbol(n, Packing(f"t{n}", 1, None, None)) for n in range(LEAF_TAILS)]
    assert plan_leaf_fold(usual, tails[1:]) is None
    due = plan_leaf_fold(usual, tails)
    assert due is not None
    assert due.symbols == tuple(each.name for each in tails)
    half = [symbol(n, Packing("m", 1, "small", 40)) for n in range(20)]
    assert plan_leaf_fold(usual, half) is not None
    assert plan_leaf_fold(usual, [*half, symbol(20, Packing("m", 1, "small", 40))]) is None
    large = [symbol(n, Packing(f"t{n}", 300, None, None)) for n in range(LEAF_TAILS)]
    assert plan_leaf_fold(usual, large) is None
    pulled = [Packing("m", 1, "small", 40), Packing("t0", 1, None, None)]
    taken = [symbol(100 + n, *pulled) for n in range(2)]
    rest = [symbol(200 + n, Packing("m", 1, "small", 40)) for n in range(20)]
    plan = plan_leaf_fold(usual, [*taken, *tails, *rest])
    assert plan is not None
    assert not plan.stays, "twenty of forty would be left"


def test_what_is_folded_of_a_symbol_grows_while_what_is_before_is_no_larger() -> None:
    extents = [
        Packing("a", 8, "small", 40),
        Packing("b", 2, "small", 40),
        Packing("t1", 1, None, None),
        Packing("t2", 1, None, None),
    ]
    assert fold_start(extents, {"a", "b"}) == 1
    assert fold_start(extents, {"b"}) == 0
    assert fold_start(extents[:2], {"a", "b"}) == 2

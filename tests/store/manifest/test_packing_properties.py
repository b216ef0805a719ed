"""What the packing never breaks, over random configurations and random histories of flushes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.store.manifest.packing import (
    Changes,
    ManifestConfiguration,
    ManifestRule,
    ManifestSet,
    MembershipTable,
    PackingPlan,
    Run,
    SymbolContent,
    SymbolMembership,
    pack,
    plan_folds,
    repack,
)
from tests.store.manifest.model import (
    ModelStore,
    SliceEndsOf,
    Symbol,
    Tokens,
    fewest_bins,
    naive_closure,
    naive_first_fit,
    naive_packing,
    naive_target,
)

MIB = 1 << 20
RATES = (24, 100, MIB // 30, MIB // 9)
NAMES = ("axis", "axis2", "time", "quotes", "trades")
PATTERNS = (None, None, "axis.*", "time|axis", ".*s", "(?i)QUOTES")


@st.composite
def configurations(draw: st.DrawFn) -> ManifestConfiguration:
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(0, 4))]
    limits = st.one_of(st.none(), st.integers(1, 60))
    made = []
    for at, name in enumerate(names):
        # Overflow goes to later names of the permutation, so it cannot go round.
        target = draw(st.sampled_from([None, "default", *names[at + 1 :]]))
        made.append(_drawn_set(draw, name, limits, target))
    if draw(st.booleans()):
        made.append(_drawn_set(draw, "default", limits, None))
    made = draw(st.permutations(made))
    targets = st.sampled_from([*names, "default"])
    ends = st.tuples(
        st.one_of(st.none(), st.integers(0, 20)), st.one_of(st.none(), st.integers(20, 80))
    )
    rules = draw(
        st.lists(st.builds(ManifestRule, targets, st.sampled_from(PATTERNS), ends), max_size=5)
    )
    return ManifestConfiguration(tuple(made), tuple(rules))


def _drawn_set(
    draw: st.DrawFn, name: str, limits: st.SearchStrategy[int | None], target: str | None
) -> ManifestSet:
    count = draw(st.one_of(st.none(), st.none(), st.integers(1, 4)))
    return ManifestSet(
        name,
        max_segments=draw(limits) if count is None else None,
        symbols_per_manifest=count,
        cardinality=None if name == "default" else draw(st.sampled_from([1, 1, 2, 3, None])),
        overflow_to=target,
        max_bytes=draw(st.sampled_from([MIB, 64 * MIB, None])),
    )


class History:
    """A random history of flushes, each checked against the laws and an order of its own."""

    def __init__(self, configuration: ManifestConfiguration, seed: int) -> None:
        self.configuration = configuration
        self.random = random.Random(seed)
        self.store = ModelStore()
        self.next_id = 0

    def step(self) -> None:
        kind = self.random.choices(
            ["flush", "append", "repack", "configure"], weights=[12, 6, 1, 0.3]
        )[0]
        getattr(self, kind)()
        self.store.check(self.configuration)

    def configure(self) -> None:
        """Raise limits; what lies in the store keeps them as it is."""
        self.configuration = ManifestConfiguration(
            tuple(
                ManifestSet(
                    each.name,
                    each.max_segments and each.max_segments + self.random.randint(0, 30),
                    each.symbols_per_manifest,
                    each.cardinality and each.cardinality + self.random.randint(0, 1),
                    each.overflow_to,
                    each.max_bytes,
                )
                for each in self.configuration.sets
            ),
            self.configuration.rules,
        )

    def append(self) -> None:
        present = sorted(key for key, each in self.store.symbols.items() if each.tokens)
        for _ in range(self.random.choice([1, 1, 20])):
            chosen = self.random.sample(present, min(len(present), self.random.randint(1, 5)))
            self.fold(chosen)
            if chosen:
                counts = {key: self.random.choice([1, 1, 2, 30]) for key in chosen}
                assert self.store.append(self.configuration, counts) >= 1

    def fold(self, chosen: Sequence[int]) -> None:
        folds = plan_folds(self.configuration, chosen, self.store.membership())
        self.store.join(folds)
        self.run({key: self.store.symbols[key] for key in folds.packed}, ())

    def flush(self) -> None:
        states: dict[int, Symbol] = {}
        gone: set[int] = set()
        for key, each in sorted(self.store.symbols.items()):
            what = self.random.random()
            if what < 0.08:
                gone.add(key)
                if self.random.random() < 0.5:
                    states |= self.created(each.name)
            elif what < 0.2:
                states[key] = self.altered(each)
        if self.random.random() < 0.7:
            states |= self.created(f"{self.random.choice(NAMES)}{self.next_id}")
            states |= self.created(self.random.choice(NAMES))
        self.run(states, gone)

    def created(self, name: str) -> dict[int, Symbol]:
        # Ids are random, as in a store, so that their order says nothing of age.
        self.next_id += 1
        key = self.next_id * 7_919 % 10_007
        width = self.random.choice([1, 1, 2, 5])
        count = self.random.choice([0, 1, 2, 5, 15, 40, 90]) * width
        rate = self.random.choice(RATES)
        return {key: Symbol(name, rate, width, self.store.fresh(count), ())}

    def altered(self, before: Symbol) -> Symbol:
        width, tokens = before.slice_width, before.tokens
        slices = len(tokens) // width
        start = self.random.randint(0, slices)
        stop = self.random.randint(start, min(slices, start + 8))
        fresh = self.store.fresh(self.random.choice([0, 1, 3, 12]) * width)
        whole = self.random.random() < 0.1
        changed = fresh if whole else tokens[: start * width] + fresh + tokens[stop * width :]
        return Symbol(before.name, before.rate, width, changed, before.manifests)

    def repack(self) -> None:
        before = self.store.membership(self.random)
        widths = {k: (len(s.tokens), s.slice_width) for k, s in self.store.symbols.items()}
        plan = repack(self.configuration, before, slice_ends=SliceEndsOf(widths))
        self.store.apply(plan, dict(self.store.symbols), ())
        again = repack(self.configuration, self.store.membership(), slice_ends=SliceEndsOf(widths))
        assert again.written == ()
        assert set(again.kept) == self.store.live()
        assert again.released == ()

    def run(self, states: Mapping[int, Symbol], gone: Iterable[int]) -> None:
        """Plan a flush in two orders, compare, check what was touched, and carry it out."""
        store = self.store
        contents = [
            store.content(key, each.name, each.rate, each.tokens) for key, each in states.items()
        ]
        widths = {k: (len(s.tokens), s.slice_width) for k, s in {**store.symbols, **states}.items()}
        plans = []
        for order in (None, self.random):
            if order is not None:
                order.shuffle(contents)
            plans.append(
                pack(
                    self.configuration,
                    Changes(tuple(contents), frozenset(gone)),
                    store.membership(order),
                    slice_ends=SliceEndsOf(widths),
                )
            )
        assert plans[0] == plans[1], "the order of what is given changed the plan"
        self.check_touched(plans[0], states, gone)
        store.apply(plans[0], states, gone)

    def check_touched(
        self, plan: PackingPlan, states: Mapping[int, Symbol], gone: Iterable[int]
    ) -> None:
        """Check that the plan touches the closure and the closures of full sets alone."""
        store = self.store
        packed = {m: store.members(m) for m in store.live() if store.stored[m].set is not None}
        start = {*states, *gone}
        symbols, manifests = naive_closure(packed, start)
        for name in plan.metrics.pulled:
            more = {k for m, held in packed.items() if store.stored[m].set == name for k in held}
            symbols, manifests = naive_closure(packed, symbols | more)
        touched = {*plan.kept, *plan.released}
        assert touched <= manifests
        self.check_sets(plan, states)
        assert plan.placements.keys() <= symbols
        if not plan.metrics.pulled:
            assert touched == manifests
            assert plan.placements.keys() == symbols - set(gone)

    def check_sets(self, plan: PackingPlan, states: Mapping[int, Symbol]) -> None:
        """Check that each symbol is packed in the set of its rule, or one this overflows to."""
        overflow = {each.name: each.overflow_to for each in self.configuration.sets}
        stored = self.store.stored
        flipped = []
        for key, placements in plan.placements.items():
            symbol = states.get(key) or self.store.symbols[key]
            before = [stored[m].set for m in symbol.manifests]
            chosen = {
                plan.written[p.written].set if p.written is not None else stored[p.manifest].set
                for p in placements
                if p.written is not None or p.manifest is not None
            } - {None}
            assert len(chosen) == (1 if symbol.tokens else 0)
            name: str | None = naive_target(self.configuration, symbol.name, len(symbol.tokens))
            while chosen and name not in chosen:
                assert name is not None
                name = overflow[name]
            packed = [each for each in before if each is not None]
            if chosen and packed and packed[0] not in chosen:
                flipped.append(key)
        assert plan.metrics.flipped == tuple(sorted(flipped))


@settings(max_examples=60)
@given(configurations(), st.integers(0, 2**32))
def test_random_histories_keep_every_law(configuration: ManifestConfiguration, seed: int) -> None:
    history = History(configuration, seed)
    for _ in range(25):
        history.step()


@pytest.mark.slow
@settings(max_examples=3_000)
@given(configurations(), st.integers(0, 2**32))
def test_long_random_histories_keep_every_law(
    configuration: ManifestConfiguration, seed: int
) -> None:
    history = History(configuration, seed)
    for _ in range(80):
        history.step()


@given(configurations())
def test_configurations_come_back_from_plain_data(configuration: ManifestConfiguration) -> None:
    again = ManifestConfiguration.from_json(configuration.to_json())
    assert again == configuration
    assert hash(again) == hash(configuration)
    order = [each.name for each in configuration.packing_order]
    assert sorted(order) == sorted(each.name for each in configuration.sets)
    for each in configuration.sets:
        if each.overflow_to is not None:
            assert order.index(each.name) < order.index(each.overflow_to)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([1, MIB // 9, MIB // 4])), max_size=40),
    st.integers(12, 30),
)
def test_bins_are_those_of_first_fit_looking_at_every_bin(
    sizes: list[tuple[int, int]], max_segments: int
) -> None:
    configuration = ManifestConfiguration(
        (ManifestSet("default", max_segments, max_bytes=3 * MIB),)
    )
    contents = tuple(
        SymbolContent(key, "s", rate, (Run(segments),))
        for key, (segments, rate) in enumerate(sizes)
    )
    plan = pack(configuration, Changes(contents), MembershipTable())
    weighed = sorted(
        ((segments, segments * rate, key) for key, (segments, rate) in enumerate(sizes)),
        key=lambda each: (-max(each[0] / max_segments, each[1] / (3 * MIB)), each[2]),
    )
    expected = naive_first_fit(weighed, max_segments, 3 * MIB)
    assert [sorted(each) for each in expected] == [
        [part.symbol for part in each.parts] for each in plan.written
    ]


SIZES = st.lists(
    st.tuples(
        st.integers(1, 90), st.sampled_from([24, MIB // 30, MIB // 90]), st.sampled_from(NAMES)
    ),
    max_size=25,
)


@settings(max_examples=300)
@given(configurations(), SIZES)
def test_sets_hold_what_a_plain_reading_of_the_rules_says(
    configuration: ManifestConfiguration, sizes: list[tuple[int, int, str]]
) -> None:
    contents = tuple(
        SymbolContent(key, name, rate, (Run(segments),))
        for key, (segments, rate, name) in enumerate(sizes)
    )
    plan = pack(configuration, Changes(contents), MembershipTable())
    expected, cut = naive_packing(configuration, sizes)
    found = [(m.set, [p.symbol for p in m.parts]) for m in plan.written]
    assert sorted(each for each in found if each[1][0] not in cut) == sorted(expected)
    for key in cut:
        segments, rate, _ = sizes[key]
        parts = [m for m in plan.written if [p.symbol for p in m.parts] == [key]]
        default = configuration.set_named("default")
        most = default.byte_limit // rate
        if default.max_segments is not None:
            most = min(most, default.max_segments)
        assert [m.segments for m in parts[:-1]] == [most] * ((segments - 1) // most)
        assert sum(m.segments for m in parts) == segments


@given(st.lists(st.integers(1, 20), min_size=1, max_size=9), st.integers(20, 30))
def test_bins_are_few(sizes: list[int], limit: int) -> None:
    configuration = ManifestConfiguration((ManifestSet("default", limit),))
    contents = tuple(SymbolContent(k, "s", 24, (Run(n),)) for k, n in enumerate(sizes))
    written = pack(configuration, Changes(contents), MembershipTable()).written
    # Dósa, The tight bound of first fit decreasing bin-packing algorithm, 2007.
    assert 9 * len(written) <= 11 * fewest_bins(sizes, limit) + 6


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 6))
def test_manifests_that_count_symbols_are_full_but_the_last(sizes: list[int], count: int) -> None:
    configuration = ManifestConfiguration((ManifestSet("default", symbols_per_manifest=count),))
    store = ModelStore()
    for key, segments in enumerate(sizes):
        tokens = store.fresh(segments)
        changes = Changes((store.content(key, "s", 24, tokens),))
        plan = pack(configuration, changes, store.membership())
        store.apply(plan, {key: Symbol("s", 24, 1, tokens, ())}, ())
    held = Counter(len(store.members(manifest)) for manifest in store.live())
    full, rest = divmod(len(sizes), count)
    assert held == Counter({count: full} if not rest else {count: full, rest: 1}) - Counter()


class Counting(MembershipTable):
    """A membership that counts what it is asked."""

    asked: ClassVar[Counter[str]] = Counter()

    def name_of(self, symbol: int) -> str:
        self.asked["symbols"] += 1
        return super().name_of(symbol)

    def members_of(self, manifest: str) -> Mapping[int, int]:
        self.asked["manifests"] += 1
        return super().members_of(manifest)

    def symbols(self) -> Iterable[int]:
        raise AssertionError("all symbols were asked for")

    def manifests_in(self, name: str) -> Sequence[str]:
        raise AssertionError("all manifests of a set without limits were asked for")


def _wide_snapshot(symbols: int, together: int) -> MembershipTable:
    store = ModelStore()
    for first in range(0, symbols, together):
        tokens: dict[int, Tokens] = {key: store.fresh(1) for key in range(first, first + together)}
        name = store.write("default", tokens)
        for key, held in tokens.items():
            store.symbols[key] = Symbol(f"s{key}", 24, 1, held, (name,))
    return store.membership()


def test_one_change_among_a_hundred_thousand_symbols_asks_for_its_closure_only() -> None:
    configuration = ManifestConfiguration((ManifestSet("default"),))
    asked = []
    for symbols in (1_000, 100_000):
        snapshot = _wide_snapshot(symbols, 10)
        membership = Counting(snapshot.by_symbol, snapshot.by_manifest)
        membership.asked.clear()
        changes = Changes((SymbolContent(55, "s55", 24, (Run(3),)),))
        plan = pack(configuration, changes, membership)
        assert plan.metrics.closure_symbols == 10
        asked.append(dict(membership.asked))
    assert asked[0] == asked[1]
    assert asked[0]["symbols"] == 9


def test_ten_thousand_changes_make_one_plan() -> None:
    rng = random.Random(7)
    contents = tuple(
        SymbolContent(key, f"s{key}", 24, (Run(rng.randint(1, 900_000)),)) for key in range(10_000)
    )
    plan = pack(ManifestConfiguration(), Changes(contents), MembershipTable())
    assert sum(each.segments for each in plan.written) == sum(c.runs[0].segments for c in contents)
    assert all(each.segments <= 1_000_000 for each in plan.written)


_PROGRAM = textwrap.dedent(
    """
    import hashlib
    from tests.store.manifest.test_packing_properties import hashed_history
    print(hashlib.sha256(hashed_history().encode()).hexdigest())
    """
)


def hashed_history() -> str:
    """Return all that one long history did, as text."""
    configuration = ManifestConfiguration(
        (
            ManifestSet("a", 40, cardinality=2, overflow_to="b"),
            ManifestSet("b", symbols_per_manifest=3, cardinality=2),
            ManifestSet("default", 60, max_bytes=4 * MIB),
        ),
        (ManifestRule("a", ".*s", (None, 30)), ManifestRule("b", segments=(5, 50))),
    )
    history = History(configuration, 11)
    for _ in range(60):
        history.step()
    lines = [f"{name} {each.set} {each.tokens}" for name, each in history.store.stored.items()]
    return "\n".join(lines)


def test_plans_do_not_depend_on_hash_seeds() -> None:
    root = Path(__file__).parents[3]
    digests = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(digests) == 1
    assert digests != {""}


def test_names_of_symbols_and_manifests_do_not_decide() -> None:
    snapshot = _wide_snapshot(40, 4)
    renamed = MembershipTable(
        {
            key: SymbolMembership(
                f"other{key}", each.bytes_per_segment, tuple(f"z{m[::-1]}" for m in each.manifests)
            )
            for key, each in snapshot.by_symbol.items()
        },
        {f"z{name[::-1]}": each for name, each in snapshot.by_manifest.items()},
    )
    configuration = ManifestConfiguration((ManifestSet("default", 9),))
    changes = Changes(tuple(SymbolContent(k, "s", 24, (Run(2),)) for k in (3, 9, 22)))
    assert (
        pack(configuration, changes, snapshot).written
        == pack(configuration, changes, renamed).written
    )

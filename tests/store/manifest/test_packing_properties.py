"""What the packing never breaks, over random configurations and random histories of flushes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.pack import pack
from tessel.store.manifest.packing.plan import Changes, Run, SymbolContent
from tests.store.manifest.histories import MIB, NAMES, History, configurations
from tests.store.manifest.memberships import MembershipTable, SymbolMembership
from tests.store.manifest.model import (
    ModelStore,
    Symbol,
    Tokens,
    fewest_bins,
    naive_first_fit,
    naive_packing,
)


@settings(max_examples=60)
@given(configurations(), st.integers(0, 2**32))
def test_random_histories_keep_every_law(configuration: ManifestConfiguration, seed: int) -> None:
    history = History(configuration, seed)
    for _ in range(25):
        history.step()


@pytest.mark.slow
@settings(max_examples=300)
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
        key=lambda each: (
            -max(Fraction(each[0], max_segments), Fraction(each[1], 3 * MIB)),
            each[2],
        ),
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

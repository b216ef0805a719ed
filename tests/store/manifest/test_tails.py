"""Tails: one object a commit, few of them a symbol, and little written again."""

from __future__ import annotations

import math
import random

import pytest

from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.pack import pack
from tessel.store.manifest.packing.plan import Changes, Run, SymbolContent, oversized
from tessel.store.manifest.packing.tails import (
    FAN_IN,
    TailJoin,
    plan_folds,
    plan_tails,
    should_fold,
)
from tests.store.manifest.memberships import ManifestMembers, MembershipTable, SymbolMembership
from tests.store.manifest.model import ModelStore, SliceEndsOf, Symbol

MIB = 1 << 20


@pytest.mark.parametrize(
    ("tails", "due"),
    [
        ([], 0),
        ([1] * 15, 0),
        ([1] * 16, 16),
        ([1] * 40, 40),
        ([16] + [1] * 15, 0),
        ([16] + [1] * 16, 16),
        ([1] * 15 + [16], 16),
        ([256] + [16] * 15 + [1] * 16, 16),
        ([256] + [16] * 16, 16),
        ([1] * 20 + [300] + [1] * 3, 0),
    ],
)
def test_when_tails_are_due(tails: list[int], due: int) -> None:
    assert should_fold(tails) == due


def _started(configuration: ManifestConfiguration, sizes: dict[int, int]) -> ModelStore:
    store = ModelStore()
    states = {k: Symbol(f"s{k}", 24, 1, store.fresh(n), ()) for k, n in sizes.items()}
    contents = tuple(store.content(k, s.name, s.rate, s.tokens) for k, s in states.items())
    store.apply(pack(configuration, Changes(contents), store.membership()), states, ())
    return store


def _append(store: ModelStore, configuration: ManifestConfiguration, counts: dict[int, int]) -> int:
    """Append as a flush does, and return how many segments were written again."""
    before = store.membership()
    folds = plan_folds(configuration, counts, before)
    rewritten = store.join(folds)
    states = {key: store.symbols[key] for key in folds.packed}
    contents = tuple(store.content(k, s.name, s.rate, s.tokens) for k, s in states.items())
    widths = {k: (len(s.tokens), s.slice_width) for k, s in store.symbols.items()}
    plan = pack(
        configuration, Changes(contents), store.membership(), slice_ends=SliceEndsOf(widths)
    )
    rewritten += plan.metrics.written_segments
    store.apply(plan, states, ())
    store.append(configuration, counts)
    return rewritten


def test_an_append_packs_nothing_until_tails_are_due() -> None:
    configuration = ManifestConfiguration()
    store = _started(configuration, {1: 40, 2: 50})
    packed = {m for m in store.live() if store.stored[m].set is not None}
    for _ in range(FAN_IN):
        assert _append(store, configuration, {1: 1}) == 0
    assert packed <= store.live()
    assert len(store.symbols[1].manifests) == 1 + FAN_IN
    store.check(configuration)


@pytest.mark.parametrize(
    "configuration",
    [
        ManifestConfiguration(),
        ManifestConfiguration((ManifestSet("default", 300),)),
        ManifestConfiguration((ManifestSet("default", 100_000),)),
    ],
    ids=["usual", "split", "large"],
)
def test_a_thousand_appends_write_little_again_and_leave_few_manifests(
    configuration: ManifestConfiguration,
) -> None:
    store = _started(configuration, {1: 1, 2: 1_000})
    appended, rewritten, most = 0, 0, 0
    for _ in range(2_000):
        appended += 1
        rewritten += _append(store, configuration, {1: 1})
        most = max(most, sum(store.stored[m].set is None for m in store.symbols[1].manifests))
    store.check(configuration)
    levels = math.log(2_000, FAN_IN) + 1
    assert rewritten <= 3 * levels * appended
    assert most <= 2 * FAN_IN * levels


def test_many_symbols_appended_together_fold_together_into_one_object() -> None:
    configuration = ManifestConfiguration((ManifestSet("small"),), (ManifestRule("small"),))
    # A neighbour that is never appended to makes the packed manifest costly.
    store = _started(configuration, dict.fromkeys(range(1_000), 1) | {5_000: 40_000})
    together = dict.fromkeys(range(1_000), 1)
    for _ in range(FAN_IN):
        written = store.next_manifest
        _append(store, configuration, together)
        assert store.next_manifest - written == 1
    written = store.next_manifest
    rewritten = _append(store, configuration, together)
    assert store.next_manifest - written == 2, "one for the joined tails, one for the new rows"
    assert rewritten == FAN_IN * 1_000
    assert {len(store.symbols[key].manifests) for key in range(1_000)} == {3}
    store.check(configuration)


def test_tails_go_into_the_set_once_they_are_as_much_as_what_is_rewritten() -> None:
    small = ManifestSet("small", max_segments=50_000)
    configuration = ManifestConfiguration((small,), (ManifestRule("small"),))
    segments = {"m": {1: 10, 2: 20}} | {f"t{i}": {1: 1, 2: 1} for i in range(16)}
    membership = MembershipTable(
        {k: SymbolMembership(f"s{k}", 24, tuple(segments)) for k in (1, 2)},
        {
            name: ManifestMembers("small" if name == "m" else None, held)
            for name, held in segments.items()
        },
    )
    assert plan_folds(configuration, [1, 2], membership).packed == (1, 2)
    alone = plan_folds(configuration, [1], membership)
    assert alone.packed == ()
    assert alone.joined == ((TailJoin(1, tuple(f"t{i}" for i in range(16)), 16),),)
    assert plan_folds(configuration, [], membership).joined == ()
    # In the usual configuration their leaf folds them; until then their tails are joined.
    usual = plan_folds(ManifestConfiguration(), [1, 2], membership)
    assert usual.packed == ()
    assert [[each.symbol for each in group] for group in usual.joined] == [[1, 2]]


def test_a_full_last_manifest_of_a_big_symbol_is_not_rewritten() -> None:
    configuration = ManifestConfiguration((ManifestSet("default", 100),))
    manifests = ("p1", "p2", *(f"t{i}" for i in range(16)))
    membership = MembershipTable(
        {1: SymbolMembership("s1", 24, manifests)},
        {
            m: ManifestMembers("default", {1: 95}) if m[0] == "p" else ManifestMembers(None, {1: 1})
            for m in manifests
        },
    )
    assert plan_folds(configuration, [1], membership).packed == (1,)
    runs = tuple(Run(membership.members_of(m)[1], m) for m in manifests)
    plan = pack(configuration, Changes((SymbolContent(1, "s1", 24, runs),)), membership)
    assert plan.kept == ("p1", "p2")
    assert [each.segments for each in plan.written] == [16]


def test_joins_beyond_the_limits_are_several_objects() -> None:
    configuration = ManifestConfiguration((ManifestSet("default", 100),))
    tails = tuple(f"t{i}" for i in range(16))
    membership = MembershipTable(
        {k: SymbolMembership("s", 24, (f"p{k}", *tails)) for k in range(4)},
        {f"p{k}": ManifestMembers("other", {k: 1_000}) for k in range(4)}
        | {t: ManifestMembers(None, dict.fromkeys(range(4), 3)) for t in tails},
    )
    folds = plan_folds(configuration, range(4), membership)
    assert [[j.symbol for j in group] for group in folds.joined] == [[0, 1], [2, 3]]


def test_one_commit_of_appends_writes_one_tail_within_limits() -> None:
    configuration = ManifestConfiguration((ManifestSet("default", 1_000, max_bytes=MIB),))
    added = [SymbolContent(k, f"s{k}", 24, (Run(1),)) for k in range(1_000)]
    (only,) = plan_tails(configuration, reversed(added))
    assert only.set is None
    assert [part.symbol for part in only.parts] == list(range(1_000))
    big = SymbolContent(5_000, "big", MIB // 10, (Run(25),))
    planned = plan_tails(configuration, [*added, big], slice_ends=lambda _: range(5, 26, 5))
    assert [each.segments for each in planned] == [1_000, 10, 10, 5]
    assert plan_tails(configuration, [SymbolContent(1, "empty", 24, ())]) == ()
    counted = ManifestConfiguration((ManifestSet("default", symbols_per_manifest=2),))
    assert len(plan_tails(counted, added)) == 1


def test_tails_over_the_cap_are_planned_again_with_what_was_measured() -> None:
    configuration = ManifestConfiguration((ManifestSet("default", max_bytes=MIB),))
    added = [SymbolContent(k, "s", 1_000, (Run(300),)) for k in range(3)]
    (first,) = plan_tails(configuration, added)
    inflation = oversized(configuration, [first], [2 * MIB])
    again = plan_tails(configuration, added, inflation=inflation)
    assert [[p.symbol for p in each.parts] for each in again] == [[0], [1], [2]]
    assert all(each.bytes <= MIB for each in again)


def test_random_appends_among_other_symbols_keep_every_law() -> None:
    rng = random.Random(3)
    configuration = ManifestConfiguration(
        (ManifestSet("small", 2_000), ManifestSet("default", 500)),
        (ManifestRule("small", segments=(None, 60)),),
    )
    store = _started(configuration, {k: rng.randint(1, 80) for k in range(10)})
    for _ in range(400):
        chosen = rng.sample(range(10), rng.randint(1, 6))
        _append(store, configuration, {k: rng.choice([1, 1, 1, 5, 40]) for k in chosen})
    store.check(configuration)
    assert any(len(s.tokens) > 1_000 for s in store.symbols.values())

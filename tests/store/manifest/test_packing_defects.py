"""The closures that were published, and each defect of the published sketch by its number."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tessel.errors import InvalidInputError, OptionError
from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.pack import Closure, pack
from tessel.store.manifest.packing.plan import Changes, Placement, Run, SymbolContent, oversized
from tests.store.manifest.examples import MIB, RATE, layout, new, sets, stored
from tests.store.manifest.memberships import MembershipTable

# --- closures -------------------------------------------------------------------------------------

A, B, C = 1, 2, 3
PUBLISHED = stored(
    ("m1", "default", {A: 1, B: 1}),
    ("m2", "default", {A: 1, B: 1, C: 1}),
    ("m3", "default", {C: 1}),
)


@pytest.mark.parametrize("start", [{A}, {A, B}, {A, B, C}, {C}], ids=["a", "ab", "abc", "c"])
def test_published_closures_of_three_manifests_over_a_b_c(start: set[int]) -> None:
    closure = Closure(PUBLISHED, start)
    assert closure.symbols == {A, B, C}
    assert closure.manifests == {"m1", "m2", "m3"}


def test_the_closure_of_nothing_is_empty() -> None:
    closure = Closure(PUBLISHED, ())
    assert (closure.symbols, closure.manifests) == (set(), set())


def test_the_closure_stops_where_nothing_is_shared() -> None:
    apart = stored(("m1", "default", {A: 1, B: 1}), ("m2", "default", {C: 1}))
    assert Closure(apart, {C}).manifests == {"m2"}


def test_a_symbol_created_in_this_transaction_is_its_own_closure() -> None:
    closure = Closure(PUBLISHED, {99})
    assert (closure.symbols, closure.manifests) == ({99}, set())
    plan = pack(sets(), new((99, 7)), PUBLISHED)
    assert layout(plan) == [("default", {99: (0, 7)})]
    assert plan.metrics.closure_manifests == 0


def test_tails_join_nobody() -> None:
    tailed = stored(
        ("m1", "default", {A: 5}), ("m2", "default", {B: 5}), ("t1", None, {A: 1, B: 1})
    )
    assert Closure(tailed, {A}).symbols == {A}


# --- the defects of the published sketch ----------------------------------------------------------


def test_defect_01_sets_reached_only_by_overflow_are_processed() -> None:
    configuration = sets(
        ManifestSet("first", 10, overflow_to="second"),
        ManifestSet("second", 100),
        rules=(ManifestRule("first"),),
    )
    plan = pack(configuration, new((1, 9), (2, 8)), MembershipTable())
    assert layout(plan) == [("first", {1: (0, 9)}), ("second", {2: (0, 8)})]


def test_defect_02_an_unlimited_size_is_not_a_number_to_compare() -> None:
    configuration = sets(
        ManifestSet("all", None), ManifestSet("default", None), rules=(ManifestRule("all", "s1"),)
    )
    plan = pack(configuration, new((1, 2_000_000), (2, 2_500_000), (3, 1)), MembershipTable())
    assert layout(plan) == [
        ("all", {1: (0, 2_000_000)}),
        ("default", {2: (0, 2_500_000), 3: (0, 1)}),
    ]
    assert plan.metrics.split == 0


def test_defect_03_no_overflow_given_means_default_for_users_and_nothing_for_default() -> None:
    configuration = sets(ManifestSet("mine", 10), rules=(ManifestRule("mine"),))
    assert [each.overflow_to for each in configuration.sets] == ["default", None]
    plan = pack(configuration, new((1, 11)), MembershipTable())
    assert layout(plan) == [("default", {1: (0, 11)})]
    plan = pack(sets(ManifestSet("default", 10)), new((1, 11)), MembershipTable())
    assert layout(plan) == [("default", {1: (0, 10)}), ("default", {1: (10, 11)})]


def test_defect_04_overflowing_bins_are_flattened_to_symbols() -> None:
    configuration = sets(
        ManifestSet("tight", 10, overflow_to="wide"),
        ManifestSet("wide", 100),
        rules=(ManifestRule("tight"),),
    )
    changes = new((1, 10), (2, 6), (3, 4), (4, 9), (5, 8))
    plan = pack(configuration, changes, MembershipTable())
    assert layout(plan) == [
        ("tight", {1: (0, 10)}),
        ("wide", {2: (0, 6), 3: (0, 4), 4: (0, 9), 5: (0, 8)}),
    ]
    assert plan.metrics.overflowed == 4


def test_defect_05_cardinality_holds_per_snapshot() -> None:
    configuration = sets(ManifestSet("one", 100), rules=(ManifestRule("one"),))
    before = stored(("m1", "one", {1: 40, 2: 30}))
    plan = pack(configuration, new((3, 20)), before)
    assert layout(plan) == [("one", {1: (0, 40), 2: (0, 30), 3: (0, 20)})]
    assert plan.released == ("m1",)
    assert plan.metrics.pulled == ("one",)


def test_defect_05_a_set_with_room_for_a_manifest_is_not_pulled() -> None:
    configuration = sets(ManifestSet("two", 100, cardinality=2), rules=(ManifestRule("two"),))
    plan = pack(configuration, new((3, 20)), stored(("m1", "two", {1: 40, 2: 30})))
    assert layout(plan) == [("two", {3: (0, 20)})]
    assert plan.metrics.pulled == ()


def test_defect_05_full_sets_are_pulled_through_overflow_and_sharers_too() -> None:
    configuration = sets(
        ManifestSet("a", 10, overflow_to="b"),
        ManifestSet("b", 20),
        rules=(ManifestRule("a", "s[12459]"), ManifestRule("b", "s3")),
    )
    before = stored(
        ("ma", "a", {1: 6, 2: 4}), ("mb", "b", {3: 5, 4: 7}), ("md", "default", {4: 1, 5: 2})
    )
    plan = pack(configuration, new((9, 8)), before)
    assert plan.metrics.pulled == ("a", "b")
    assert plan.metrics.closure_manifests == 3
    assert set(plan.placements) == {1, 2, 3, 4, 5, 9}
    # Two bins of "a" are full, and 1 has the lowest id: its manifest comes out as it was.
    assert plan.kept == ("ma",)
    assert layout(plan) == [
        ("b", {4: (0, 8), 5: (0, 2), 9: (0, 8)}),
        ("default", {3: (0, 5)}),
    ]


def test_defect_06_deleted_symbols_put_the_sharers_into_the_closure() -> None:
    before = stored(("m1", "default", {1: 4, 2: 3}), ("m2", "default", {3: 5}))
    plan = pack(sets(), Changes(deleted=frozenset([1])), before)
    assert layout(plan) == [("default", {2: (0, 3)})]
    assert plan.released == ("m1",)
    assert 1 not in plan.placements
    assert 3 not in plan.placements


def test_defect_06_deleted_and_made_anew_is_another_symbol_with_the_old_sharers() -> None:
    before = stored(("m1", "default", {1: 4, 2: 3}), ("m2", "default", {3: 5}))
    again = SymbolContent(77, "s1", RATE, (Run(6),))
    plan = pack(sets(), Changes((again,), frozenset([1])), before)
    assert layout(plan) == [("default", {2: (0, 3), 77: (0, 6)})]
    assert plan.released == ("m1",)


def test_defect_07_the_fullest_bins_stay_and_ties_go_by_symbol_id() -> None:
    configuration = sets(ManifestSet("few", 10, cardinality=2), rules=(ManifestRule("few"),))
    plan = pack(configuration, new((4, 7), (3, 9), (2, 7), (1, 7)), MembershipTable())
    assert layout(plan) == [
        ("few", {3: (0, 9)}),
        ("few", {1: (0, 7)}),
        ("default", {2: (0, 7), 4: (0, 7)}),
    ]


def test_defect_07_symbols_that_came_by_overflow_are_tied_by_id_too() -> None:
    configuration = sets(
        ManifestSet("tight", 4), ManifestSet("default", 10), rules=(ManifestRule("tight", "s1"),)
    )
    plan = pack(configuration, new((1, 5), (2, 5), (3, 5)), MembershipTable())
    assert layout(plan) == [("default", {1: (0, 5), 2: (0, 5)}), ("default", {3: (0, 5)})]


def test_defect_07_where_symbols_are_counted_the_fullest_holds_the_most_symbols() -> None:
    configuration = sets(
        ManifestSet("pairs", symbols_per_manifest=2, max_bytes=MIB), rules=(ManifestRule("pairs"),)
    )
    plan = pack(configuration, new((1, 9), (2, 3), (3, 3), rate=100_000), MembershipTable())
    assert layout(plan) == [("pairs", {2: (0, 3), 3: (0, 3)}), ("default", {1: (0, 9)})]


def test_defect_08_ranges_are_closed() -> None:
    configuration = sets(ManifestSet("mid"), rules=(ManifestRule("mid", segments=(10, 20)),))
    chosen = configuration.targets(["s"] * 4, [9, 10, 20, 21])
    assert chosen == ["default", "mid", "mid", "default"]
    usual = ManifestConfiguration()
    assert usual.targets(["a", "b"], [5_000, 5_001]) == ["small", "default"]


def test_defect_09_regexes_are_anchored_and_invalid_ones_refused() -> None:
    configuration = sets(ManifestSet("x"), rules=(ManifestRule("x", "axis|time"),))
    names = ["axis", "time", "axis2", "a/axis", "daytime", "axis\u2028"]
    assert configuration.targets(names, [1] * 6) == ["x", "x", *["default"] * 4]
    with pytest.raises(OptionError) as caught:
        sets(ManifestSet("x"), rules=(ManifestRule("x", "(axis"),))
    assert caught.value.attributes["option"] == "rules[0].symbols"


@pytest.mark.parametrize(
    "name",
    [
        "max_size",
        "max-manifest-size",
        "max_symbols_per_manifest",
        "arrays_per_manifest",
        "maxSegments",
    ],
)
def test_defect_10_each_option_has_one_name(name: str) -> None:
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration.from_json({"sets": [{"name": "a", name: 5}]})
    assert caught.value.attributes["option"] == f"sets[0].{name}"
    written = ManifestConfiguration().to_json()
    options = [key for part in written["sets"] for key in part]
    assert set(options) == {
        "name", "max_segments", "symbols_per_manifest", "cardinality", "overflow_to", "max_bytes"
    }  # fmt: skip


def test_defect_11_bytes_win_over_segments() -> None:
    configuration = sets(ManifestSet("default", 1_000, max_bytes=MIB))
    plan = pack(configuration, new((1, 6), (2, 5), (3, 4), rate=100_000), MembershipTable())
    assert layout(plan) == [("default", {1: (0, 6), 3: (0, 4)}), ("default", {2: (0, 5)})]
    plan = pack(configuration, new((1, 25), rate=100_000), MembershipTable())
    assert [m.segments for m in plan.written] == [10, 10, 5]


def test_defect_11_the_cap_is_checked_against_real_bytes_before_upload() -> None:
    configuration = sets(ManifestSet("default", 1_000, max_bytes=MIB))
    changes, nothing = new((1, 6), (2, 4), (3, 1), rate=100_000), MembershipTable()
    plan = pack(configuration, changes, nothing)
    assert [each.bytes for each in plan.written] == [1_000_000, 100_000]
    assert oversized(configuration, plan.written, [MIB, MIB]) == {}
    inflation = oversized(configuration, plan.written, [MIB + 500_000, 5])
    assert inflation.keys() == {1, 2}
    again = pack(configuration, changes, nothing, inflation=inflation)
    assert layout(again) == [("default", {1: (0, 6), 3: (0, 1)}), ("default", {2: (0, 4)})]
    # As they were estimated wrongly once more, they are told once more, from there on.
    more = oversized(configuration, again.written, [2 * MIB, 5], inflation)
    assert more[1] > inflation[1]
    assert more[2] == inflation[2]


def test_defect_11_what_cannot_be_cut_below_the_cap_is_refused_with_the_path() -> None:
    configuration = sets(ManifestSet("a", max_bytes=MIB), ManifestSet("default", max_bytes=MIB))
    with pytest.raises(InvalidInputError, match="max_bytes") as caught:
        pack(configuration, new((1, 2), rate=2 * MIB), MembershipTable())
    assert caught.value.attributes["option"] == "sets[1].max_bytes"
    with pytest.raises(InvalidInputError, match="row slice"):
        pack(configuration, new((1, 8), rate=MIB // 4), MembershipTable(), slice_ends=lambda _: [8])


def test_defect_11_of_several_manifests_too_big_the_worst_counts() -> None:
    configuration = sets(ManifestSet("default", 10, max_bytes=MIB))
    plan = pack(configuration, new((1, 20)), MembershipTable())
    for lengths in ([2 * MIB, 3 * MIB], [3 * MIB, 2 * MIB]):
        inflation = oversized(configuration, plan.written, lengths)
        assert inflation == {1: Fraction(3 * MIB, plan.written[0].bytes)}


def test_defect_12_symbols_that_flip_between_sets_are_counted() -> None:
    small = ManifestSet("small", max_segments=50_000)
    configuration = sets(small, rules=(ManifestRule("small", segments=(None, 5_000)),))
    before = stored(("m1", "small", {1: 4_999, 2: 10, 3: 20}))
    plan = pack(configuration, new((1, 5_000)), before)
    assert plan.metrics.flipped == ()
    grown = pack(configuration, new((1, 5_001)), before)
    assert grown.metrics.flipped == (1,)
    assert layout(grown) == [("small", {2: (0, 10), 3: (0, 20)}), ("default", {1: (0, 5_001)})]
    # Segments in tails count, so that a symbol flips when it is too big, whatever was folded yet.
    tailed = stored(("m1", "small", {1: 4_999, 2: 10}), ("t1", None, {1: 2}))
    shared = pack(configuration, new((2, 11)), tailed)
    assert shared.metrics.flipped == (1,)
    assert shared.placements[1] == (Placement(0, 4_999, None, 1), Placement(4_999, 5_001, "t1"))

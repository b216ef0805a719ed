"""What the packing does, by example: reuse, counting, splitting, contents."""

from __future__ import annotations

import pytest

from tessel.errors import InvalidInputError
from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.pack import pack, repack
from tessel.store.manifest.packing.plan import Changes, Part, Placement, Run, oversized
from tests.store.manifest.examples import MIB, content, layout, new, sets, stored
from tests.store.manifest.memberships import MembershipTable
from tests.store.manifest.model import SliceEndsOf

# --- reuse ----------------------------------------------------------------------------------------


def test_a_manifest_that_comes_out_as_it_was_is_kept() -> None:
    configuration = sets(ManifestSet("two", 10, cardinality=2), rules=(ManifestRule("two"),))
    before = stored(("m1", "two", {1: 10}), ("m2", "two", {2: 5}))
    plan = pack(configuration, new((3, 5)), before)
    assert plan.kept == ("m1",)
    assert layout(plan) == [("two", {2: (0, 5), 3: (0, 5)})]
    assert plan.metrics.reused == 1


def test_repack_twice_writes_nothing_the_second_time() -> None:
    configuration = ManifestConfiguration()
    before = stored(
        ("m1", "gone", {1: 10}), ("m2", "small", {2: 20, 3: 1}), ("t1", None, {1: 1, 2: 2})
    )
    first = repack(configuration, before)
    assert layout(first) == [("small", {1: (0, 11), 2: (0, 22), 3: (0, 1)})]
    assert first.released == ("m1", "m2")
    after = stored(("n1", "small", {1: 11, 2: 22, 3: 1}))
    second = repack(configuration, after)
    assert (second.written, second.kept, second.released) == ((), ("n1",), ())


def test_a_set_that_is_gone_from_the_configuration_limits_nothing_and_stays_until_touched() -> None:
    before = stored(("m1", "gone", {1: 10}), ("m2", "gone", {2: 10}))
    configuration = sets(ManifestSet("mine"), rules=(ManifestRule("mine"),))
    plan = pack(configuration, new((2, 5)), before)
    assert layout(plan) == [("mine", {2: (0, 5)})]
    assert plan.metrics.closure_manifests == 1


def test_symbols_of_the_usual_sets_leave_their_manifests_by_themselves() -> None:
    before = stored(("m1", "small", {1: 10, 2: 10}), ("m2", "default", {3: 300, 4: 300}))
    plan = pack(ManifestConfiguration(), new((2, 257), (3, 400), (5, 500)), before)
    assert layout(plan) == [
        ("default", {each: (0, n)}) for each, n in ((2, 257), (3, 400), (5, 500))
    ]
    assert plan.placements.keys() == {2, 3, 5}
    assert (plan.released, plan.metrics.closure_manifests) == ((), 0)


# --- counting symbols -----------------------------------------------------------------------------


def test_symbols_per_manifest_pairs_the_biggest_with_the_smallest() -> None:
    configuration = sets(ManifestSet("default", symbols_per_manifest=2))
    plan = pack(configuration, new((1, 50), (2, 40), (3, 30), (4, 20), (5, 10)), MembershipTable())
    assert [set(held) for _, held in layout(plan)] == [{1, 5}, {2, 4}, {3}]


def test_symbols_per_manifest_leaves_one_manifest_with_fewer_in_the_snapshot() -> None:
    configuration = sets(ManifestSet("default", symbols_per_manifest=3))
    before = stored(("m1", "default", {1: 1, 2: 1, 3: 1}), ("m2", "default", {4: 1}))
    plan = pack(configuration, new((5, 1)), before)
    assert [set(held) for _, held in layout(plan)] == [{4, 5}]
    full = pack(configuration, new((5, 1), (6, 1), (7, 1)), before)
    assert [set(held) for _, held in layout(full)] == [{5, 6, 7}]


def test_symbols_per_manifest_yields_to_bytes() -> None:
    configuration = sets(ManifestSet("default", symbols_per_manifest=2, max_bytes=MIB))
    changes = new((1, 10), (2, 9), (3, 1), (4, 1), rate=100_000)
    plan = pack(configuration, changes, MembershipTable())
    assert [set(held) for _, held in layout(plan)] == [{1}, {2, 4}, {3}]


# --- symbols too big for one manifest -------------------------------------------------------------

SPLITTING = sets(ManifestSet("default", 10))
BIG = stored(
    ("p1", "default", {1: 10}),
    ("p2", "default", {1: 10}),
    ("p3", "default", {1: 4}),
    ("m", "default", {2: 3}),
)


def test_a_big_symbol_shares_with_nobody() -> None:
    plan = pack(SPLITTING, new((1, 24), (2, 3), (3, 4)), MembershipTable())
    assert layout(plan) == [
        ("default", {2: (0, 3), 3: (0, 4)}),
        ("default", {1: (0, 10)}),
        ("default", {1: (10, 20)}),
        ("default", {1: (20, 24)}),
    ]


def test_a_change_in_the_middle_of_a_big_symbol_rewrites_no_later_manifest() -> None:
    changed = content(1, (10, "p1"), (4, "p2"), 3, (3, "p2"), (4, "p3"))
    plan = pack(SPLITTING, Changes((changed,)), BIG)
    assert plan.kept == ("p1", "p3")
    assert layout(plan) == [("default", {1: (10, 20)})]
    assert plan.placements[1] == (
        Placement(0, 10, "p1"), Placement(10, 20, None, 0), Placement(20, 24, "p3")
    )  # fmt: skip


def test_a_small_piece_of_a_big_symbol_joins_its_neighbour() -> None:
    changed = content(1, (10, "p1"), (10, "p2"), 2, (4, "p3"))
    assert layout(pack(SPLITTING, Changes((changed,)), BIG)) == [("default", {1: (20, 26)})]
    grown = content(1, (10, "p1"), (4, "p2"), 5, (6, "p2"), (4, "p3"))
    assert layout(pack(SPLITTING, Changes((grown,)), BIG)) == [
        ("default", {1: (10, 20)}),
        ("default", {1: (20, 29)}),
    ]


def test_rows_deleted_between_small_manifests_leave_one() -> None:
    before = stored(*((f"p{i}", "default", {1: n}) for i, n in enumerate([10, 3, 9, 4])))
    without = content(1, (10, "p0"), (3, "p1"), (4, "p3"))
    plan = pack(SPLITTING, Changes((without,)), before)
    assert layout(plan) == [("default", {1: (10, 17)})]
    assert plan.kept == ("p0",)


def test_raised_limits_are_no_reason_to_write_a_big_symbol_anew() -> None:
    configuration = sets(ManifestSet("default", 21))
    changed = content(1, (10, "p1"), (10, "p2"), 15)
    plan = pack(configuration, Changes((changed,)), BIG)
    assert plan.kept == ("p1", "p2")
    assert layout(repack(configuration, BIG)) == [
        ("default", {1: (0, 21)}),
        ("default", {1: (21, 24)}),
    ]


def test_big_symbols_are_cut_between_row_slices() -> None:
    ends = SliceEndsOf({1: (24, 4)})
    plan = pack(SPLITTING, new((1, 24), (2, 3)), MembershipTable(), slice_ends=ends)
    assert [p.parts for p in plan.written[1:]] == [
        (Part(1, 0, 8),), (Part(1, 8, 16),), (Part(1, 16, 24),)
    ]  # fmt: skip
    assert ends.asked == [1], "asked only of symbols that are cut"


def test_a_row_slice_wider_than_a_set_is_a_manifest_of_its_own_and_kept() -> None:
    ends = SliceEndsOf({1: (36, 12)})
    plan = pack(SPLITTING, new((1, 36)), MembershipTable(), slice_ends=ends)
    assert [each.segments for each in plan.written] == [12, 12, 12]
    before = stored(*((f"p{i}", "default", {1: 12}) for i in range(3)))
    changed = content(1, (12, "p0"), 12, (12, "p2"))
    again = pack(SPLITTING, Changes((changed,)), before, slice_ends=ends)
    assert again.kept == ("p0", "p2")


def test_row_slices_that_do_not_end_with_the_symbol_are_refused() -> None:
    for wrong in ([], [5, 20], [30]):
        with pytest.raises(InvalidInputError, match="24 segments"):
            pack(SPLITTING, new((1, 24)), MembershipTable(), slice_ends=lambda _, w=wrong: w)


def test_wrong_estimates_of_new_rows_leave_manifests_in_the_store_alone() -> None:
    configuration = sets(ManifestSet("default", 10, max_bytes=MIB))
    before = stored(("p1", "default", {1: 10}), ("p2", "default", {1: 10}))
    rate = MIB // 10
    changed = Changes((content(1, (10, "p1"), (9, "p2"), 2, rate=rate),))
    plan = pack(configuration, changed, before)
    assert layout(plan) == [("default", {1: (10, 20)}), ("default", {1: (20, 21)})]
    inflation = oversized(configuration, plan.written, [MIB * 2, 10])
    again = pack(configuration, changed, before, inflation=inflation)
    assert again.kept == ("p1",)
    assert all(each.bytes <= MIB for each in again.written)


# --- contents -------------------------------------------------------------------------------------


def test_a_symbol_without_rows_has_no_manifest_and_releases_what_it_had() -> None:
    plan = pack(sets(), Changes((content(1),)), stored(("m1", "default", {1: 4, 2: 3})))
    assert plan.placements[1] == ()
    assert layout(plan) == [("default", {2: (0, 3)})]


def test_a_tail_between_packed_manifests_is_packed_along() -> None:
    before = stored(
        ("m1", "default", {1: 4, 2: 3}), ("t1", None, {1: 2}), ("m2", "default", {1: 5}),
        ("t2", None, {1: 1}),
    )  # fmt: skip
    plan = pack(sets(), new((2, 4)), before)
    assert layout(plan) == [("default", {1: (0, 11), 2: (0, 4)})]
    assert plan.placements[1] == (Placement(0, 11, None, 0), Placement(11, 12, "t2"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Run(0),
        lambda: content(1, 1, rate=0),
        lambda: Changes((content(1, 1), content(1, 2))),
        lambda: Changes((content(1, 1),), frozenset([1])),
    ],
    ids=["run", "rate", "twice", "deleted"],
)
def test_contradictions_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(InvalidInputError):
        wrong()


def test_the_plan_as_a_table() -> None:
    shown = pack(sets(), new((1, 4)), MembershipTable()).describe()
    assert shown.rows == (("default", 1, 4, 96),)
    assert shown.notes == (
        "closure: symbols 1, manifests 0; reused 0, released 0",
        "changed sets 0, overflowed 0, split 0",
    )

"""Ranges put together: golden cases, and what must hold for any ranges and limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.store.segment.fetch import coalesce
from tessel.store.segment.sources import LOCAL, REMOTE, ByteRanges, CoalesceLimits

MIB = 1024 * 1024
GAP = REMOTE.gap_bytes


def ranges_of(*ranges: tuple[int, int, int], names: tuple[str, ...] = ("a", "b", "c")):
    table = np.array(ranges, dtype=np.int64).reshape(-1, 3)
    return ByteRanges(names, table[:, 0], table[:, 1], table[:, 2])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    ranges: tuple[tuple[int, int, int], ...]
    limits: CoalesceLimits
    parts: tuple[tuple[int, int, int], ...]


CASES = (
    Case("nothing", (), LOCAL, ()),
    Case("ranges without bytes", ((0, 7, 7), (1, 0, 0)), LOCAL, ()),
    Case("pages side by side", ((0, 0, 64), (0, 64, 100), (0, 128, 130)), LOCAL, ((0, 0, 130),)),
    Case(
        "a gap of just 4 KiB is read over, one byte more is not",
        ((0, 0, 10), (0, 4106, 4200), (0, 8297, 8300)),
        LOCAL,
        ((0, 0, 4200), (0, 8297, 8300)),
    ),
    Case(
        "object stores read over 1.5 MiB, and one byte more is not",
        ((0, 0, 10), (0, GAP + 10, GAP + 20), (0, 2 * GAP + 21, 2 * GAP + 30)),
        REMOTE,
        ((0, 0, GAP + 20), (0, 2 * GAP + 21, 2 * GAP + 30)),
    ),
    Case(
        "the gaps of a part count together",
        ((0, 0, 10), (0, MIB, MIB + 10), (0, 2 * MIB, 2 * MIB + 10), (0, 3 * MIB, 3 * MIB + 10)),
        REMOTE,
        ((0, 0, MIB + 10), (0, 2 * MIB, 3 * MIB + 10)),
    ),
    Case("objects are kept apart", ((1, 0, 10), (0, 0, 10)), LOCAL, ((0, 0, 10), (1, 0, 10))),
    Case(
        "parts end with the last whole page that fits",
        ((0, 0, 2 * MIB), (0, 2 * MIB, 3 * MIB), (0, 3 * MIB, 5 * MIB), (0, 5 * MIB, 6 * MIB)),
        LOCAL,
        ((0, 0, 3 * MIB), (0, 3 * MIB, 6 * MIB)),
    ),
    Case(
        "a page longer than a part is cut, and its rest takes what follows",
        ((0, 5, 9 * MIB), (0, 9 * MIB, 9 * MIB + 7)),
        LOCAL,
        ((0, 5, 4 * MIB + 5), (0, 4 * MIB + 5, 8 * MIB + 5), (0, 8 * MIB + 5, 9 * MIB + 7)),
    ),
    Case(
        "repeats and overlaps are read once",
        ((0, 0, 50), (0, 0, 50), (0, 20, 30), (0, 40, 90), (0, 90, 90)),
        LOCAL,
        ((0, 0, 90),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Case):
    parts = coalesce(ranges_of(*case.ranges), case.limits)
    assert (
        tuple(zip(parts.object.tolist(), parts.start.tolist(), parts.end.tolist(), strict=True))
        == case.parts
    )


some_ranges = st.lists(
    st.builds(
        lambda place, start, length: (place, start, start + length),
        st.integers(0, 2),
        st.integers(0, 400),
        st.one_of(st.integers(0, 5), st.integers(0, 120)),
    ),
    max_size=20,
)
some_limits = st.builds(CoalesceLimits, st.integers(0, 30), st.integers(1, 150))


@given(some_ranges, some_limits)
def test_parts_cover_what_is_wanted_once_within_the_limits(
    wanted: list[tuple[int, int, int]], limits: CoalesceLimits
):
    ranges = ranges_of(*wanted)
    found = coalesce(ranges, limits)
    parts = list(zip(found.object.tolist(), found.start.tolist(), found.end.tolist(), strict=True))
    wanted_bytes = {(place, at) for place, start, end in wanted for at in range(start, end)}
    read = [(place, at) for place, start, end in parts for at in range(start, end)]
    assert len(read) == len(set(read)), "a byte is read twice"
    assert wanted_bytes <= set(read)
    assert parts == sorted(parts)
    for place, start, end in parts:
        assert start < end
        # A part begins and ends with wanted bytes, and has no more others than allowed.
        assert {(place, start), (place, end - 1)} <= wanted_bytes
        assert sum((place, at) not in wanted_bytes for at in range(start, end)) <= limits.gap_bytes
        assert end - start <= limits.part_bytes


@given(some_ranges, some_limits, st.randoms())
def test_the_order_of_the_ranges_does_not_matter(wanted, limits, random):
    shuffled = list(wanted)
    random.shuffle(shuffled)
    one, other = (coalesce(ranges_of(*order), limits) for order in (wanted, shuffled))
    for field in ("object", "start", "end"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize(
    "wrong", [(0, -1, 5), (0, 5, 4), (0, 0, 1 << 63 - 1), (1, (1 << 62) + 1, (1 << 62) + 2)]
)
def test_what_is_no_range_is_refused(wrong: tuple[int, int, int]):
    with pytest.raises(InvalidInputError):
        coalesce(ranges_of((0, 1, 2), wrong), LOCAL)


def test_objects_too_long_for_one_line_are_refused():
    huge = [(place, 0, 1 << 61) for place in range(3)]
    with pytest.raises(InvalidInputError, match="fewer segments"):
        coalesce(ranges_of(*huge), LOCAL)


@pytest.mark.parametrize(("gap", "part"), [(-1, 1), (0, 0)])
def test_limits_check_themselves(gap: int, part: int):
    with pytest.raises(InvalidInputError):
        CoalesceLimits(gap, part)

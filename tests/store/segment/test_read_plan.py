"""Read plans against brute force: which pages, which bytes, in which order, and why not others."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.store.segment.plan_pages import ColumnPages, plan_read
from tessel.store.segment.read_plan import (
    DICTIONARY_PAGE,
    ReadPlan,
    segment_priority,
)
from tessel.store.segment.records import PAGE_RECORD
from tessel.store.segment.row_selection import RowIndices, RowRanges


def pages_of(*lengths: int, offset: int = 0) -> np.ndarray:
    """Return page records that lie one after the other."""
    pages = np.zeros(len(lengths), PAGE_RECORD)
    pages["length"] = lengths
    pages["offset"] = offset + np.cumsum(lengths) - lengths
    return pages


def indices(*rows: int) -> RowIndices:
    return RowIndices(np.array(rows, dtype=np.int64))


def triples(plan: ReadPlan) -> list[tuple[int, int, int]]:
    """Return column, page and row of the ranges in their order."""
    return list(zip(plan.column.tolist(), plan.page.tolist(), plan.priority.tolist(), strict=True))


# --- golden ---------------------------------------------------------------------------------------


def test_a_scan_is_row_major():
    """Columns of 4, 16 and 4,096 bytes a row in pages of 1 MiB: 1, 4 and 1,024 pages."""
    columns = [
        ColumnPages(number, pages_of(*[1 << 20] * (1 << 18 >> shift)), shift)
        for number, shift in enumerate((18, 16, 8))
    ]
    plan = plan_read(columns, RowRanges.of((0, 1 << 18)), row_count=1 << 18)
    assert [int((plan.column == number).sum()) for number in range(3)] == [1, 4, 1024]
    assert triples(plan)[:4] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 1, 256)]
    assert triples(plan)[257:261] == [
        (2, 255, 65280),
        (1, 1, 65536),
        (2, 256, 65536),
        (2, 257, 65792),
    ]
    assert plan.request.tolist() == list(range(1029))
    assert plan.bytes == 1029 << 20


def test_the_priority_of_an_item_is_its_outermost_row():
    """Outer lists of 10, inner lists of 5: the page of items that holds the 100th is the 2nd."""
    pages = pages_of(*[200] * 40)
    pages["first_row"] = np.arange(40) * 50
    plan = plan_read([ColumnPages(2, pages, 0)], RowRanges.of((0, 40)), row_count=40)
    holds = int(np.searchsorted(pages["first_row"], 99, "right")) - 1
    assert plan.priority[plan.page == holds].tolist() == [1]


def test_segments_come_one_after_the_other():
    columns = [ColumnPages(0, pages_of(10, 10), 2)]
    first, second = (
        plan_read(columns, RowRanges.of((0, 8)), row_count=8, name="pack", offset=64 * n, ordinal=n)
        for n in range(2)
    )
    third = plan_read(columns, indices(7), row_count=8, name="other", ordinal=2)
    plan = ReadPlan.concat([third, second, first])
    assert plan.objects == ("other", "pack")
    assert [plan.objects[at] for at in plan.object] == ["pack"] * 4 + ["other"]
    assert plan.start.tolist() == [0, 10, 64, 74, 10]
    assert plan.request.tolist() == [0, 1, 2, 3, 4]
    assert len(ReadPlan.concat([])) == 0


def test_a_dictionary_comes_with_the_first_page_that_needs_it():
    columns = [
        ColumnPages(0, pages_of(10, 10, 10), 1),
        ColumnPages(1, pages_of(4, 4, 4, offset=100), 1, dictionary=(500, 60)),
    ]
    plan = plan_read(columns, RowRanges.of((2, 6)), row_count=6)
    assert triples(plan) == [(0, 1, 2), (1, DICTIONARY_PAGE, 2), (1, 1, 2), (0, 2, 4), (1, 2, 4)]
    assert (plan.start[1], plan.end[1]) == (500, 560)
    assert plan.request.tolist() == [0, 1, 2, 3, 4]
    nothing = plan_read(columns, RowRanges.of(), row_count=6)
    assert len(nothing) == nothing.request_count == 0


def test_priorities_do_not_mix_segments():
    assert segment_priority(1, np.array([0])) > segment_priority(0, np.array([(1 << 40) - 1]))
    for wrong in (-1, 1 << 23):
        with pytest.raises(InvalidInputError):
            segment_priority(wrong, np.array([0]))


@pytest.mark.parametrize("rows", [RowRanges.of((3, 9)), indices(2, 8), indices(-1)])
def test_rows_that_are_not_there_are_refused(rows: RowRanges | RowIndices):
    with pytest.raises(InvalidInputError, match="the segment has 8"):
        plan_read([ColumnPages(0, pages_of(1), 3)], rows, row_count=8)


@pytest.mark.parametrize("wrong", [(-1, 2), (3, 2)])
def test_what_is_no_row_range_is_refused(wrong: tuple[int, int]):
    with pytest.raises(InvalidInputError):
        RowRanges.of((0, 1), wrong)


# --- against brute force --------------------------------------------------------------------------

row_ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair))),
    max_size=5,
)


@given(row_ranges)
def test_row_ranges_are_sets_of_rows(ranges):
    expected = {row for start, stop in ranges for row in range(start, stop)}
    found = RowRanges.of(*ranges)
    pairs = list(zip(found.start.tolist(), found.stop.tolist(), strict=True))
    assert {row for start, stop in pairs for row in range(start, stop)} == expected
    assert all(start < stop for start, stop in pairs)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(pairs))
    starts, stops = np.meshgrid(np.arange(42), np.arange(42))
    overlaps = found.overlaps(starts.ravel(), stops.ravel())
    assert overlaps.tolist() == [
        any(row in expected for row in range(start, stop))
        for start, stop in zip(starts.ravel().tolist(), stops.ravel().tolist(), strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class Column:
    shift: int
    lengths: tuple[int, ...]
    has_dictionary: bool


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, list[Column]]:
    row_count = draw(st.integers(0, 50))
    columns = []
    for _ in range(draw(st.integers(0, 4))):
        shift = draw(st.integers(0, 6))
        pages = -(-row_count >> shift) if row_count == 0 else ((row_count - 1) >> shift) + 1
        lengths = draw(st.lists(st.integers(0, 9), min_size=pages, max_size=pages))
        columns.append(Column(shift, tuple(lengths), draw(st.booleans())))
    return row_count, columns


@given(segments(), st.data())
def test_a_plan_reads_exactly_the_pages_with_wanted_rows(segment, data):
    row_count, drawn = segment
    columns = [
        ColumnPages(
            10 + number,
            pages_of(*column.lengths, offset=1000 * number),
            column.shift,
            dictionary=(7000 + number, 3) if column.has_dictionary else None,
        )
        for number, column in enumerate(drawn)
    ]
    some_rows = st.integers(0, max(row_count - 1, 0))
    if data.draw(st.booleans(), label="ranges") or row_count == 0:
        ranges = data.draw(st.lists(st.tuples(some_rows, some_rows), max_size=3))
        ranges = [(min(pair), max(pair)) for pair in ranges]
        rows: RowRanges | RowIndices = RowRanges.of(*ranges)
        wanted = {row for start, stop in ranges for row in range(start, stop)}
    else:
        chosen = data.draw(st.lists(some_rows, max_size=8))
        rows, wanted = indices(*chosen), set(chosen)
    plan = plan_read(columns, rows, row_count=row_count, name="o", offset=50_000, ordinal=2)
    expected = []
    for number, column in enumerate(drawn):
        pages = sorted({row >> column.shift for row in wanted})
        if pages and column.has_dictionary:
            expected.append((pages[0] << column.shift, 10 + number, -1, 7000 + number, 3))
        for page in pages:
            start = 1000 * number + sum(column.lengths[:page])
            expected.append((page << column.shift, 10 + number, page, start, column.lengths[page]))
    expected.sort(key=lambda entry: entry[:2])
    assert plan.priority.tolist() == [(2 << 40) + entry[0] for entry in expected]
    assert plan.column.tolist() == [entry[1] for entry in expected]
    assert plan.page.tolist() == [entry[2] for entry in expected]
    assert plan.start.tolist() == [50_000 + entry[3] for entry in expected]
    assert (plan.end - plan.start).tolist() == [entry[4] for entry in expected]
    assert plan.request.tolist() == list(range(len(expected)))
    assert plan.request_priorities().tolist() == plan.priority.tolist()

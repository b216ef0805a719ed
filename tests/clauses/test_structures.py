"""Grouping into units: time buckets lie whole in exactly one unit, on any split."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.structures import (
    UnitFacts,
    last_bucket_of_front,
    structure_by_bucket,
    structure_by_time_bucket,
)
from tessel.ecs.piece import ColRange, RowRange


@st.composite
def bucketed_slices(draw: st.DrawFn) -> list[list[int]]:
    """Row slices as lists of the bucket of each row; buckets never go back."""
    steps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=1, max_size=30))
    buckets = np.cumsum(steps).tolist()
    cuts = draw(st.sets(st.integers(1, len(buckets)), max_size=8))
    bounds = sorted({0, len(buckets), *cuts})
    return [buckets[a:b] for a, b in itertools.pairwise(bounds)]


@given(bucketed_slices(), st.data())
def test_every_bucket_is_computed_once_and_whole(slices: list[list[int]], data: Any) -> None:
    first = np.array([rows[0] for rows in slices])
    last = np.array([rows[-1] for rows in slices])
    start = 0
    while start < len(slices):  # parts of what was one slice know no more than its bounds
        stop = data.draw(st.integers(start + 1, len(slices)))
        least = int(last[start - 1]) if start else int(first[0])
        first[start:stop] = data.draw(st.integers(least, int(first[start])))
        last[start:stop] = last[stop - 1]
        start = stop
    units = structure_by_time_bucket(first, last)
    planned = np.bincount([p for unit in units for p in unit], minlength=len(slices))
    assert planned.min() >= 1
    assert planned.max() <= 2
    owned: list[tuple[int, int]] = []
    for unit in units:
        low = first[unit[0]] + (planned[unit[0]] > 1)
        high = last_bucket_of_front(first[unit], last[unit])
        rows = [b for position in unit for b in slices[position] if low <= b <= high]
        owned += [(b, rows.count(b)) for b in sorted(set(rows))]
    everything = [b for rows in slices for b in rows]
    assert owned == [(b, everything.count(b)) for b in sorted(set(everything))]


def test_time_buckets_golden() -> None:
    first = np.array([0, 1, 1, 3, 9])
    last = np.array([1, 1, 3, 4, 9])
    assert structure_by_time_bucket(first, last) == [[0, 1, 2], [2, 3], [3], [4]]
    assert structure_by_time_bucket(first[:0], last[:0]) == []
    cut = [0, 2, 2, 2, 5], [2, 5, 5, 5, 6]  # the three in the middle were one slice
    first, last = map(np.array, cut)
    assert structure_by_time_bucket(first, last) == [[0, 1, 2, 3], [1, 2, 3, 4], [4]]
    assert last_bucket_of_front(first[1:], last[1:]) == 5


def test_hash_buckets_keep_plan_order() -> None:
    facts = [
        UnitFacts(unit, 1, RowRange(unit, unit + 1), ColRange(0, 1), bucket=bucket)
        for unit, bucket in enumerate([2, 0, 2, 1, 0])
    ]
    assert structure_by_bucket(facts) == [[1, 4], [3], [0, 2]]

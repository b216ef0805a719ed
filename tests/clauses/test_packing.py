"""Which units make one task: all of them, once, in order, long packs first."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
from tessel.clauses import QueryBuilder, SubQuery
from tessel.pipeline.packing import packs_of
from tessel.pipeline.plan import SourcePlan
from tessel.pipeline.planner.planner import plan_query
from tests.clauses.helpers import Latest, fresh_store

Q = QueryBuilder()

_UNITS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 24)), max_size=60)


@given(units=_UNITS, workers=st.integers(1, 8), budget=st.integers(0, 1 << 28))
def test_every_unit_is_in_one_pack(units: list[tuple[int, int]], workers: int, budget: int) -> None:
    rows, nbytes = np.array(units, np.int64).reshape(-1, 2).T
    packs = packs_of(rows, nbytes, workers, budget)
    assert [unit for pack in packs for unit in pack] == list(range(len(units)))
    assert all(len(pack) == 1 or nbytes[pack].sum() <= budget // 4 for pack in packs)


def test_workers_end_at_about_the_same_time() -> None:
    for units, size in itertools.product((9, 10, 40, 333), (0, 1 << 24)):
        packs = packs_of(np.full(units, 1 << 20), np.full(units, size), 2, 1 << 40)
        busy = [0, 0]
        for pack in packs:
            busy[busy.index(min(busy))] += len(pack)
        assert max(busy) - min(busy) <= 1
        assert len(packs) <= (2 * 2 + 2 * int(np.log2(units)) if size else 2)
        alone = packs_of(np.full(units, 1 << 20), np.zeros(units, np.int64), 1, 1 << 28)
        assert alone == [range(units)]


@given(st.lists(st.integers(1, 1 << 20), min_size=2, max_size=8))
def test_two_workers_share_little_as_evenly_as_units_allow(sizes: list[int]) -> None:
    rows = np.array(sizes, np.int64)
    packs = packs_of(rows, np.full(len(rows), (1 << 25) // len(rows)), 2, 1 << 40)
    heaviest = max(int(rows[pack].sum()) for pack in packs)
    cuts = range(1, len(rows))
    best = min(max(int(rows[:cut].sum()), int(rows[cut:].sum())) for cut in cuts)
    assert (len(packs), heaviest) == (2, best)


@pytest.mark.parametrize(
    ("dtype", "query", "units"),
    [
        (np.uint8, Q.agg(total=("v", "median")), 2),  # all is read, by both threads
        (np.uint8, Q.agg(total=("v", "mean")), 1),  # one thread adds up so little
        (np.uint8, Q.filter("v > 77"), 1),
        (np.uint8, Q.cast({"v": "int32"}).filter("v > 77"), 1),
        (np.uint8, Q.top_k(5, "v"), 1),
        (np.int64, Q.agg(total=("v", "mean")), 2),  # one pack a worker
        (np.int64, Q.filter("v > 77"), 2),
        (np.int64, Q.top_k(5, "v"), 2),
    ],
)
def test_segments_are_cut_into_as_many_units_as_packs(
    dtype: type, query: QueryBuilder, units: int
) -> None:
    rows, store = 3 << 20, fresh_store()
    values = np.random.default_rng(5).integers(0, min(1 << 62, np.iinfo(dtype).max), rows, dtype)
    with ts.options(workers=2, segment_rows=rows):
        store.write("x", pa.table({"v": values}))
        (source,) = plan_query(Latest(store), SubQuery("x", None, query.clauses)).inputs
        assert isinstance(source, SourcePlan)
        assert len(source.read.units) == units


def test_units_of_which_rows_are_selected_are_no_larger_than_the_budget() -> None:
    store, values = fresh_store(), np.arange(1 << 20) % 100
    store.write("x", pa.table({f"v{at}": values for at in range(30)}))

    def units(live_bytes: int) -> int:
        with ts.options(workers=2, live_bytes=live_bytes):
            query = SubQuery("x", None, Q.filter("v1 < 77").clauses)
            (source,) = plan_query(Latest(store), query).inputs
            assert isinstance(source, SourcePlan)
            return len(source.read.units)

    assert [units(live_bytes << 20) for live_bytes in (256, 128, 64)] == [1, 2, 2]


def test_many_small_units_are_not_joined_without_end() -> None:
    packs = packs_of(np.ones(5000, np.int64), np.zeros(5000, np.int64), 1, 1 << 28)
    assert max(map(len, packs)) == 1 << 10


class _Sequence:
    """A dynamic filter, as far as packs ask for one."""

    spares_in_sequence = True


def test_units_that_teach_each_other_are_one_pack_for_longer() -> None:
    rows, nbytes = np.full(6, 1 << 20), np.full(6, 5 << 20)
    sequence: Any = _Sequence()
    assert len(packs_of(rows, nbytes, 2, 1 << 30)) > 1
    assert packs_of(rows, nbytes, 2, 1 << 30, dynamic=sequence) == [range(6)]
    assert len(packs_of(4 * rows, nbytes, 2, 1 << 30, dynamic=sequence)) > 1
    assert len(packs_of(rows, 4 * nbytes, 2, 1 << 30, dynamic=sequence)) > 1

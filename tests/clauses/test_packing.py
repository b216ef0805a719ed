"""Which units make one task: all of them, once, in order, long packs first."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessel.pipeline.packing import packs_of

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


def test_many_small_units_are_not_joined_without_end() -> None:
    packs = packs_of(np.ones(5000, np.int64), np.zeros(5000, np.int64), 1, 1 << 28)
    assert max(map(len, packs)) == 1 << 10

"""sample: the rows that the documented numbers choose, whatever the cut; and by chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.sample import _scaled
from tessel.errors import PlanError
from tessel.options import options
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored
from tests.strategies.tables import cut_into_segments

Q = QueryBuilder()
MASK = 2**64 - 1


def _mix(x: int) -> int:
    """Return splitmix64's finaliser, as written in the documentation of the hash."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def _random(seed: int, row: int) -> int:
    h = _mix(_mix(seed & MASK))
    return _mix((h + _mix(row)) & MASK)


def _chosen(
    rows: int, n: int | None, fraction: float | None, seed: int, replacement: bool
) -> list[int]:
    if replacement:
        count = n if n is not None else math.floor((fraction or 0) * rows)
        draws = (_random(seed, j) * rows >> 64 for j in range(count))
        return sorted(draws) if rows else []
    if fraction is not None:
        return [r for r in range(rows) if _random(seed, r) < math.floor(fraction * 2**64)]
    return sorted(sorted(range(rows), key=lambda r: (_random(seed, r), r))[:n])


@settings(max_examples=80)
@given(data=st.data())
def test_rows_are_those_that_the_numbers_choose(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 30))
    table = pa.table({"row": pa.array(range(rows), pa.int64())})
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    seed = data.draw(st.integers(-(2**63), 2**63 - 1))
    replacement = data.draw(st.booleans())
    counted = data.draw(st.booleans())
    n = data.draw(st.integers(0, 40)) if counted else None
    part = st.floats(0, 3 if replacement else 1) | st.sampled_from([0, 1])
    fraction = None if counted else data.draw(part)
    query = Q.sample(n, fraction=fraction, seed=seed, replacement=replacement)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    assert found.column("row").to_pylist() == _chosen(rows, n, fraction, seed, replacement)


def test_rows_are_numbered_as_they_reach_the_clause() -> None:
    store = stored({"v": list(range(100))}, rows=7)
    found = answer(store, Q.filter("v % 2 == 1").sample(10, seed=5))
    assert found.column("v").to_pylist() == [2 * r + 1 for r in _chosen(50, 10, None, 5, False)]
    later = answer(store, Q.sample(50).filter("v >= 50"))
    assert later.column("v").to_pylist() == [r for r in _chosen(100, 50, None, 0, False) if r >= 50]


def test_seeds_give_other_samples_and_chances_are_kept() -> None:
    store = stored({"v": np.arange(20_000)}, rows=5_000, columns=1)
    counts = []
    for seed in range(20):
        found = store.read("x", query=Q.sample(fraction=0.1, seed=seed)).to_arrow()
        counts.append(found.num_rows)
    assert len(set(counts)) > 5
    # Twenty binomial draws of mean 2000 and deviation 42.4: their mean has deviation 9.5.
    assert abs(np.mean(counts) - 2000) < 5 * 9.5
    assert 20 < np.std(counts) < 80


@given(numbers=st.lists(st.integers(0, MASK), max_size=5), total=st.integers(1, 2**62))
def test_numbers_are_scaled_exactly(numbers: list[int], total: int) -> None:
    found = _scaled(np.array(numbers, np.uint64), total)
    assert found.tolist() == [number * total >> 64 for number in numbers]


def test_the_index_stays_also_with_replacement() -> None:
    table = pa.table({"t": pa.array(range(20), pa.timestamp("s")), "v": list(range(20))})
    store = stored(table, index="t", rows=3)
    for query in (Q.sample(30, replacement=True), Q.sample(9), Q.sample(fraction=0.5)):
        assert store.schema("x", query).index == "t"
        rows = answer(store, query).num_rows
        counted = answer(store, query.resample("4s").agg(n="size", m=("v", "median")))
        assert sum(counted.column("n").to_pylist()) == rows


def test_drawing_with_replacement_stays_in_the_budget() -> None:
    store = stored({"v": np.arange(50_000)}, rows=1_000, columns=1)
    with (
        options(workers=2, live_bytes=60_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        found = store.read("x", query=Q.sample(100, replacement=True)).to_arrow()
    assert found.column("v").to_pylist() == _chosen(50_000, 100, None, 0, True)
    assert max(event.attributes["bytes"] for event in alive) <= 60_000
    assert len(written) > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "a number of rows, or a fraction"),
        ({"n": 1, "fraction": 0.5}, "a number of rows, or a fraction"),
        ({"n": -1}, "sample of -1 rows"),
        ({"n": 1.5}, "whole number"),
        ({"fraction": 1.5}, "the fraction is 1.5"),
        ({"fraction": float("nan")}, "the fraction is nan"),
        ({"fraction": -0.1, "replacement": True}, "the fraction is -0.1"),
        ({"fraction": "half"}, "is a number"),
        ({"n": 1, "seed": 2**63}, "more than 64 bits"),
        ({"n": 1, "seed": 1.0}, "the seed is a whole number"),
        ({"n": 1, "replacement": 1}, "replacement is true or false"),
    ],
)
def test_misuse_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Q.sample(**arguments)

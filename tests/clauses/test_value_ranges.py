"""Values of one group, partitioned by ranges, against the same values sorted at once."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates.holistic import GroupValues, Values
from tessel.clauses.aggregates.kernels.value_runs import ordered_integers, placed_runs
from tessel.clauses.grouped.value_ranges import ValueBuckets, ValueRanges
from tessel.clauses.spill import Workspace
from tessel.options import current, options
from tests.clauses.helpers import LITTLE, fresh_store
from tests.profiles import cases


def _drawn(draw: st.DrawFn) -> pa.Array:
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    rows = draw(st.integers(0, 3_000))
    shape = draw(st.sampled_from(["normal", "few", "one", "wide", "sorted", "uint64"]))
    if shape == "uint64":
        return pa.array(random.integers(0, 1 << 64, rows, dtype=np.uint64))
    if shape == "wide":
        return pa.array(random.integers(-(1 << 63), (1 << 63) - 1, rows))
    values = {
        "normal": random.normal(size=rows),
        "few": random.integers(-2, 3, rows) * 0.5,
        "one": np.full(rows, -0.0),
        "sorted": np.arange(rows) + draw(st.integers(-5_000, 5_000)),
    }[shape]
    return pa.array(values.astype(np.float64))


@st.composite
def _states(draw: st.DrawFn) -> list[pa.Array]:
    first = _drawn(draw)
    more = [_drawn(draw) for _ in range(draw(st.integers(0, 5)))]
    return [first, *(each for each in more if each.type == first.type)]


@cases(20, 60)
@given(
    arrays=_states(), budget=st.sampled_from([LITTLE, 2_000, 50_000, 1 << 28]), once=st.booleans()
)
def test_ranges_give_what_sorting_gives(arrays: list[pa.Array], budget: int, once: bool) -> None:
    kind = arrays[0].type
    wanted = []
    with (
        options(live_bytes=budget),
        Workspace(current()) as workspace,
        contextlib.closing(ValueRanges(kind, workspace)) as ranges,
    ):
        for array in arrays:
            runs = placed_runs(ordered_integers(array), np.zeros(len(array), np.int64), 1)
            values = Values(kind, once=once)
            ranges.add(values.compacted(values.of_groups(GroupValues(runs, kind))))
            numbers = np.sort(ordered_integers(array))
            wanted.append(np.unique(numbers) if once else numbers)
        expected = np.sort(np.concatenate(wanted))
        assert ranges.count == len(expected)
        chunks = [ordered_integers(chunk) for chunk in ranges.chunks()]
        assert np.concatenate([np.zeros(0, np.int64), *chunks]).tolist() == expected.tolist()
        places = sorted({0, len(expected) // 3, len(expected) // 2, len(expected) - 1})
        if len(expected):
            found = ordered_integers(ranges.at(places))
            assert found.tolist() == expected[places].tolist()


@pytest.mark.parametrize("drifting", [False, True])
def test_statistics_of_everything_past_the_budget(drifting: bool) -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=60_000) + (np.arange(60_000) // 5_000 if drifting else 0)
    values[::7] = np.nan
    store = fresh_store()
    with options(segment_rows=4_000):
        store.write("x", pa.table({"v": np.round(values, 3), "w": values}))
    query = QueryBuilder().agg(
        m="median(w)", d="median(v)", n="nunique(w)", c="nunique(v)", least="min(w)"
    )
    expected = store.read("x", query=query).to_arrow()
    for budget in (1, 60_000, 400_000):
        with options(live_bytes=budget):
            assert store.read("x", query=query).to_arrow().equals(expected)
    held = values[~np.isnan(values)]
    row = expected.to_pylist()[0]
    assert row["m"] == np.median(held)
    assert row["n"] == len(np.unique(held))
    assert row["c"] == len(np.unique(np.round(held, 3)))


_KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.binary(6), pa.decimal128(20, 2)]


@pytest.mark.parametrize("budget", [LITTLE, 2_000, 50_000, 1 << 28])
@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_buckets_give_each_value_once(kind: pa.DataType, budget: int) -> None:
    random = np.random.default_rng(budget)
    values = Values(kind, once=True)
    with (
        options(live_bytes=budget),
        Workspace(current()) as workspace,
        contextlib.closing(ValueBuckets(workspace)) as buckets,
    ):
        seen = set[object]()
        for most in (1, 40, 5_000):
            texts = pa.array(random.integers(0, most, 3_000) + 100_000).cast(pa.string())
            array = texts.cast(pa.binary()).cast(kind) if kind == pa.binary(6) else texts.cast(kind)
            runs = placed_runs(np.arange(len(array)), np.zeros(len(array), np.int64), 1)
            buckets.add(values.of_groups(GroupValues(runs, kind, entries=array)))
            seen |= set(array.to_pylist())
        found = [value for chunk in buckets.chunks() for value in chunk.to_pylist()]
    assert len(found) == len(seen)
    assert set(found) == seen


@pytest.mark.parametrize("kind", [pa.bool_(), pa.null(), *_KINDS], ids=str)
def test_different_values_of_everything_past_the_budget(kind: pa.DataType) -> None:
    random = np.random.default_rng(9)
    numbers = random.integers(0, 20_000, 30_000) + (100_000 if kind != pa.bool_() else -10_000)
    plain = pa.array(np.maximum(numbers, 0), mask=random.random(30_000) < 0.1)
    if kind == pa.binary(6):
        column = plain.cast(pa.string()).cast(pa.binary()).cast(kind)
    elif pa.types.is_null(kind):
        column = pa.nulls(30_000)
    else:
        column = (plain if pa.types.is_boolean(kind) else plain.cast(pa.string())).cast(kind)
    store = fresh_store()
    with options(segment_rows=4_000):
        store.write("x", pa.table({"v": column}))
    for budget in (1, 60_000, 1 << 28):
        with options(live_bytes=budget):
            found = store.read("x", query=QueryBuilder().agg(n="nunique(v)")).to_arrow()
        assert found["n"].to_pylist() == [len(set(column.drop_null().to_pylist()))]

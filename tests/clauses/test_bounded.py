"""Clauses that hold much hold no more than the byte budget, and answer the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel import telemetry
from tessel.api import Store
from tessel.clauses import Head, QueryBuilder, RowRange, Tail
from tessel.clauses.positional import Positional
from tessel.options import options
from tests.clauses.helpers import SETTINGS, answer, events, stored
from tests.strategies.queries import row_ends
from tests.strategies.tables import bits

Q = QueryBuilder()
ROWS = 16_000


@pytest.fixture(scope="module")
def many() -> Store:
    """As good as every row is a group of its own, of integers, of text, and of both."""
    random = np.random.default_rng(7)
    keys = random.integers(0, 1 << 40, ROWS)
    keys[::50] = keys[0]
    table = {
        "i": keys,
        "s": [f"key {key}" for key in keys],
        "few": keys % 11,
        "one": np.zeros(ROWS, np.int64),
        "v": random.random(ROWS),
        "n": random.integers(-1000, 1000, ROWS),
    }
    return stored(table, rows=500, columns=9)


GROUPS = [
    pytest.param(
        Q.groupby("i").agg(s=("v", "sum"), m=("n", "mean"), n="size"), marks=pytest.mark.slow
    ),
    Q.groupby("i", sort=False).agg(s=("v", "sum"), first=("s", "first")),
    Q.groupby("s", "few").agg(low=("v", "min"), high=("n", "max")),
    Q.groupby("i").agg(m=("v", "median"), d=("n", "nunique")),
    pytest.param(Q.groupby("i", sort=False).agg(m=("v", "median")), marks=pytest.mark.slow),
    Q.value_counts("i"),
]


@pytest.mark.parametrize("query", GROUPS, ids=str)
def test_many_groups_stay_in_the_budget(many: Store, query: QueryBuilder) -> None:
    expected = many.read("x", query=query).to_arrow()
    budget = 200_000
    assert many.read("x").to_arrow().nbytes > 4 * budget
    with (
        options(workers=2, live_bytes=budget, hash_bucket_bytes=20_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        parts = list(many.scan("x").then(*query.clauses).iter_batches())
    found = pa.Table.from_batches(parts)
    assert found.schema == expected.schema
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name))
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert alive[-1].attributes["bytes"] == 0
    assert sum(event.attributes["bytes"] for event in written) > budget


def test_few_groups_are_merged_with_each_other_and_never_written(many: Store) -> None:
    query = Q.groupby("few").agg(s=("v", "sum"))
    with options(workers=1, live_bytes=60_000), events("spill.write") as written:
        found = many.read("x", query=query).to_arrow()
    assert found.num_rows == 11
    assert written == []


@settings(max_examples=60)
@given(
    values=st.lists(st.integers(0, 9), max_size=40),
    cut=st.integers(1, 9),
    clause=st.one_of(
        st.integers(-50, 50).map(Head),
        st.integers(-50, 50).map(Tail),
        row_ends(st.integers(-50, 50)).map(lambda ends: RowRange(*ends)),
    ),
)
def test_positions_after_a_filter_are_those_of_a_slice(
    values: list[int], cut: int, clause: Positional
) -> None:
    store = stored({"v": pa.array(values, pa.int64())}, rows=cut)
    left = [value for value in values if value % 3]
    start, stop = clause.ranges(len(left))
    query = Q.filter("v % 3 != 0").then(clause)
    assert answer(store, query, SETTINGS[:2]).column("v").to_pylist() == left[start:stop]
    match clause:
        case Head(n=n):
            assert left[start:stop] == left[:n]
        case Tail(n=n):
            assert left[start:stop] == (left[max(0, len(left) - n) :] if n >= 0 else left[-n:])
        case RowRange(start=first, stop=last):
            assert left[start:stop] == left[first:last]


@pytest.mark.parametrize(
    "clause", [Tail(500), Tail(-500), Head(-500), RowRange(-500, -100), RowRange(100, -500)]
)
def test_positions_from_the_end_hold_no_more_than_they_count(many: Store, clause: Any) -> None:
    query = Q.select("i").filter("i % 2 == 0").then(clause)
    expected = many.read("x", query=query).to_arrow()
    with options(workers=1, live_bytes=32_000), events("memory.alive") as alive:
        parts = list(many.scan("x").then(*query.clauses).iter_batches())
    assert pa.Table.from_batches(parts, expected.schema).equals(expected)
    # Few rows of several units are read together, up to a part of the budget: here of two or so.
    # The rows counted, and the units at both ends of them: a unit has 250 rows of 8 bytes or so.
    assert max(event.attributes["bytes"] for event in alive) <= (500 + 2 * 300) * 9


HOLDING: list[Any] = [
    Q.sample(ROWS, seed=3),
    Q.sample(ROWS, replacement=True),
    Q.top_k(ROWS, "v"),
    Q.top_k(ROWS * 4, "few", descending=True),
    Q.merge(on="i"),
    Q.sort("s", "v"),
    Q.distinct("i"),
    pytest.param(Q.distinct("i", "few", keep="none"), marks=pytest.mark.slow),
    Q.describe(),
    Q.value_counts("i", normalise=True),
    Q.filter("v > 0.1").tail(ROWS),
    Q.agg(m=("v", "median"), d=("s", "nunique"), q=("n", "quantile", 0.9)),
    Q.groupby("one").agg(m=("v", "median"), d=("i", "nunique")),
    Q.rank({"r": "s"}, by="few"),
    Q.fill({"w": "v"}, "backward", by="few"),
    Q.rolling(5, center=True).agg(m=("v", "mean")),
]


@pytest.fixture(scope="module")
def more() -> Store:
    """More than ten times what may be held below."""
    random = np.random.default_rng(8)
    keys = random.integers(0, 1 << 40, 3 * ROWS)
    table = pa.table(
        {
            "i": keys,
            "s": [f"key {key}" for key in keys],
            "few": keys % 11,
            "one": np.zeros(3 * ROWS, np.int64),
            "v": random.random(3 * ROWS),
            "n": random.integers(-1000, 1000, 3 * ROWS),
        }
    )
    assert table.nbytes > 10 * BUDGET
    return stored(table, rows=800, columns=9)


BUDGET = 250_000


@pytest.mark.parametrize("query", HOLDING, ids=str)
def test_what_needs_everything_stays_in_the_budget(more: Store, query: QueryBuilder) -> None:
    _streams_in_the_budget(more, query)


ALONG_TIME = [
    Q.resample("1s", by="few").agg(s=("v", "sum"), m=("n", "mean")),
    Q.resample("100ms").agg(s=("v", "sum"), last=("n", "last")),
    Q.resample("50ms", empty="zero").agg(s=("v", "sum"), n="size"),
    Q.resample("2s", by="few", empty="ffill").agg(m=("v", "max")),
    Q.resample("1D").agg(m=("v", "median"), d=("n", "nunique")),
    Q.resample("5min", by="few").agg(m=("v", "median"), s=("n", "sum")),
]


@pytest.mark.parametrize("query", ALONG_TIME, ids=str)
def test_what_goes_along_time_stays_in_the_budget(timed: Store, query: QueryBuilder) -> None:
    _streams_in_the_budget(timed, query)


@pytest.fixture(scope="module")
def timed() -> Store:
    """More than ten times what may be held, and each time of its own."""
    random = np.random.default_rng(9)
    times = np.arange(3 * ROWS, dtype=np.int64) * 100
    table = pa.table(
        {
            "t": pa.array(times, pa.timestamp("ms", tz="UTC")),
            "few": random.integers(0, 11, 3 * ROWS),
            "s": [f"key {key}" for key in random.integers(0, 1 << 40, 3 * ROWS)],
            "v": random.random(3 * ROWS),
            "n": random.integers(-1000, 1000, 3 * ROWS),
        }
    )
    return stored(table, rows=800, columns=9, index="t")


def _streams_in_the_budget(more: Store, query: QueryBuilder) -> None:
    expected = more.read("x", query=query).to_arrow()
    own: list[int] = []
    with (
        options(workers=1, live_bytes=BUDGET, hash_bucket_bytes=20_000),
        events("memory.alive") as alive,
        telemetry.subscribe(lambda _: own.append(pa.total_allocated_bytes())),
    ):
        before = pa.total_allocated_bytes()
        parts = more.scan("x").then(*query.clauses).iter_batches()
        start = 0
        for part in parts:
            same = expected.slice(start, part.num_rows)
            start += part.num_rows
            for name in expected.column_names:
                assert bits(pa.chunked_array([part.column(name)])) == bits(same.column(name)), name
    assert start == expected.num_rows
    assert max(event.attributes["bytes"] for event in alive) <= BUDGET
    assert alive[-1].attributes["bytes"] == 0
    # What is alive is counted: Arrow's own memory, with what is being made of it, bears it out.
    assert max(own) - before <= 4 * BUDGET

"""Aggregates that kernels can do and aggregates that need values, side by side in one query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregation import PartialAggregation
from tessel.options import options
from tests.clauses.helpers import events, fresh_store, stored
from tests.clauses.stored_ways import both_ways

_NUMBERS = ["p", "v", "k", "f", "odd"]
_AGGREGATES = ["sum", "mean", "min", "max", "first", "last", "count", "std", "median", "nunique"]
_TEXTS = ["min", "max", "first", "last", "count", "nunique"]


@st.composite
def _tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(1, 80))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    gaps = random.random(rows) < draw(st.sampled_from([0, 0.3, 1]))
    odd = np.array([0.0, -0.0, np.nan, np.inf, 1e300, 0.1])[random.integers(0, 6, rows)]
    names = np.array([f"{number:x}é" for number in random.integers(0, 1 << 60, rows)], object)
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 90, rows)), pa.timestamp("s")),
            "s": pa.array(np.array(["", "a", "b"], object)[random.integers(0, 3, rows)], mask=gaps),
            "k": pa.array(random.integers(-3, 4, rows), pa.int16()),
            "p": np.round(random.normal(size=rows), 2),
            "v": pa.array(random.integers(-4, 300, rows), mask=gaps),
            "f": random.normal(size=rows),
            "odd": odd,
            "name": pa.array(names, mask=random.random(rows) < 0.2),
            "is": pa.array(random.random(rows) < 0.5),
        }
    )


@st.composite
def _queries(draw: Any) -> QueryBuilder:
    query = QueryBuilder()
    if draw(st.booleans()):
        query = query.filter(draw(st.sampled_from(["v > 20", "p < 0.5 and k != 2", "name > '8'"])))
    pairs = st.one_of(
        st.tuples(st.sampled_from(_NUMBERS), st.sampled_from(_AGGREGATES)),
        st.tuples(st.sampled_from(["name", "s"]), st.sampled_from(_TEXTS)),
        st.tuples(st.just("is"), st.sampled_from(["any", "nunique", "first"])),
    )
    asked = draw(st.lists(pairs, min_size=2, max_size=5, unique=True))
    outputs: dict[str, Any] = {f"x{place}": pair for place, pair in enumerate(asked)}
    outputs |= {"rows": "size"} if draw(st.booleans()) else {}
    keys = draw(st.lists(st.sampled_from(["s", "k"]), max_size=2, unique=True))
    drop_missing = draw(st.booleans())
    if draw(st.booleans()):
        return query.resample("10s", by=keys, drop_missing=drop_missing).agg(**outputs)
    if not keys:
        return query.agg(**outputs)
    grouped = query.groupby(keys, sort=draw(st.booleans()), drop_missing=drop_missing)
    return grouped.agg(**outputs)


@given(_tables(), _queries(), st.integers(1, 90), st.sampled_from(["fast", "compact"]))
def test_answers_are_those_of_values(
    table: pa.Table, query: QueryBuilder, rows: int, profile: str
) -> None:
    both_ways(table, query, rows, profile)


@pytest.mark.parametrize("grouping", ["groupby", "resample", "whole"])
def test_an_aggregate_that_needs_values_leaves_the_others_to_kernels(grouping: str) -> None:
    count = 4_000
    random = np.random.default_rng(4)
    table = pa.table(
        {
            "t": pa.array(np.arange(count), pa.timestamp("s")),
            "k": random.integers(0, 9, count),
            "v": random.integers(0, 99, count),
            "name": [f"{number:x}" for number in random.integers(0, 1 << 60, count)],
        }
    )
    query = QueryBuilder()
    asked = {"total": ("v", "sum"), "least": ("name", "min")}
    query = {
        "groupby": lambda: query.groupby("k").agg(**asked),
        "resample": lambda: query.resample("1000s").agg(**asked),
        "whole": lambda: query.agg(**asked),
    }[grouping]()
    store = stored(table, index="t", rows=count // 4, columns=20)
    with events("clause.process") as seen:
        store.read("x", query=query)
    reduced = [each.attributes for each in seen if each.attributes.get("stored")]
    assert len(reduced) == 4
    for each in reduced:
        assert each["columns"]["name"] in ("values", "dictionary")
        assert each["columns"]["v"] not in ("values", "dictionary")


def test_what_the_first_unit_needed_is_assumed_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(
        {"k": [1, 2] * 20, "v": range(40), "n": [f"{each}é{each}" for each in range(40)]}
    )
    store = fresh_store()
    store.write("x", table)
    for _ in range(3):
        store.append("x", table)
    tried: list[int] = []
    scan = PartialAggregation.of_stored

    def counted(self: PartialAggregation, rows: Any, shape: Any, **named: Any) -> Any:
        tried.append(len(shape.aggregates))
        return scan(self, rows, shape, **named)

    monkeypatch.setattr(PartialAggregation, "of_stored", counted)
    query = QueryBuilder().groupby("k").agg(a=("v", "sum"), b=("v", "max"), c=("n", "max"))
    with options(workers=1):
        found = store.read("x", query=query)
    assert found.to_arrow().to_pylist() == [
        {"k": 1, "a": 4 * 380, "b": 38, "c": "8é8"},
        {"k": 2, "a": 4 * 400, "b": 39, "c": "9é9"},
    ]
    assert tried == [3, *[3, 1, 1, 1], *[3, 2] * 3]  # first all units together

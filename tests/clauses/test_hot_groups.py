"""Aggregates that need all values of a group, of groups that are more than may be held."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates import find_aggregate
from tessel.errors import IntegerOverflowError
from tessel.options import options
from tests.clauses.helpers import events, fresh_store, stored
from tests.strategies.queries import query_tables
from tests.strategies.tables import bits, cut_into_segments

Q = QueryBuilder()
ROWS = 20_000
SMALL = {"workers": 2, "inline_bytes": 0, "live_bytes": 1, "hash_bucket_bytes": 1 << 20}


def _same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.remove_metadata() == expected.schema.remove_metadata()
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name


@settings(max_examples=40)
@given(data=st.data())
def test_groups_in_parts_are_groups_at_once(data: st.DataObject) -> None:
    table = data.draw(query_tables())
    index = "t" if "t" in table.column_names else None
    store = fresh_store()
    data.draw(cut_into_segments(table, index=index)).write(store, "x")
    names = st.sampled_from(table.column_names)
    outputs: dict[str, Any] = {"size": "size", "n": (data.draw(names), "nunique")}
    for number in range(data.draw(st.integers(0, 3))):
        name = data.draw(names)
        ways = [find_aggregate("quantile", q=q, interpolation="lower") for q in (0, 0.3, 1)]
        kind = table.schema.field(name).type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            ways += ["median", find_aggregate("quantile", q=0.7), "mean", "sum"]
        outputs[f"o{number}"] = (name, data.draw(st.sampled_from(ways)))
    if data.draw(st.booleans()):
        query = Q.agg(**outputs)
    else:
        keys = data.draw(st.lists(names, min_size=1, max_size=2, unique=True))
        flags = {"sort": data.draw(st.booleans()), "drop_missing": data.draw(st.booleans())}
        query = Q.groupby(keys, **flags).agg(**outputs)
    try:
        expected = store.read("x", query=query).to_arrow()
    except IntegerOverflowError:
        return
    with options(**SMALL):
        _same(store.read("x", query=query).to_arrow(), expected)


@pytest.fixture(scope="module")
def hot() -> Store:
    """Nine rows of ten have one key."""
    random = np.random.default_rng(11)
    keys = random.integers(0, 40, ROWS)
    keys[random.random(ROWS) < 0.9] = 7
    values = random.normal(size=ROWS)
    values[::13] = np.nan
    return stored(
        {"k": keys, "v": values, "n": random.integers(0, 5000, ROWS)}, rows=400, columns=9
    )


QUERIES = [
    Q.groupby("k").agg(m=("v", "median"), n=("n", "nunique"), s=("v", "sum")),
    Q.groupby("k", sort=False).agg(q=("n", find_aggregate("quantile", q=0.9)), n="size"),
    Q.agg(m=("v", "median"), q=("v", find_aggregate("quantile", q=0.01)), n=("n", "nunique")),
    Q.select("v", "n").describe(),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("workers", [1, 2])
def test_one_hot_group_stays_in_the_budget(hot: Store, query: QueryBuilder, workers: int) -> None:
    budget = 120_000
    expected = hot.read("x", query=query).to_arrow()
    with (
        options(workers=workers, live_bytes=budget, hash_bucket_bytes=10_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.read") as read,
    ):
        _same(hot.read("x", query=query).to_arrow(), expected)
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert alive[-1].attributes["bytes"] == 0
    assert sum(event.attributes["bytes"] for event in read) > 2 * budget


def test_the_answers_are_those_of_numpy(hot: Store) -> None:
    values = hot.read("x").to_arrow()["v"].to_numpy()
    with options(live_bytes=10_000):
        found = hot.read("x", query=QUERIES[2]).to_arrow().to_pylist()[0]
    assert math.isclose(found["m"], np.nanmedian(values), rel_tol=1e-15)
    assert math.isclose(found["q"], np.nanquantile(values, 0.01), rel_tol=1e-12)
    assert found["n"] == len(np.unique(hot.read("x").to_arrow()["n"].to_numpy()))

"""Rows without a value, exceptions and packed pages: kernels give the bytes that values give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.expression import Expression, col, evaluate, parse
from tessel.options import options
from tessel.testing.tables import bits
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.clauses.stored_ways import both_ways
from tests.kernels.forced import compiled_or_not

_PROFILES = st.sampled_from(["fast", "compact"])
_DENSITIES = st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0])
_SEGMENT_ROWS = st.integers(80, 250)
_ODD_FLOATS = (-0.0, math.inf, -math.inf, 0.1 + 0.2, 1e300, 5e-324)


def _with_gaps(random: np.random.Generator, values: Any, density: float, kind: Any) -> pa.Array:
    """Return values of which some are null, in stretches and alone."""
    rows = len(values)
    mask = random.random(rows) < density
    if density:
        at = int(random.integers(0, rows))
        mask[at : at + int(random.integers(0, rows))] = True
    return pa.array(values, kind, mask=mask)


@st.composite
def _tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(100, 250))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    words = random.choice(["", "a", "b", "é", "zebra"], rows).tolist()
    few = random.integers(-300, 300, 6)[random.integers(0, 6, rows)] / 100
    many = random.integers(-30_000, 30_000, rows) / 100
    fine = random.normal(size=rows)
    for floats in (few, many, fine):
        floats[random.random(rows) < draw(_DENSITIES)] = np.nan
        if draw(st.booleans()):
            floats[random.random(rows) < 0.02] = draw(st.sampled_from(_ODD_FLOATS))
    values: dict[str, tuple[Any, Any]] = {
        "s": (words, None),
        "p": (few, pa.float64()),
        "q": (many, pa.float64()),
        "f": (fine, pa.float64()),
        "v": (random.integers(-4, 300, rows), pa.int64()),
        "k": (random.integers(-3, 4, rows), pa.int16()),
        "u": (random.integers(0, 5, rows).astype(np.uint64), pa.uint64()),
        "w": (random.integers(-(1 << 62), 1 << 62, rows), pa.int64()),
        "d": (np.cumsum(random.integers(0, 1000, rows)), pa.int64()),
        "r": (np.repeat(random.integers(0, 9, rows // 20 + 1), 20)[:rows], pa.int32()),
        "e": (random.integers(0, 10**9, rows), pa.timestamp("ms")),
    }
    columns = {
        name: _with_gaps(random, held, draw(_DENSITIES), kind)
        for name, (held, kind) in values.items()
    }
    times = pa.array(np.sort(random.integers(0, 90, rows)), pa.timestamp("s"))
    return pa.table({"t": times, **columns})


_NUMBERS = st.sampled_from(["p", "q", "v", "k", "u", "f", "d", "r"])
_SIGNED = _NUMBERS.filter(lambda name: name != "u")
_BOUNDS = st.one_of(st.integers(-5, 300), st.integers(-300, 300).map(lambda n: n / 100))


@st.composite
def _comparisons(draw: Any) -> Expression:
    left: Any = col(draw(_NUMBERS))
    kind = draw(st.integers(0, 3))
    if kind == 1:
        left = left + draw(st.one_of(_NUMBERS.map(col), _BOUNDS))
    elif kind == 2:
        left = col(draw(_SIGNED)).fill_missing(draw(st.one_of(_SIGNED.map(col), _BOUNDS)))
    right = draw(st.one_of(_BOUNDS, _NUMBERS.map(col)))
    pairs = [left < right, left <= right, left > right, left >= right, left == right, left != right]
    found: Expression = pairs[draw(st.integers(0, 5))]
    return found


_TEXTS = st.sampled_from(
    [
        "s == 'a'",
        "s != 'zebra'",
        "s in ('a', 'b')",
        "s in ('a', null)",
        "s > 'a'",
        "s is missing",
        "s is not missing or s == 'b'",
        "p is missing",
        "q is not missing",
        "f + v is missing",
        "k is missing",
        "coalesce(q, 0) > 1",
    ]
).map(parse)
_PREDICATES = st.recursive(
    st.one_of(_comparisons(), _TEXTS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] ^ pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=4,
)


@given(
    table=_tables(), predicate=_PREDICATES, rows=_SEGMENT_ROWS, profile=_PROFILES, data=st.data()
)
def test_filters(
    table: pa.Table, predicate: Expression, rows: int, profile: str, data: st.DataObject
) -> None:
    note(str(predicate))
    with options(profile=profile), compiled_or_not(data.draw(st.booleans())):
        store = stored(table, index="t", rows=rows, columns=20)
        found = answer(store, QueryBuilder().filter(predicate), [SETTINGS[0]])
    wanted = table.filter(evaluate(predicate, table))
    for name in wanted.column_names:
        assert bits(found.column(name)) == bits(wanted.column(name)), name


_ANY = st.sampled_from(["p", "q", "f", "v", "w", "d", "r", "e", "s", "k", "u", "t", "n"])
_SUMMED = st.sampled_from(["p", "q", "f", "v", "w", "d", "r", "k", "u", "n"])
_AGGREGATES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.tuples(_ANY, st.just("count")),
    "first": st.tuples(_ANY, st.just("first")),
    "last": st.tuples(_ANY, st.just("last")),
    "least": st.tuples(_ANY, st.just("min")),
    "greatest": st.tuples(_ANY, st.just("max")),
    "mean": st.tuples(_SUMMED, st.just("mean")),
    "sum": st.tuples(_SUMMED.filter(lambda name: name != "w"), st.just("sum")),
    "std": st.tuples(_SUMMED, st.just("std")),
    "vwap": st.tuples(_SUMMED, _SUMMED).map(lambda pair: (pair[0], "vwap", pair[1])),
    "size": st.just("size"),
}
_HELD: dict[str, st.SearchStrategy[Any]] = {
    "median": st.tuples(_SUMMED, st.just("median")),
    "nunique": st.tuples(_ANY, st.just("nunique")),
}
_COMPUTED = st.sampled_from(["p * v", "v + k", "coalesce(q, v)", "coalesce(k, 7)", "q - f * 2"])


@st.composite
def _aggregates(draw: Any, held: bool = False) -> dict[str, Any]:
    known = {**_AGGREGATES, **_HELD} if held else _AGGREGATES
    names = draw(st.lists(st.sampled_from(sorted(known)), unique=True, min_size=1, max_size=5))
    return {name: draw(known[name]) for name in names}


@given(table=_tables(), data=st.data(), profile=_PROFILES)
def test_groups(table: pa.Table, data: st.DataObject, profile: str) -> None:
    query = QueryBuilder().apply("n", data.draw(_COMPUTED))
    if data.draw(st.booleans()):
        query = query.filter(data.draw(_PREDICATES))
    keys = data.draw(st.lists(st.sampled_from(["s", "k", "u", "r"]), unique=True, max_size=2))
    aggregates = data.draw(_aggregates(held=True))
    sort, drop = data.draw(st.booleans()), data.draw(st.booleans())
    grouped = query.groupby(*keys, sort=sort, drop_missing=drop) if keys else query
    note(repr(grouped) + repr(aggregates))
    with compiled_or_not(data.draw(st.booleans())):
        both_ways(table, grouped.agg(**aggregates), data.draw(_SEGMENT_ROWS), profile)


@given(table=_tables(), data=st.data(), profile=_PROFILES)
def test_time_buckets(table: pa.Table, data: st.DataObject, profile: str) -> None:
    aggregates = data.draw(_aggregates())
    by = data.draw(st.sampled_from([[], [], ["k"], ["s"]]))
    query = QueryBuilder().apply("n", data.draw(_COMPUTED))
    query = query.resample(
        data.draw(st.sampled_from(["7s", "20s", "1min", "1D"])),
        by=by,
        drop_missing=data.draw(st.booleans()),
    ).agg(**aggregates)
    note(repr(query))
    with compiled_or_not(data.draw(st.booleans())):
        both_ways(table, query, data.draw(_SEGMENT_ROWS), profile)


@given(table=_tables(), data=st.data(), profile=_PROFILES)
def test_first_rows(table: pa.Table, data: st.DataObject, profile: str) -> None:
    keys = data.draw(st.lists(st.sampled_from(["s", "k", "u"]), unique=True, min_size=1))
    with compiled_or_not(data.draw(st.booleans())):
        both_ways(table, QueryBuilder().distinct(*keys), data.draw(_SEGMENT_ROWS), profile)


def _large(rows: int) -> pa.Table:
    random = np.random.default_rng(8)
    price = np.round(random.normal(100, 5, rows), 2)
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 4000, rows)), pa.timestamp("s")),
            "s": _with_gaps(random, random.choice(["a", "b", "c"], rows).tolist(), 0.1, None),
            "p": pa.array(price, mask=random.random(rows) < 0.05),
            "q": pa.array(np.where(random.random(rows) < 0.05, np.nan, price)),
            "f": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.05),
            "v": pa.array(random.integers(0, 5000, rows), mask=random.random(rows) < 0.05),
            "k": pa.array(random.integers(-3, 4, rows), pa.int16()),
            "d": pa.array(np.cumsum(random.integers(0, 1000, rows))),
        }
    )


_DONE: dict[str, QueryBuilder] = {
    "sums": QueryBuilder()
    .groupby("s")
    .agg(m=("p", "mean"), v=("v", "sum"), c=("q", "count"), x=("q", "mean")),
    "spreads": QueryBuilder().groupby("s", "k").agg(a=("q", "std"), b=("p", "vwap", "v")),
    "ends": QueryBuilder()
    .groupby("s", drop_missing=False)
    .agg(a=("q", "first"), b=("p", "last"), c=("f", "min"), d=("p", "max"), e=("s", "first")),
    "filter": QueryBuilder()
    .filter("(q > 100 or v < 50) and not (p < 95) or s is missing")
    .apply("n", "coalesce(p, 0.0) * v")
    .agg(n=("n", "sum"), m=("f", "mean")),
    "buckets": QueryBuilder().resample("20s").agg(o=("q", "first"), v=("v", "sum"), m=("p", "max")),
    "keyed": QueryBuilder().resample("10min", by="s").agg(v=("v", "sum"), m=("q", "mean")),
    "running": QueryBuilder().groupby("k").agg(a=("d", "max"), m=("d", "mean")),
}


@pytest.mark.parametrize("profile", ["fast", "compact"])
@pytest.mark.parametrize("name", sorted(_DONE))
@pytest.mark.parametrize("compiled", [True, False])
def test_what_can_be_is_done_on_what_is_stored(name: str, profile: str, compiled: bool) -> None:
    """Otherwise the tests above would compare values with values; pages have several blocks."""
    with compiled_or_not(compiled):
        assert both_ways(_large(9000), _DONE[name], 5000, profile)


def test_the_largest_integer_is_a_minimum_like_others() -> None:
    largest = (1 << 63) - 1
    keys = [0, 0, 1, 1, 2, 2, *[3] * 58]
    # Mostly different ones: others would be a dictionary.
    values = [largest, largest, None, None, largest, None, *range(-7, 51)]
    table = pa.table({"t": pa.array(range(64), pa.timestamp("s")), "k": keys, "v": values})
    query = QueryBuilder().groupby("k").agg(a=("v", "min"), b=("v", "max"), c=("v", "count"))
    assert both_ways(table, query, 64)
    found = answer(stored(table, index="t", rows=64, columns=20), query)
    assert found["a"].to_pylist() == [largest, None, largest, -7]

"""Rows without a value, exceptions and packed pages: kernels give the bytes that values give."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.expression import Expression, col, parse
from tessel.expression.evaluate import evaluate
from tessel.options import options
from tessel.pipeline.planner import lower_aggregation
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.clauses.stored_ways import both_ways
from tests.kernels.forced import LEVELS, in_form
from tests.strategies.tables import as_dictionary, bits

_PROFILES = st.sampled_from(["fast", "compact"])
_DENSITIES = st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0])
_SEGMENT_ROWS = st.integers(80, 250)
_TIMES = [
    pa.date32(),
    pa.time32("s"),
    pa.time64("us"),
    pa.duration("ms"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
]
_ODD_FLOATS = (-0.0, math.inf, -math.inf, 0.1 + 0.2, 1e300, 5e-324)


def _with_gaps(random: np.random.Generator, values: Any, density: float, kind: Any) -> pa.Array:
    """Return values of which some are null, in stretches and alone."""
    rows = len(values)
    mask = random.random(rows) < density
    if density:
        at = int(random.integers(0, rows))
        mask[at : at + int(random.integers(0, rows))] = True
    if kind is not None and pa.types.is_temporal(kind):
        integers = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, integers, mask=mask).cast(kind)
    return pa.array(values, kind, mask=mask)


@st.composite
def _tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(100, 250))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    words = random.choice(["", "a", "b", "é", "zebra"], rows).tolist()
    few = random.integers(-300, 300, 6)[random.integers(0, 6, rows)] / 100
    many = random.integers(-30_000, 30_000, rows) / 100
    fine = random.normal(size=rows)
    coded = random.normal(size=6)[random.integers(0, 6, rows)]
    for floats in (few, many, fine, coded):
        floats[random.random(rows) < draw(_DENSITIES)] = np.nan
        if draw(st.booleans()):
            floats[random.random(rows) < 0.02] = draw(st.sampled_from(_ODD_FLOATS))

    def floats_of(held: Any) -> tuple[Any, Any]:
        if draw(st.booleans()):
            return held, pa.float64()
        with np.errstate(over="ignore"):
            return held.astype(np.float32), pa.float32()

    cents = random.integers(-(10**6), 10**6, rows)
    if draw(st.booleans()):
        cents = np.repeat(cents, 20)[:rows]
    values: dict[str, tuple[Any, Any]] = {
        "s": (words, pa.string()),
        "p": floats_of(few),
        "q": floats_of(many),
        "f": floats_of(fine),
        "x": floats_of(coded),
        "y": (random.integers(-(1 << 50), 1 << 50, 5)[random.integers(0, 5, rows)], pa.int64()),
        "b": (random.random(rows) < draw(st.sampled_from([0.0, 0.3, 1.0])), pa.bool_()),
        "c": ([Decimal(cent).scaleb(-2) for cent in cents.tolist()], pa.decimal128(18, 2)),
        "z": (random.integers(0, 10_000, rows), draw(st.sampled_from(_TIMES))),
        "v": (random.integers(-4, 300, rows), draw(st.sampled_from([pa.int64(), pa.int32()]))),
        "k": (random.integers(-3, 4, rows), draw(st.sampled_from([pa.int16(), pa.int8()]))),
        "u": (random.integers(0, 5, rows), draw(st.sampled_from([pa.uint64(), pa.uint8()]))),
        "w": (random.integers(-(1 << 62), 1 << 62, rows), pa.int64()),
        "d": (np.cumsum(random.integers(0, 1000, rows)), pa.int64()),
        "r": (np.repeat(random.integers(0, 9, rows // 20 + 1), 20)[:rows], pa.int32()),
        "e": (random.integers(0, 10**9, rows), pa.timestamp("ms")),
    }
    columns = {
        name: _with_gaps(random, held, draw(_DENSITIES), kind)
        for name, (held, kind) in values.items()
    }
    if draw(st.booleans()):
        columns["s"] = as_dictionary(columns["s"])
    if draw(st.booleans()):
        columns["x"] = as_dictionary(columns["x"])
    times = pa.array(np.sort(random.integers(0, 90, rows)), pa.timestamp("s"))
    return pa.table({"t": times, **columns})


_NUMBERS = st.sampled_from(["p", "q", "v", "k", "u", "f", "d", "r", "x", "y"])
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
        "b",
        "b is missing or not b",
        "c > 1.25",
        "c != 3 and c is not missing",
        "x is missing",
        "y > x",
        "e > '1970-01-02T00:00:00.000001'",
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
    with options(profile=profile), in_form(data.draw(st.sampled_from(LEVELS))):
        store = stored(table, index="t", rows=rows, columns=20)
        found = answer(store, QueryBuilder().filter(predicate), [SETTINGS[0]])
    wanted = table.filter(evaluate(predicate, table))
    for name in wanted.column_names:
        assert bits(found.column(name)) == bits(wanted.column(name)), name


_ANY = st.sampled_from([*"pqfvwdreskutnxybcz"])
_SUMMED = st.sampled_from([*"pqfvwdrkunxy"])
_TOTALLED = st.sampled_from([*"pqfvdrkunxybc"])
_AGGREGATES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.tuples(_ANY, st.just("count")),
    "first": st.tuples(_ANY, st.just("first")),
    "last": st.tuples(_ANY, st.just("last")),
    "least": st.tuples(_ANY, st.just("min")),
    "greatest": st.tuples(_ANY, st.just("max")),
    "mean": st.tuples(_TOTALLED, st.just("mean")),
    "sum": st.tuples(_TOTALLED, st.just("sum")),
    "any": st.tuples(st.just("b"), st.sampled_from(["any", "all"])),
    "std": st.tuples(_SUMMED, st.just("std")),
    "vwap": st.tuples(_SUMMED, _SUMMED).map(lambda pair: (pair[0], "vwap", pair[1])),
    "size": st.just("size"),
}
_HELD: dict[str, st.SearchStrategy[Any]] = {
    "median": st.tuples(_SUMMED, st.just("median")),
    "nunique": st.tuples(_ANY, st.just("nunique")),
}
_LATER = st.sampled_from([*"pqfvwdreskuxybcz"])
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
    keys = data.draw(st.lists(st.sampled_from([*"skurxyb"]), unique=True, max_size=2))
    aggregates = data.draw(_aggregates(held=True))
    sort, drop = data.draw(st.booleans()), data.draw(st.booleans())
    grouped = query.groupby(*keys, sort=sort, drop_missing=drop) if keys else query
    later = data.draw(st.one_of(st.just([]), st.lists(_LATER, unique=True)))
    note(repr(grouped) + repr(aggregates) + repr(later))
    with in_form(data.draw(st.sampled_from(LEVELS))):
        both_ways(table, grouped.agg(**aggregates), data.draw(_SEGMENT_ROWS), profile, later)


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
    with in_form(data.draw(st.sampled_from(LEVELS))):
        both_ways(table, query, data.draw(_SEGMENT_ROWS), profile)


@given(table=_tables(), data=st.data(), profile=_PROFILES)
def test_first_rows(table: pa.Table, data: st.DataObject, profile: str) -> None:
    keys = data.draw(st.lists(st.sampled_from(["s", "k", "u"]), unique=True, min_size=1))
    with in_form(data.draw(st.sampled_from(LEVELS))):
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
@pytest.mark.parametrize("level", LEVELS)
def test_what_can_be_is_done_on_what_is_stored(name: str, profile: str, level: str) -> None:
    """Otherwise the tests above would compare values with values; pages have several blocks."""
    with in_form(level):
        assert both_ways(_large(9000), _DONE[name], 5000, profile)


_WORDS = ["b", "", "é", "aa", "z"]


def _kinds(rows: int) -> dict[str, pa.Array]:
    """Return a column of each kind whose integers are what is stored, or where they are found."""
    random = np.random.default_rng(3)
    raw, decimals = random.normal(size=rows), np.round(random.normal(100, 5, rows), 2)
    few = random.integers(0, 5, rows)
    whole = random.integers(0, 10**6, rows)
    dates = pa.array(whole.astype(np.int32) % 20_000)
    cents = [Decimal(int(cent)).scaleb(-2) for cent in whole]
    return {
        "singles": pa.array(raw.astype(np.float32)),
        "single_decimals": pa.array(decimals.astype(np.float32)),
        "single_exceptions": pa.array(np.where(few, decimals, raw).astype(np.float32)),
        "single_entries": pa.array(random.normal(size=5).astype(np.float32)[few]),
        "entries": pa.array(random.normal(size=5)[few]),
        "nan_entries": pa.array(np.array([np.nan, 0.1, 1 / 3, -2 / 3])[few % 4]),
        "integer_entries": pa.array(random.integers(-(1 << 50), 1 << 50, 5)[few]),
        "times": pa.array(random.integers(0, 1 << 50, 5)[few], pa.timestamp("us")),
        "truths": pa.array(few == 0),
        "same_truths": pa.array(np.ones(rows, np.bool_)),
        "runs_of_truths": pa.array(np.arange(rows) % 900 < 400),
        "decimals": pa.array(cents, pa.decimal128(18, 2)),
        "same_decimals": pa.array([Decimal("-7.5")] * rows, pa.decimal128(18, 2)),
        "wide": pa.array(random.integers(-(10**12), 10**12, rows)),
        "narrow": pa.array(random.integers(-128, 128, rows).astype(np.int8)),
        "dates": dates.cast(pa.date32()),
        "clock": pa.array(whole, pa.time64("us")),
        "spans": pa.array(whole, pa.duration("ms")),
        "texts": pa.array(_WORDS).take(pa.array(few)),
        "categories": pa.DictionaryArray.from_arrays(few.astype(np.int8), _WORDS),
        "number_categories": pa.DictionaryArray.from_arrays(few, np.array([0.1, 2, -3, 1 / 3, 7])),
    }


@pytest.mark.parametrize("profile", ["fast", "compact"])
@pytest.mark.parametrize("which", ["whole", "missing", "later"])
def test_no_kind_of_column_is_forgotten(profile: str, which: str) -> None:
    """Each is reduced as it is stored: with all values, with some, and added after some rows."""
    rows = 1500
    gone = np.arange(rows) % 9 == 4
    kinds = _kinds(rows)
    if which == "missing":
        kept = pa.array(np.where(gone, -1, np.arange(rows)), mask=gone)
        kinds = {name: held.take(kept) for name, held in kinds.items()}
    columns = {"t": pa.array(np.arange(rows), pa.timestamp("s")), "k": np.arange(rows) % 4}
    names = sorted(kinds)
    # One that is not taken as it is stored keeps the others from it.
    for some in (names[::2], names[1::2]):
        aggregates: dict[str, Any] = {}
        for name in some:
            kind, facts = kinds[name].type, ["min", "max", "first", "last", "count"]
            if not pa.types.is_temporal(kind) and name not in ("texts", "categories"):
                facts += ["mean", "sum", "std"]
            aggregates |= {f"{name}_{fact}": (name, fact) for fact in facts}
        table = pa.table({**columns, **{name: kinds[name] for name in some}})
        query = QueryBuilder().filter(f"{some[0]} is not missing or k > 1")
        later = [name for name in some if which == "later" and name != "number_categories"]
        assert both_ways(table, query.groupby("k").agg(**aggregates), 800, profile, later), some


_IN_NO_ORDER = {"entries", "nan_entries", "single_entries", "integer_entries", "times"}
"""Dictionaries of numbers that are in no order are looked up, and their values counted."""


@pytest.mark.parametrize("which", ["whole", "missing"])
@pytest.mark.parametrize("name", sorted(_kinds(1).keys() - _IN_NO_ORDER))
def test_values_of_every_kind_are_counted_as_they_are_stored(
    name: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Different values and medians, of one group and of several."""
    rows = 1500
    held = _kinds(rows)[name]
    if which == "missing":
        gone = np.arange(rows) % 9 == 4
        held = held.take(pa.array(np.where(gone, -1, np.arange(rows)), mask=gone))
    columns = {"t": pa.array(np.arange(rows), pa.timestamp("s")), "k": np.arange(rows) % 4}
    aggregates: dict[str, Any] = {"different": (name, "nunique")}
    if name not in ("texts", "categories"):
        aggregates |= {"median": (name, "median")}
    monkeypatch.setattr(lower_aggregation, "_LEAST_HOLISTIC_ROWS", 1)
    for query in (QueryBuilder(), QueryBuilder().groupby("k")):
        assert both_ways(pa.table({**columns, name: held}), query.agg(**aggregates), 800)


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

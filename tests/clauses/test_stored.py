"""Clauses on rows as they are stored give the bytes that they give on values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.expression import Expression, col, parse
from tessel.expression.block_comparisons import scaled_range
from tessel.expression.evaluate import evaluate
from tessel.expression.operators.comparison import (
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
)
from tessel.options import options
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.clauses.stored_ways import both_ways
from tests.kernels.forced import LEVELS, in_form
from tests.strategies.tables import bits

_ROWS = st.integers(20, 60)
_DECIMALS = st.one_of(
    st.integers(-3000, 3000).map(lambda number: number / 100),
    st.integers(-3000, 3000).map(lambda number: number / 1000),
)
_ODD = st.sampled_from([math.nan, -0.0, math.inf, -math.inf, 1e300, 5e-324, None])


@st.composite
def _tables(draw: Any, odd: bool = False) -> pa.Table:
    rows = draw(_ROWS)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    price = draw(st.lists(_DECIMALS, min_size=4, max_size=8))
    if odd:
        price += draw(st.lists(_ODD, min_size=1, max_size=2))
    words: list[str | None] = ["", "a", "b", "é", "zebra"]
    if odd and draw(st.booleans()):
        words.append(None)
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 50, rows)), pa.timestamp("s")),
            "s": pa.array([words[k] for k in random.integers(0, len(words), rows)]),
            "p": pa.array([price[k] for k in random.integers(0, len(price), rows)], pa.float64()),
            "v": pa.array(random.integers(-4, 300, rows)),
            "k": pa.array(random.integers(-3, 4, rows), pa.int16()),
            "u": pa.array(random.integers(0, 5, rows), pa.uint64()),
            "w": pa.array(random.integers(-(1 << 62), 1 << 62, rows)),
            "f": pa.array(random.normal(size=rows)),
        }
    )


_NUMBERS = st.sampled_from(["p", "v", "k", "u", "f"])
_BOUNDS = st.one_of(
    st.integers(-5, 300), _DECIMALS, st.sampled_from([0.0, -0.0, 1e300, math.inf, -math.inf])
)


@st.composite
def _comparisons(draw: Any) -> Expression:
    left: Any = col(draw(_NUMBERS))
    if draw(st.booleans()):
        other: Any = draw(st.one_of(_NUMBERS.map(col), _BOUNDS.filter(math.isfinite)))
        left = draw(st.sampled_from([left + other, left - other, left * other, left / other]))
    right = draw(st.one_of(_BOUNDS, _NUMBERS.map(col), st.just(col("w"))))
    kind = draw(st.integers(0, 5))
    pairs = [left < right, left <= right, left > right, left >= right, left == right, left != right]
    found: Expression = pairs[kind]
    return found


_TEXTS = st.sampled_from(
    ["s == 'a'", "s != 'zebra'", "s in ('a', 'b')", "s > 'a'", "not (s == '')", "s like '%e%'"]
).map(parse)


@st.composite
def _sets(draw: Any) -> Expression:
    """A number in a set: in runs, in spans, far apart, with a value that is missing."""
    left: Any = col(draw(st.sampled_from(["v", "k", "u", "w", "p"])))
    values: list[Any] = draw(
        st.one_of(
            st.lists(st.integers(-5, 300), max_size=40),
            st.lists(st.integers(-(1 << 62), 1 << 62), max_size=9),
            st.integers(-4, 200).map(lambda least: list(range(least, least + 30))),
            st.lists(st.one_of(_DECIMALS, st.integers(-4, 40)), max_size=9),
        )
    )
    if draw(st.integers(0, 9)) == 0:
        values.append(None)
    if draw(st.booleans()):
        left = left + draw(st.integers(-2, 2))
    return cast(Expression, left.is_in(values))


_LEAVES = st.one_of(_comparisons(), _TEXTS, _sets())
_PREDICATES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] ^ pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=4,
)


@given(table=st.one_of(_tables(), _tables(odd=True)), predicate=_PREDICATES, rows=_ROWS)
def test_filters(table: pa.Table, predicate: Expression, rows: int) -> None:
    note(str(predicate))
    store = stored(table, index="t", rows=rows, columns=20)
    found = answer(store, QueryBuilder().filter(predicate), [SETTINGS[0]])
    wanted = table.filter(evaluate(predicate, table))
    for name in wanted.column_names:
        assert bits(found.column(name)) == bits(wanted.column(name)), name


_ANY = st.sampled_from(["n", "p", "v", "w", "t", "f", "s", "k", "u"])
_SUMMED = st.sampled_from(["n", "p", "v", "w", "f", "k", "u"])
_CHOSEN: dict[str, st.SearchStrategy[Any]] = {
    "least": st.tuples(_ANY, st.just("min")),
    "greatest": st.tuples(_ANY, st.just("max")),
    "first": st.tuples(_ANY, st.just("first")),
    "last": st.tuples(_ANY, st.just("last")),
    "std": st.tuples(_SUMMED, st.just("std")),
    "var": st.tuples(_SUMMED, st.just("var")),
    "sem": st.tuples(_SUMMED, st.just("sem")),
    "vwap": st.tuples(_SUMMED, _SUMMED).map(lambda pair: (pair[0], "vwap", pair[1])),
}


@given(table=st.one_of(_tables(), _tables(odd=True)), data=st.data())
def test_groups(table: pa.Table, data: st.DataObject) -> None:
    query = QueryBuilder()
    for _ in range(data.draw(st.integers(0, 2))):
        query = query.filter(data.draw(_PREDICATES))
    if data.draw(st.booleans()):
        query = query.apply(
            "n", data.draw(st.sampled_from(["p * v", "v + k", "p - f * 2", "u * v"]))
        )
    else:
        query = query.apply("n", "v")
    keys = data.draw(st.lists(st.sampled_from(["s", "k", "u", "v", "t"]), unique=True, max_size=3))
    column = st.sampled_from(["n", "p", "v", "w", "t", "f"])
    aggregates: dict[str, Any] = {
        "a": (data.draw(column), "mean"),
        "b": (data.draw(column), "count"),
        "c": (data.draw(column.filter(lambda name: name not in ("t", "w"))), "sum"),
        "d": "size",
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(_CHOSEN)), unique=True, max_size=3)):
        aggregates[name] = data.draw(_CHOSEN[name])
    grouped = query.groupby(*keys, sort=data.draw(st.booleans())) if keys else query
    note(repr(query))
    both_ways(table, grouped.agg(**aggregates), data.draw(_ROWS))


@pytest.mark.parametrize(
    ("keys", "level"),
    [
        (("word", "code"), LEVELS[-1]),
        (("word", "code"), LEVELS[0]),
        (("code", "word", "few"), LEVELS[-1]),
        (("wide",), LEVELS[-1]),
        (("gone",), LEVELS[0]),
    ],
)
def test_groups_of_more_cells_than_rows(keys: tuple[str, ...], level: str) -> None:
    rows, random = 120, np.random.default_rng(3)
    block = np.arange(rows) // 40
    # Each segment has words, and a range of codes, of its own.
    words = [f"w{number * 7919 % 100:02}" for number in random.integers(0, 6, rows) + 3 * block]
    codes = random.integers(0, 9, rows) * 1000 - 7 * block
    table = pa.table(
        {
            "t": pa.array(np.arange(rows), pa.timestamp("s")),
            "word": pa.array(words),
            "code": pa.array(codes),
            "few": pa.array(random.integers(0, 3, rows), mask=random.random(rows) < 0.1),
            "wide": pa.array(random.choice([-(1 << 60), 3, 1 << 60], rows) + codes),
            "gone": pa.array(codes, pa.timestamp("us"), mask=block == 1),
            "p": pa.array(random.integers(-9999, 9999, rows) / 100),
            "v": pa.array(random.integers(0, 50, rows), mask=random.random(rows) < 0.1),
        }
    )
    aggregates: dict[str, Any] = {
        "mean": ("p", "mean"),
        "sum": ("v", "sum"),
        "least": ("p", "min"),
        "greatest": ("v", "max"),
        "first": ("v", "first"),
        "last": ("p", "last"),
        "size": "size",
    }
    with in_form(level):
        for sort, drop_missing in ((True, False), (False, True)):
            query = QueryBuilder().groupby(*keys, sort=sort, drop_missing=drop_missing)
            assert both_ways(table, query.agg(**aggregates), 40)


_WINDOWS: dict[str, Any] = {
    "o": ("p", "first"),
    "h": ("p", "max"),
    "l": ("f", "min"),
    "c": ("p", "last"),
    "v": ("v", "sum"),
    "m": ("p", "mean"),
    "w": ("w", "mean"),
    "x": ("s", "last"),
    "k": ("k", "max"),
    "u": ("u", "first"),
    "n": "size",
}


@given(table=st.one_of(_tables(), _tables(odd=True)), data=st.data())
def test_time_buckets(table: pa.Table, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(_WINDOWS)), unique=True, min_size=1))
    query = QueryBuilder()
    if data.draw(st.booleans()):
        query = query.date_range(None, "1970-01-01T00:00:30")
    if data.draw(st.booleans()):
        query = query.apply("v", "v * 2 - k")
    query = query.resample(
        data.draw(st.sampled_from(["1s", "7s", "20s", "1min", "1D"])),
        closed=data.draw(st.sampled_from(["left", "right"])),
        label=data.draw(st.sampled_from(["left", "right"])),
    ).agg(**{name: _WINDOWS[name] for name in names})
    note(repr(query))
    both_ways(table, query, data.draw(_ROWS))


def test_time_buckets_are_done_on_what_is_stored() -> None:
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 1000, 4000)), pa.timestamp("s")),
            "s": pa.array(random.choice(["a", "b", "c"], 4000).tolist()),
            "p": np.round(random.normal(10, 2, 4000), 2),
            "f": random.normal(size=4000),
            "v": random.integers(0, 300, 4000),
            "w": random.integers(-(1 << 62), 1 << 62, 4000),
            "k": pa.array(random.integers(-3, 3, 4000), pa.int16()),
            "u": pa.array(random.integers(0, 3, 4000), pa.uint64()),
        }
    )
    assert both_ways(table, QueryBuilder().resample("20s").agg(**_WINDOWS), 1000)


@pytest.mark.parametrize(
    "text",
    [
        "v > 2",
        "p >= 10.1 and s != 'a'",
        "s in ('a', 'b') or not (k == 0)",
        "p * v > 30",
        "v in (1, 2, 3, 9)",
        "v * 100000 in (500000, 700000, 12300000)",
    ],
)
def test_what_can_be_is_done_on_what_is_stored(text: str) -> None:
    """Otherwise the tests above would compare values with values."""
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "t": pa.array(np.arange(4000), pa.timestamp("s")),
            "s": pa.array(random.choice(["a", "b", "c"], 4000).tolist()),
            "p": np.round(random.normal(10, 2, 4000), 2),
            "v": random.integers(0, 300, 4000),
            "k": random.integers(0, 3, 4000),
        }
    )
    query = QueryBuilder().filter(text).apply("n", "p * v").groupby("s", "k")
    assert both_ways(table, query.agg(n=("n", "sum"), m=("p", "mean"), c=("v", "count")), 1000)
    ends: dict[str, Any] = {"c": ("s", "first"), "d": ("p", "last")}
    chosen = {"a": ("p", "min"), "b": ("t", "max"), **ends}
    assert both_ways(table, query.agg(**chosen), 1000)
    assert both_ways(table, query.agg(a=("p", "std"), b=("v", "var"), c=("p", "vwap", "v")), 1000)


@pytest.mark.parametrize("width", [20, 31, 32, 33, 40, 53, 54, 62, 63])
def test_products_of_integers_of_any_size(width: int) -> None:
    """Products past 64 bits are those of halves, whose ends are where they might overflow."""
    random, rows, most = np.random.default_rng(width), 1200, 1 << width
    wide = [*random.integers(-most, most, rows - 4).tolist(), -most, most - 1, -most, most - 1]
    gone = random.random(rows) < 0.1
    table = pa.table(
        {
            "t": pa.array(np.arange(rows), pa.timestamp("s")),
            "k": np.arange(rows) % 3,
            "wide": pa.array(wide, pa.int64()),
            "other": pa.array(random.permutation(wide), pa.int64(), mask=gone),
            "days": pa.array(random.integers(0, most, rows), pa.duration("us")),
            "small": random.integers(1, 9, rows),
        }
    )
    spreads: dict[str, Any] = {name: (name, "var") for name in ("wide", "other", "small")}
    spreads |= {"days": ("days", "std"), "mean": ("small", "vwap", "wide")}
    weighted = {"other_mean": ("other", "vwap", "wide"), "root": ("wide", "sem")}
    for query in (QueryBuilder(), QueryBuilder().groupby("k"), QueryBuilder().resample("100s")):
        assert both_ways(table, query.agg(**spreads, **weighted), 500)
    mean = Fraction(sum(wide), rows)
    exact = float(sum((value - mean) ** 2 for value in wide) / (rows - 1))
    found = stored(table, index="t", rows=500).read("x", query=QueryBuilder().agg(**spreads))
    assert found.to_arrow()["wide"].to_pylist() == [exact]


def test_members_lie_as_low_as_integers_do() -> None:
    """A span begins at the least integer, which has no negative of 64 bits."""
    least = -(1 << 63)
    for kind in (pa.int64(), pa.timestamp("ns"), pa.duration("us")):
        numbers = pa.array([least + at % 7 for at in range(70)])
        table = pa.table({"t": pa.array(range(70), pa.timestamp("s")), "v": numbers.view(kind)})
        wanted = pa.array([least, least + 2, least + 5]).view(kind)
        query = QueryBuilder().filter(col("v").is_in(wanted))
        found = answer(stored(table, index="t", rows=40, columns=20), query)
        assert found.num_rows == 30
        assert both_ways(table, query.agg(n="size"), 40)


def test_an_error_of_a_row_is_that_of_its_values() -> None:
    table = pa.table({"s": ["a", "b"] * 20, "v": [1 << 62] * 40})
    query = QueryBuilder().apply("n", "v * 8").groupby("s").agg(n=("n", "sum"))
    for workers in (1, 2):
        with options(workers=workers), pytest.raises(Exception, match="passes the range"):
            answer(stored(table, rows=40), query, [SETTINGS[0]])


_ASKED: tuple[type[Comparison], ...] = (Less, LessEqual, Greater, GreaterEqual, Equal)


@given(
    exponent=st.integers(0, 22),
    near=st.integers(-(1 << 53), 1 << 53),
    away=st.sampled_from([-1, 0, 1]),
    bound=st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-(1 << 63), 1 << 63)),
)
def test_thresholds_on_decimals(exponent: int, near: int, away: int, bound: Any) -> None:
    """Around a translated bound, every integer is told as the double that it stands for."""
    power = float(10**exponent)
    if bound is None:
        bound = near / power
        bound = bound if away == 0 else math.nextafter(bound, away * math.inf)
    middle = near
    if math.isfinite(bound):
        middle = math.floor(Fraction(bound) * 10**exponent)
    middle = max(-(1 << 53), min(1 << 53, middle))
    tried = [*range(middle - 6, middle + 7), -(1 << 53), 1 << 53, 0]
    for number in (k for k in tried if abs(k) <= 1 << 53):
        value = number / power
        truths = (value < bound, value <= bound, value > bound, value >= bound, value == bound)
        for asked, truth in zip(_ASKED, truths, strict=True):
            low, high = scaled_range(asked, bound, exponent)
            assert (low <= number <= high) == truth, (asked.__name__, number, value)


def test_a_nan_is_not_counted() -> None:
    times = pa.array(range(60), pa.timestamp("s"))
    table = pa.table({"t": times, "p": [0.0, 0.01, math.nan] * 20, "v": list(range(60))})
    store = stored(table, index="t", rows=100, columns=20)
    buckets = QueryBuilder().resample("30s").agg(total=("v", "sum"), prices=("p", "count"))
    assert answer(store, buckets).column("prices").to_pylist() == [20, 20]
    query = QueryBuilder().agg(total=("v", "sum"), prices=("p", "count"))
    assert answer(store, query).to_pylist() == [{"total": 1770, "prices": 40}]


@pytest.mark.parametrize("first", [True, False, None])
def test_truths_that_are_kept_as_codes(first: bool | None) -> None:
    """Entries stand in the order of their first rows: a code is no truth value."""
    truths = [first, True, False, False, None, True] * 10
    table = pa.table({"b": truths, "n": range(60)})
    plain, coded = fresh_store(), fresh_store()
    plain.write("x", table)
    coded.write("x", table, encodings={"b": "dictionary"})
    for predicate in (
        "b",
        "not b",
        "b and n > 2",
        "n > 50 or b",
        "not (b or n > 9)",
        "b is missing",
    ):
        query = QueryBuilder().filter(predicate)
        for asked in (query, query.agg(c="size", s="sum(n)")):
            found, wanted = (store.read("x", query=asked).to_arrow() for store in (coded, plain))
            assert found.equals(wanted), predicate


_SHARES = st.sampled_from([0.0, 0.005, 0.05, 0.12, 0.4, 1.0])


@given(shares=st.lists(_SHARES, min_size=2, max_size=3), seed=st.integers(0, 1 << 32))
def test_conjuncts_that_leave_few_rows_of_a_block(shares: list[float], seed: int) -> None:
    """Rows are packed behind a conjunct, and once more behind the next; numpy is the oracle."""
    random = np.random.default_rng(seed)
    rows = 5_000
    chances = {f"c{at}": random.random(rows).round(4) for at in range(len(shares))}
    kind, value = random.integers(0, 5, rows), random.integers(-50, 50, rows)
    mark = random.permutation(rows)
    store = fresh_store()
    store.write("x", pa.table({"kind": kind, "value": value, "mark": mark, **chances}))
    predicate = " and ".join(f"c{at} + {at} < {share + at}" for at, share in enumerate(shares))
    left = np.logical_and.reduce(
        [chances[f"c{at}"] + at < share + at for at, share in enumerate(shares)]
    )
    query = QueryBuilder().filter(predicate)
    found = store.read(
        "x",
        query=query.groupby("kind").agg(
            n=("value", "count"),
            sum=("value", "sum"),
            low=("mark", "min"),
            first=("mark", "first"),
            last=("mark", "last"),
        ),
    )
    expected = [
        {
            "kind": int(one),
            "n": int(own.sum()),
            "sum": int(value[own].sum()),
            "low": int(mark[own].min()),
            "first": int(mark[own][0]),
            "last": int(mark[own][-1]),
        }
        for one in np.unique(kind[left])
        for own in [left & (kind == one)]
    ]
    assert found.to_arrow().to_pylist() == expected
    best = store.read("x", query=query.top_k(7, by="mark")).to_arrow()
    assert best["mark"].to_pylist() == np.sort(mark[left])[::-1][:7].tolist()
    counted = store.read("x", query=query.agg(n=("value", "count"), sum=("value", "sum")))
    assert counted.to_arrow().to_pylist() == [{"n": int(left.sum()), "sum": int(value[left].sum())}]

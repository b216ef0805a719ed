"""rolling against windows taken one by one, and against pandas, Polars and DuckDB."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates import Quantile, find_aggregate
from tessel.errors import (
    AggregateError,
    ColumnNotFoundError,
    DuplicateColumnError,
    IndexColumnError,
    IntegerOverflowError,
    PlanError,
)
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import duckdb_answer, polars_frame, rows_numbered, same_rows
from tests.strategies.tables import bits, columns, cut_into_segments

Q = QueryBuilder()
CLOSED = st.sampled_from(["right", "left", "both", "neither"])
KINDS: dict[pa.DataType, list[str]] = {
    pa.float64(): ["sum", "mean", "min", "max", "var", "median", "nunique", "first"],
    pa.int32(): ["sum", "mean", "std", "min", "last", "count"],
    pa.decimal128(9, 2): ["sum", "mean", "max", "var", "first"],
    pa.timestamp("us"): ["mean", "min", "max", "last", "count"],
    pa.duration("ms"): ["sum", "mean", "median"],
    pa.dictionary(pa.int32(), pa.string()): ["min", "max", "first", "last", "nunique"],
    pa.bool_(): ["sum", "any", "all", "mean"],
    pa.list_(pa.int8()): ["first", "count"],
}


def _table(data: st.DataObject, rows: int) -> tuple[pa.Table, list[Any], list[int], list[str]]:
    kind = data.draw(st.sampled_from(list(KINDS)))
    keys = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=rows, max_size=rows))
    steps = data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    times = np.cumsum(np.array(steps, np.int64)).tolist()
    values = data.draw(columns(kind, rows))
    if pa.types.is_integer(kind):  # whose sums fit
        values = pa.array([None if v is None else v >> 8 for v in values.to_pylist()], kind)
    table = pa.table(
        {"t": pa.array(times, pa.timestamp("s")), "k": pa.array(keys, pa.string()), "v": values}
    )
    return table, keys, times, KINDS[kind]


def _expected(table: pa.Table, windows: list[list[int]], how: str, least: int) -> list[Any]:
    """Aggregate each window as a column of one group."""
    aggregate = find_aggregate(how)
    column = table.column("v").combine_chunks()
    found = []
    for rows in windows:
        part = column.take(pa.array(rows, pa.int64()))
        count = find_aggregate("count").compute(part, np.zeros(len(rows), np.int64), 1)[0].as_py()
        one = aggregate.compute(part, np.zeros(len(rows), np.int64), 1, "v")
        found += bits(one) if count >= least else [None]
    return found


@settings(max_examples=30)
@given(data=st.data())
def test_windows_of_rows(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 14))
    table, keys, _, names = _table(data, rows)
    size, closed = data.draw(st.integers(1, 5)), data.draw(CLOSED)
    center, by = data.draw(st.booleans()), data.draw(st.sampled_from([(), ("k",)]))
    least = data.draw(st.integers(0, 3))
    last = 1 + ((size - 1) // 2 if center else 0)
    first = last - size - (closed in ("left", "both"))
    last -= closed in ("left", "neither")
    windows = []
    for row in range(rows):
        same = [r for r in range(rows) if not by or keys[r] == keys[row]]
        place = same.index(row)
        windows.append([r for at, r in enumerate(same) if first <= at - place < last])
    query = Q.rolling(size, by=by, min_periods=least, closed=closed, center=center)
    _compare(data, table, names, query, windows, least)


@settings(max_examples=30)
@given(data=st.data())
def test_windows_of_time(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 14))
    table, keys, times, names = _table(data, rows)
    size, closed = data.draw(st.integers(1, 5)), data.draw(CLOSED)
    center, by = data.draw(st.booleans()), data.draw(st.sampled_from([(), ("k",)]))
    least = data.draw(st.integers(0, 3))
    back, ahead = (size / 2, size / 2) if center else (size, 0)

    def inside(distance: float) -> bool:
        low = -back <= distance if closed in ("left", "both") else -back < distance
        return low and (distance <= ahead if closed in ("right", "both") else distance < ahead)

    windows = [
        [
            r
            for r in range(rows)
            if inside(times[r] - times[row]) and (not by or keys[r] == keys[row])
        ]
        for row in range(rows)
    ]
    query = Q.rolling(f"{size}s", by=by, min_periods=least, closed=closed, center=center)
    _compare(data, table, names, query, windows, least)


def _compare(
    data: st.DataObject,
    table: pa.Table,
    names: list[str],
    query: Any,
    windows: list[list[int]],
    least: int,
) -> None:
    store = fresh_store()
    data.draw(cut_into_segments(table, index="t")).write(store, "x")
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    asked = {f"{how} of v": ("v", how) for how in chosen}
    under = [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))]
    found = answer(store, query.agg(rows="size", **asked), under)
    for how in chosen:
        assert bits(found.column(f"{how} of v")) == _expected(table, windows, how, least), how
    lengths = [len(each) for each in windows]
    assert found.column("rows").to_pylist() == [n if n >= least else None for n in lengths]


@settings(max_examples=20)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.none() | st.integers(-99, 99)), min_size=1, max_size=20
    ),
    size=st.integers(1, 5),
    least=st.integers(0, 3),
    closed=CLOSED,
    center=st.booleans(),
    cut=st.integers(1, 6),
)
def test_rows_are_those_of_pandas(
    rows: list[tuple[str, int | None]], size: int, least: int, closed: Any, center: bool, cut: int
) -> None:
    table = pa.table({"v": pa.array([v for _, v in rows], pa.int64())})
    least = min(least, size)
    query = Q.rolling(size, min_periods=least, closed=closed, center=center)
    query = query.agg(s=("v", "sum"), m=("v", "max"))
    query = query.rolling(size, closed=closed, center=center).agg(c=("v", "count"))
    found = answer(stored(table, rows=cut), query)
    values = pd.Series([v for _, v in rows], dtype="float64")
    rolled = values.rolling(size, min_periods=least, closed=closed, center=center)
    # The min_periods of a count are values for us, rows for pandas; by default there are none.
    counted = values.rolling(size, min_periods=0, closed=closed, center=center).count()
    for name, series in (("s", rolled.sum()), ("m", rolled.max()), ("c", counted)):
        wanted = [None if pd.isna(v) else int(v) for v in series]
        assert found.column(name).to_pylist() == wanted, name


@settings(max_examples=20)
@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    size=st.integers(1, 6),
    closed=st.sampled_from(["right", "left", "both", "none"]),
    cut=st.integers(1, 6),
)
def test_time_is_that_of_polars(steps: list[int], size: int, closed: Any, cut: int) -> None:
    times = pa.array(np.cumsum(steps), pa.int64()).cast(pa.timestamp("ms"))
    table = pa.table({"t": times, "v": pa.array(range(len(steps)), pa.int64())})
    ours = "neither" if closed == "none" else closed
    query = Q.rolling(f"{size}ms", closed=ours).agg(s=("v", "sum"), m=("v", "min"))
    found = answer(stored(table, index="t", rows=cut), query).select(["s", "m"])
    rolled = polars_frame(table).select(
        s=pl.col("v").rolling_sum_by("t", f"{size}ms", closed=closed, min_samples=1),
        m=pl.col("v").rolling_min_by("t", f"{size}ms", closed=closed, min_samples=1),
    )
    assert same_rows(found, rolled.to_arrow())


@settings(max_examples=20)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.none() | st.integers(-9, 9)),
        min_size=1,
        max_size=20,
    ),
    cut=st.integers(1, 6),
)
def test_ranges_by_key_are_those_of_duckdb(rows: list[tuple[Any, ...]], cut: int) -> None:
    times = pa.array(np.cumsum([step for _, step, _ in rows]), pa.int64()).cast(pa.timestamp("s"))
    table = pa.table(
        {
            "t": times,
            "k": pa.array([k for k, _, _ in rows]),
            "v": pa.array([v for *_, v in rows], pa.int32()),
        }
    )
    query = Q.rolling("2s", by="k", closed="both").agg(a=("v", "min"), z=("v", "max"), n="size")
    found = answer(stored(table, index="t", rows=cut), query).select(["a", "z", "n"])
    sql = """
        select min(v) over w as a, max(v) over w as z, count(*) over w as n from x
        window w as (partition by k order by t range between interval 2 seconds preceding
                     and current row) order by row
    """
    assert same_rows(found, duckdb_answer(sql, x=rows_numbered(table)))


def test_pandas_leaves_later_rows_of_one_instant_out() -> None:
    times = pa.array([1, 1, 2], pa.timestamp("s"))
    table = pa.table({"t": times, "v": pa.array([1, 10, 100])})
    found = answer(stored(table, index="t", rows=1), Q.rolling("1s").agg(s=("v", "sum")))
    assert found.column("s").to_pylist() == [11, 11, 100]
    theirs = table.to_pandas().set_index("t")["v"].rolling("1s").sum()
    assert theirs.tolist() == [1, 11, 100]


@pytest.mark.parametrize("center", [False, True])
def test_rows_are_counted_across_segments_where_no_column_is_read(center: bool) -> None:
    store = stored({"v": list(range(8))}, rows=3)
    query = Q.rolling(3, center=center, min_periods=1)
    expected = [2, 3, 3, 3, 3, 3, 3, 2] if center else [1, 2, 3, 3, 3, 3, 3, 3]
    assert answer(store, query.agg(n="size")).column("n").to_pylist() == expected
    pruned = query.agg(n="size", m=("v", "max")).select("n")
    assert answer(store, pruned).column("n").to_pylist() == expected


def test_sums_do_not_drift_and_means_are_rounded_once() -> None:
    values = [0.1, 1e16, 1.0, -1e16, 3.0, 0.1, 0.2, 0.3, float("inf"), 1.0, 2.0, 3.0]
    found = answer(stored({"v": values}, rows=5), Q.rolling(3).agg(s=("v", "sum"), m=("v", "mean")))
    for at, (total, mean) in enumerate(
        zip(*(found.column(n).to_pylist() for n in "sm"), strict=True)
    ):
        window = values[at - 2 : at + 1]
        if at < 2:
            assert (total, mean) == (None, None)
        elif float("inf") in window:
            assert (total, mean) == (float("inf"), float("inf"))
        else:
            exact = sum(map(Fraction, window))
            assert (total, mean) == (float(exact), float(exact / 3))
    drifted = pd.Series(values).rolling(3).sum().tolist()
    assert drifted[4:8] != found.column("s").to_pylist()[4:8] or drifted[9:] != [6.0, 6.0, 6.0]


def test_defaults_of_min_periods() -> None:
    table = pa.table({"t": pa.array(range(4), pa.timestamp("s")), "v": [1, None, 3, 4]})
    query = Q.rolling(2).agg(s=("v", "sum"), c=("v", "count"), n="size")
    found = answer(stored(table, index="t"), query)
    assert found.column("s").to_pylist() == [None, None, None, 7]
    assert found.column("c").to_pylist() == [1, 1, 1, 2]
    assert found.column("n").to_pylist() == [1, 2, 2, 2]
    found = answer(stored(table, index="t"), Q.rolling("2s").agg(s=("v", "sum")))
    assert found.column("s").to_pylist() == [1, 1, 3, 7]


def test_only_windows_that_are_answered_are_computed() -> None:
    store = stored({"v": pa.array([2**62, 2**62, None, 1, 2], pa.int64())}, rows=1)
    with pytest.raises(IntegerOverflowError, match="column 'v'"):
        store.read("x", query=Q.rolling(3, min_periods=2).agg(s=("v", "sum")))
    found = answer(store, Q.rolling(3, min_periods=3).agg(s=("v", "sum")))
    assert found.column("s").to_pylist() == [None] * 5


def test_several_aggregates_one_with_parameters() -> None:
    query = Q.rolling(3, min_periods=1).agg({"v": ["min", "max"]}, q=("v", Quantile(0.25)))
    found = answer(stored({"v": [4.0, 2.0, 8.0, 6.0]}, rows=2), query)
    assert found.column("v_min").to_pylist() == [4.0, 2.0, 2.0, 2.0]
    assert found.column("q").to_pylist() == [4.0, 2.5, 3.0, 4.0]


def test_misuse_is_refused() -> None:
    times = pa.array([1, 2], pa.timestamp("s", "Europe/Berlin"))
    store = stored({"t": times, "v": [1, 2], "s": ["a", "b"]}, index="t")
    plain = stored({"v": [1, 2], "n": [1, 2]}, index="n")
    agg = {"m": ("v", "mean")}
    cases: list[tuple[Any, Any, Any, str]] = [
        (store, lambda: Q.rolling(0).agg(**agg), PlanError, "at least 1 row"),
        (store, lambda: Q.rolling(2**63).agg(**agg), PlanError, "further than rows can be"),
        (store, lambda: Q.rolling(2.5).agg(**agg), PlanError, "whole number of rows"),
        (store, lambda: Q.rolling("soon").agg(**agg), PlanError, "is not a window"),
        (store, lambda: Q.rolling("1D").agg(**agg), PlanError, "not all of one length"),
        (store, lambda: Q.rolling("5ms").agg(**agg), PlanError, "no number of units"),
        (plain, lambda: Q.rolling("5s").agg(**agg), IndexColumnError, "needs an index of dates"),
        (store, lambda: Q.drop("t").rolling("5s").agg(**agg), IndexColumnError, "rolling"),
        (store, lambda: Q.rolling(2, closed="up").agg(**agg), PlanError, "closed is 'up'"),
        (store, lambda: Q.rolling(2, min_periods="1").agg(**agg), PlanError, "min_periods"),
        (store, lambda: Q.rolling(2, min_periods=-1).agg(**agg), PlanError, "min_periods"),
        (store, lambda: Q.rolling(2).agg(m=("w", "mean")), ColumnNotFoundError, "'w'"),
        (store, lambda: Q.rolling(2).agg(m=("s", "mean")), AggregateError, "no mean of column 's'"),
        (store, lambda: Q.rolling(2).agg(), AggregateError, "at least one aggregate"),
        (
            store,
            lambda: Q.rolling(2).agg({"v": "min"}, v=("v", "max")),
            DuplicateColumnError,
            "'v'",
        ),
        (store, lambda: Q.rolling(2, by="kk").agg(**agg), ColumnNotFoundError, "'kk'"),
    ]
    for case, make, error, text in cases:
        with pytest.raises(error, match=text):
            case.read("x", query=make())


def test_wider_than_the_table() -> None:
    store = stored(
        {"t": pa.array([1, 2, 3], pa.timestamp("ns")), "v": [1, 2, 3]}, index="t", rows=1
    )
    for window in (2**62, "2000000000s"):
        for center in (False, True):
            query = Q.rolling(window, min_periods=1, center=center).agg(s=("v", "sum"))
            found = answer(store, query).column("s").to_pylist()
            assert found == ([6, 6, 6] if center else [1, 3, 6])

"""resample against pandas on any split: partials, and whole buckets for what does not merge."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import DuplicateColumnError, IndexColumnError, PlanError
from tests.clauses.helpers import answer, stored
from tests.oracles import same_rows

Side = Literal["left", "right"]
START = dt.datetime(2021, 3, 27, 20)


@pytest.mark.parametrize("how", ["sum", "count", "max", "median", "nunique"])
@pytest.mark.parametrize("rule", ["20min", "90min", "1D"])
@settings(max_examples=10)
@given(
    minutes=st.lists(st.integers(0, 3000), min_size=1, max_size=30).map(sorted),
    values=st.lists(st.none() | st.integers(-5, 5), min_size=30, max_size=30),
    cut=st.integers(1, 9),
    closed=st.sampled_from(["left", "right"]),
    label=st.sampled_from(["left", "right"]),
)
def test_buckets_are_those_of_pandas(
    how: str,
    rule: str,
    minutes: list[int],
    values: list[int | None],
    cut: int,
    closed: Side,
    label: Side,
) -> None:
    times = pa.array([START + dt.timedelta(minutes=m) for m in minutes], pa.timestamp("us"))
    table = pa.table({"t": times, "v": pa.array(values[: len(minutes)], pa.int64())})
    query = QueryBuilder().resample(rule, closed=closed, label=label).agg(o=("v", how), n="size")
    found = answer(stored(table, index="t", rows=cut), query)
    series = pd.Series(
        table.column("v").to_numpy(), index=pd.DatetimeIndex(table.column("t").to_pandas())
    )
    buckets = series.resample(rule, closed=closed, label=label, origin="epoch")
    sizes = buckets.size()
    expected = pd.DataFrame({"o": buckets.agg(how), "n": sizes})[
        sizes > 0
    ]  # we leave out empty ones
    kind = found.schema.field("o").type
    outputs = pa.array(expected["o"].to_numpy(np.float64), pa.float64(), from_pandas=True).cast(
        kind
    )
    labels = pa.array(expected.index.astype("datetime64[us]"), pa.timestamp("us"))
    wanted = pa.table({"t": labels, "o": outputs, "n": pa.array(expected["n"], pa.int64())})
    assert same_rows(found, wanted)


@pytest.mark.parametrize("how", ["sum", "median"])
def test_a_resample_of_a_resample(how: str) -> None:
    times = [START + dt.timedelta(minutes=25 * n) for n in range(40)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "v": list(range(40))})
    query = QueryBuilder().resample("1h").agg(v=("v", how)).resample("1D").agg(v=("v", how))
    found = answer(stored(table, index="t", rows=3), query)
    series = pd.Series(range(40), index=pd.DatetimeIndex(times))
    wanted = series.resample("1h").agg(how).resample("1D").agg(how)
    assert found.column("v").to_pylist() == wanted.tolist()
    assert found.column("t").to_pylist() == [t.to_pydatetime() for t in wanted.index]


@pytest.mark.parametrize("first", ["sum", "median"])
def test_labels_before_the_first_row_are_not_lost(first: str) -> None:
    """The label of a bucket may lie before the rows that made it, in another bucket of the next."""
    times = [START + dt.timedelta(minutes=45 + 60 * n) for n in range(5)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "v": [1, 2, 3, 4, 5]})
    query = (
        QueryBuilder().resample("1h").agg(v=("v", first)).resample("20min").agg(v=("v", "median"))
    )
    found = answer(stored(table, index="t", rows=1), query)
    assert found.column("v").to_pylist() == [1, 2, 3, 4, 5]
    assert found.column("t").to_pylist() == [START + dt.timedelta(hours=n) for n in range(5)]


@pytest.mark.parametrize("how", ["sum", "median"])
def test_rows_dropped_before_it_leave_no_buckets(how: str) -> None:
    times = [START + dt.timedelta(minutes=20 * n) for n in range(30)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "v": list(range(30))})
    store = stored(table, index="t", rows=2)
    for query in (
        QueryBuilder().filter("v % 7 == 3"),
        QueryBuilder().filter("v > 100"),
        QueryBuilder().row_range(4, 17),
        QueryBuilder().date_range("2021-03-28"),
        QueryBuilder().filter("v > 4").tail(9),
    ):
        kept = answer(store, query).to_pandas().set_index("t")["v"]
        sizes = kept.resample("1h").size()
        wanted = kept.resample("1h").agg(how)[sizes > 0]
        found = answer(store, query.resample("1h").agg(o=("v", how)))
        assert found.column("o").to_pylist() == wanted.tolist()
        assert found.column("t").to_pylist() == [t.to_pydatetime() for t in wanted.index]


def test_first_and_last_skip_missing() -> None:
    times = pa.array([START + dt.timedelta(minutes=n) for n in range(4)], pa.timestamp("us"))
    table = pa.table({"t": times, "v": [None, 1.0, 2.0, float("nan")]})
    query = QueryBuilder().resample("1h").agg(a=("v", "first"), b=("v", "last"))
    assert answer(stored(table, index="t"), query).select(["a", "b"]).to_pylist() == [
        {"a": 1.0, "b": 2.0}
    ]


def test_the_index_may_be_aggregated_and_stays_the_index() -> None:
    times = pa.array([START + dt.timedelta(minutes=25 * n) for n in range(4)], pa.timestamp("us"))
    store = stored({"t": times, "v": [1, 2, 3, 4]}, index="t")
    for how in ("max", "nunique"):
        query = QueryBuilder().resample("1h").agg(o=("t", how))
        assert store.schema("x", query).index == "t"
        assert answer(store, query).num_rows == 2


def test_misuse_is_refused() -> None:
    times = pa.array([START], pa.timestamp("us"))
    store = stored({"t": times, "v": [1]}, index="t")
    q = QueryBuilder()
    cases = [
        (lambda: q.drop("t").resample("1h").agg(n="size"), IndexColumnError, "needs a time index"),
        (lambda: q.apply("t", "t").resample("1h").agg(n="size"), IndexColumnError, "time index"),
        (lambda: q.resample("1x").agg(n="size"), PlanError, "'1x'"),
        (lambda: q.resample("0s").agg(n="size"), PlanError, "no length"),
        (lambda: q.resample("1ns").agg(n="size"), PlanError, "finer than the index"),
        (lambda: q.resample("1h", closed="both").agg(n="size"), PlanError, "closed"),  # type: ignore[arg-type]
        (lambda: q.resample("1h").agg(t=("v", "sum")), DuplicateColumnError, "'t'"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):  # type: ignore[arg-type]
            store.schema("x", make())

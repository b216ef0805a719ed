"""date_range against pandas, on any split, and the bounds it takes."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import IndexColumnError, PlanError
from tessel.expression import col
from tests.clauses.helpers import answer, fresh_store, stored

Side = Literal["both", "left", "right", "neither"]
START = dt.datetime(2021, 3, 27, 20)
instants = st.integers(0, 30).map(lambda hours: START + dt.timedelta(hours=hours))
KINDS = [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin")]


def _table(hours: list[int], kind: pa.DataType) -> pa.Table:
    times = pa.array([START + dt.timedelta(hours=hour) for hour in hours], pa.timestamp("s"))
    moved = times.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    return pa.table({"t": moved, "n": range(len(hours))})


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25)
@given(
    hours=st.lists(st.integers(0, 30), max_size=20).map(sorted),
    cut=st.integers(1, 6),
    bounds=st.tuples(st.none() | instants, st.none() | instants),
    closed=st.sampled_from(["both", "left", "right", "neither"]),
)
def test_rows_are_those_of_pandas(
    kind: pa.DataType,
    hours: list[int],
    cut: int,
    bounds: tuple[dt.datetime | None, dt.datetime | None],
    closed: Side,
) -> None:
    if None not in bounds:
        bounds = min(bounds), max(bounds)  # type: ignore[type-var]
    start, end = (b if b is None or kind.tz is None else b.replace(tzinfo=dt.UTC) for b in bounds)
    table = _table(hours, kind)
    found = answer(
        stored(table, index="t", rows=cut),
        QueryBuilder().date_range(start, end, closed=closed),
    )
    times = table.column("t").to_pandas()
    low = times.min() if start is None else pd.Timestamp(start)
    high = times.max() if end is None else pd.Timestamp(end)
    # pandas has no bound left open, and leaves out an end that was never given.
    sides = {"both": (True, True), "left": (True, False), "right": (False, True)}
    left, right = sides.get(closed, (False, False))
    kept = (times >= low) if left or start is None else (times > low)
    kept &= (times <= high) if right or end is None else (times < high)
    assert found.column("n").to_pylist() == [n for n, keep in enumerate(kept) if keep]


@pytest.mark.parametrize(
    ("start", "end", "closed", "hours"),
    [
        ("2021-03-28", "2021-03-28", "both", range(4, 28)),
        ("2021-03-28", None, "right", range(28, 31)),
        (None, "2021-03-28", "left", range(4)),
        ("2021-03-27T21", "2021-03-27T22", "both", range(1, 3)),
        ("2021-03-27T21", "2021-03-27T22", "neither", range(0)),
        ("2021-03-27T20:00:00", "2021-03-27T23:00:00", "neither", range(1, 3)),
        ("2021", "2021", "both", range(31)),
        ("2021-03-28T00:00:00", "2021-03-28T00:00:00", "left", range(0)),
        ("2021-03-28T00:00:00", "2021-03-28T00:00:00", "neither", range(0)),
        ("2021-03-28", "2021-03-28T01", "both", range(4, 6)),
        ("2021-03-28T01", "2021-03-28", "both", range(5, 28)),
        (dt.date(2021, 3, 28), dt.date(2021, 3, 28), "both", range(4, 28)),
    ],
)
def test_partial_text_means_its_whole_period(
    start: str | None, end: str | None, closed: Side, hours: range
) -> None:
    table = _table(list(range(31)), pa.timestamp("us"))
    found = answer(
        stored(table, index="t", rows=4), QueryBuilder().date_range(start, end, closed=closed)
    )
    assert found.column("n").to_pylist() == list(hours)


def test_text_takes_the_zone_of_the_index() -> None:
    table = _table(list(range(31)), pa.timestamp("us", "Europe/Berlin"))
    found = answer(
        stored(table, index="t", rows=4), QueryBuilder().date_range("2021-03-28", "2021-03-28")
    )
    # From 23:00 UTC of the day before, and this local day has 23 hours.
    assert found.column("n").to_pylist() == list(range(3, 26))


def test_misuse_is_refused() -> None:
    store = stored(_table([0, 1], pa.timestamp("us")), index="t")
    plain = stored({"n": [1]})
    with pytest.raises(IndexColumnError, match="date_range needs a time index"):
        plain.read("x", query=QueryBuilder().date_range("2021"))
    with pytest.raises(IndexColumnError, match="needs a time index"):
        store.read("x", query=QueryBuilder().select("n").date_range("2021"))
    with pytest.raises(PlanError):
        store.read("x", query=QueryBuilder().date_range("yesterday"))
    with pytest.raises(PlanError):
        store.read("x", query=QueryBuilder().date_range("2021-02-30"))
    with pytest.raises(PlanError):
        store.read("x", query=QueryBuilder().date_range("2021-03-28T10:00:00+02:00"))
    with pytest.raises(PlanError, match="closed is 'all'"):
        QueryBuilder().date_range("2021", closed="all")  # type: ignore[arg-type]


def test_conditions_on_the_index_that_no_time_fulfils_keep_nothing() -> None:
    store = fresh_store()
    times = pa.array(range(0, 90, 10), pa.timestamp("s"))
    store.write("x", pa.table({"t": times, "n": range(9)}), index="t")
    late, early = dt.datetime(1970, 1, 1, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 20)
    for query in (
        QueryBuilder().filter((col("t") >= late) & (col("t") <= early)),
        QueryBuilder().filter(col("t") > late).filter(col("t") < early),
        QueryBuilder().filter((col("t") > late) & (col("t") < late)),
    ):
        assert store.read("x", query=query).to_arrow().num_rows == 0

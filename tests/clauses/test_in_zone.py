"""in_zone, and the calendar of resample in another zone, against Polars."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import ExpressionTypeError, IndexColumnError

START = dt.datetime(2024, 3, 28, tzinfo=dt.UTC)
TIMES = [START + dt.timedelta(minutes=37 * n) for n in range(400)]  # over a change of clocks


@pytest.fixture
def store() -> ts.Store:
    found = ts.open("memory://")
    times = pa.array(TIMES, pa.timestamp("us", "UTC"))
    rows = pa.table({"t": times, "v": list(range(400)), "k": ["a", "b"] * 200})
    found.write("a", rows.slice(0, 150), index="t")
    found.append("a", rows.slice(150))
    found.write("naive", {"t": [dt.datetime(2024, 1, 1)], "v": [1]}, index="t")
    return found


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
@pytest.mark.parametrize(("rule", "theirs"), [("1D", "1d"), ("MS", "1mo"), ("6h", None)])
@pytest.mark.parametrize("how", ["sum", "median"])
def test_buckets_of_another_zone(
    store: ts.Store, zone: str, rule: str, theirs: str | None, how: str
) -> None:
    found = store.scan("a").resample(rule, tz=zone).agg(x=("v", how), n="count").collect()
    assert found.schema.type_of("t") == pa.timestamp("us", zone)
    plain = store.scan("a").resample(rule).agg(x=("v", how), n="count").collect()
    if theirs is None:  # elapsed time has the same buckets everywhere
        assert found["t"].cast("int64") == plain["t"].cast("int64")
        return
    frame = store.read("a").to_polars().with_columns(pl.col("t").dt.convert_time_zone(zone))
    aggregate: Any = getattr(pl.col("v"), how)()
    wanted = frame.group_by_dynamic("t", every=theirs).agg(x=aggregate, n=pl.len())
    assert found.to_polars().rows() == wanted.rows()


def test_the_index_stays_one(store: ts.Store) -> None:
    lazy: Any = store.scan("a")
    lazy = lazy.in_zone("Asia/Kolkata")
    assert lazy.schema().index == "t"
    assert lazy.date_range("2024-03-29", "2024-03-29").count() == sum(
        (time + dt.timedelta(hours=5, minutes=30)).date() == dt.date(2024, 3, 29) for time in TIMES
    )
    assert lazy.collect()["t"].cast("int64") == store.read("a")["t"].cast("int64")


def test_every_column_of_a_bucket_of_another_zone(store: ts.Store) -> None:
    lazy = store.scan("a").resample("1D", tz="Asia/Kolkata", by="k")
    every, named = (
        each.collect().to_arrow() for each in (lazy.agg("max"), lazy.agg(v=("v", "max")))
    )
    assert every.equals(named)


def test_what_has_no_zone_and_no_zones_are_refused(store: ts.Store) -> None:
    with pytest.raises(IndexColumnError, match="has no time zone"):
        store.scan("naive").resample("1D", tz="UTC").agg(n="count").collect()
    with pytest.raises(IndexColumnError, match="needs a time index"):
        store.scan("a").select("v").resample("1D", tz="UTC").agg(n="count").collect()
    with pytest.raises(ExpressionTypeError, match="no time zone 'Berlin'"):
        store.scan("a").resample("1D", tz="Berlin")

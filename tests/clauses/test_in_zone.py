"""in_zone, and the calendar of resample in another zone, against Polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
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


_Q: Any = ts.QueryBuilder()
_BEFORE = {
    "nothing": _Q,
    "filter": _Q.filter("v > 20"),
    "filter by time": _Q.filter("hour(t) < 9"),
    "range": _Q.date_range("2024-03-30", "2024-04-02"),
    "columns": _Q.apply("w", "v * 2").select("t", "w", "v", "k").drop("k"),
    "of the index": _Q.apply("w", "hour(t)"),
    "other name": _Q.rename({"t": "time"}),
    "first": _Q.filter("v > 5").head(200),
}
_AFTER: dict[str, Callable[[Any], Any]] = {
    "all": lambda q: q,
    "hours": lambda q: q.apply("h", "hour(t)").groupby("h").agg(n="size", v=("v", "sum")),
    "at an hour": lambda q: q.filter("hour(t) == 5").resample("1D").agg(v=("v", "max")),
    "days": lambda q: q.resample("1D").agg(v=("v", "sum"), last=("t", "max")),
    "range": lambda q: q.date_range("2024-03-31", "2024-03-31").agg(n="size", t=("t", "min")),
    "again": lambda q: q.in_zone("America/New_York").resample("MS").agg(v=("v", "sum")),
    "ends": lambda q: q.tail(3),
}


@pytest.mark.parametrize("before", _BEFORE)
@pytest.mark.parametrize("after", _AFTER)
def test_it_is_the_same_wherever_it_is_done(store: ts.Store, before: str, after: str) -> None:
    first, name = _BEFORE[before], "time" if before == "other name" else "t"
    rows = store.read("a", query=first).to_arrow()
    at, kind = rows.column_names.index(name), pa.timestamp("us", "Asia/Kolkata")
    store.write("b", rows.set_column(at, name, rows.column(at).cast(kind)), index=name)
    names = {"time": "t"} if name == "time" else {}
    wanted = store.read("b", query=_AFTER[after](_Q.rename(names))).to_arrow()
    for _ in range(2):  # what was compiled for one zone is not taken for another
        store.read("a", query=_AFTER[after](first.rename(names)))
        query = _AFTER[after](first.in_zone("Asia/Kolkata").rename(names))
        assert store.read("a", query=query).to_arrow().equals(wanted)

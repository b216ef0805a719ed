"""Origins that depend on the rows: found first, on any split, whatever dropped rows before."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder, Resample, SubQuery
from tessel.errors import IndexColumnError, PlanError
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored

Q = QueryBuilder()
START = dt.datetime(2021, 3, 27, 20, tzinfo=dt.UTC)
UNDER = SETTINGS[::2]
ORIGINS = ["epoch", "start", "start_day", "end", "end_day"]


def as_index(times: list[dt.datetime], zone: str | None) -> pd.DatetimeIndex:
    index = pd.DatetimeIndex(times).as_unit("us")
    return index.tz_localize(None) if zone is None else index.tz_convert(zone)


def pandas_origin(origin: str, offset: str | None, index: pd.DatetimeIndex) -> Any:
    """Name an origin so that pandas agrees.

    Of an index with a zone it counts ``epoch`` from the local midnight, we from that of UTC; with
    an offset it looks for values of ``end`` and ``end_day`` in buckets that it did not make.
    """
    if origin == "epoch" and index.tz is not None:
        return pd.Timestamp(0, tz=index.tz)
    if offset is not None and origin.startswith("end"):
        return index[-1] if origin == "end" else index[-1].ceil("D")
    return origin if origin in ORIGINS else pd.Timestamp(origin, tz=index.tz)


@pytest.mark.parametrize("how", ["sum", "median"])
@settings(max_examples=15)
@given(
    minutes=st.lists(st.integers(0, 4000), min_size=1, max_size=20).map(sorted),
    rule=st.sampled_from(["17min", "90min", "7h", "24h"]),
    origin=st.sampled_from([*ORIGINS, "2021-03-28T01:02:03"]),
    offset=st.sampled_from([None, "11min", "-3h"]),
    closed=st.sampled_from(["left", "right", None]),
    label=st.sampled_from(["left", "right", None]),
    zone=st.sampled_from([None, "UTC", "Asia/Kolkata", "Europe/Berlin"]),
    cut=st.integers(1, 9),
    least=st.integers(0, 12),
)
def test_origins_are_those_of_pandas(
    how: str,
    minutes: list[int],
    rule: str,
    origin: str,
    offset: str | None,
    closed: Literal["left", "right"] | None,
    label: Literal["left", "right"] | None,
    zone: str | None,
    cut: int,
    least: int,
) -> None:
    index = as_index([START + dt.timedelta(minutes=m) for m in minutes], zone)
    values = [n * 7 % 13 for n in range(len(minutes))]
    table = pa.table({"t": pa.array(index, pa.timestamp("us", zone)), "v": values})
    query = Q.filter(f"v >= {least}").resample(
        rule, closed=closed, label=label, origin=origin, offset=offset
    )
    store = stored(table, index="t", rows=cut)
    found = answer(store, query.agg(o=("v", how), n="size"), UNDER)
    series = pd.Series(values, index=index)
    series = series[series >= least]
    if not len(series):
        assert found.num_rows == 0
        return
    start = pandas_origin(origin, offset, series.index)
    default: Literal["left", "right"] = "right" if origin.startswith("end") else "left"
    buckets = series.resample(
        rule, closed=closed or default, label=label or default, origin=start, offset=offset
    )
    sizes = buckets.size()
    expected = buckets.agg(how)[sizes > 0]
    assert found.column("o").to_pylist() == expected.tolist()
    labels = found.column("t").cast(pa.int64()).to_pylist()
    assert labels == expected.index.as_unit("us").asi8.tolist()


@settings(max_examples=15)
@given(
    minutes=st.lists(st.integers(0, 90_000), min_size=1, max_size=12).map(sorted),
    rule=st.sampled_from(["2D", "3W-TUE", "2MS", "2QS", "3B", "2YE"]),
    origin=st.sampled_from(ORIGINS[1:]),
)
def test_a_rule_of_the_calendar_counts_its_units_from_the_origin(
    minutes: list[int], rule: str, origin: str
) -> None:
    """One unit of a calendar, counted by hand from the first or to the last of them."""
    times = [START + dt.timedelta(minutes=m) for m in minutes]
    zone = "Europe/Berlin"
    table = pa.table({"t": pa.array(times, pa.timestamp("s", zone)), "v": list(range(len(times)))})
    store = stored(table, index="t", rows=3)
    side: Literal["left", "right"] = "right" if origin.startswith("end") else "left"
    one = Q.resample(rule[1:], closed=side).agg(a=("v", "min"), b=("v", "max"))
    single = answer(store, one, ({},))
    whole = answer(
        store, Q.resample(rule, origin=origin).agg(a=("v", "min"), b=("v", "max")), UNDER
    )
    filled = answer(store, Q.resample(rule[1:], closed=side, empty="null").agg(n="size"), ({},))
    units = filled.column("t").to_pylist()
    count = int(rule[0])
    if side == "right":  # buckets end with the last unit
        units.reverse()
    number = {label: at // count for at, label in enumerate(units)}
    groups: dict[int, list[int]] = {}
    for row in single.to_pylist():
        groups.setdefault(number[row["t"]], []).extend([row["a"], row["b"]])
    found = [(row["a"], row["b"]) for row in whole.to_pylist()]
    assert sorted(found) == sorted((min(rows), max(rows)) for rows in groups.values())


def test_the_origin_of_what_stands_before() -> None:
    times = [START + dt.timedelta(minutes=20 * n + n % 3) for n in range(40)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "v": list(range(40))})
    store = stored(table, index="t", rows=3)
    for before in (
        Q,
        Q.select("t", "v"),
        Q.rename({"t": "time"}),
        Q.head(17),
        Q.tail(9),
        Q.row_range(5, -5),
        Q.date_range("2021-03-28"),
        Q.filter("v % 5 == 2").tail(4),
        Q.resample("1h", label="right").agg(v=("v", "max")),
        Q.resample("40min", origin="start").agg(v=("v", "max")),
        Q.merge("y"),
    ):
        with_y = store.write("y", table.slice(0, 7), index="t") and store
        rows = answer(with_y, before, ({},))
        name = "time" if "time" in rows.column_names else "t"
        for origin in ("start", "end"):
            found = answer(
                with_y, before.resample("55min", origin=origin).agg(n=("v", "count")), UNDER
            )
            series = rows.to_pandas().set_index(name)["v"]
            expected = series.resample("55min", origin=origin).count()
            expected = expected[expected > 0]
            assert found.column("n").to_pylist() == expected.tolist()
            assert found.column(name).to_pylist() == expected.index.to_pydatetime().tolist()


def test_two_questions_in_one_query() -> None:
    times = [START + dt.timedelta(minutes=13 * n) for n in range(60)]
    store = stored({"t": pa.array(times, pa.timestamp("us", "UTC")), "v": range(60)}, index="t")
    query = Q.filter("v > 3").resample("17min", origin="start").agg(v=("v", "sum"))
    query = query.filter("v > 40").resample("2h", origin="end").agg(v=("v", "sum"))
    series = pd.Series(range(60), index=pd.DatetimeIndex(times))
    once = series[series > 3].resample("17min", origin="start").sum()
    wanted = once[once > 40].resample("2h", origin="end").sum()
    found = answer(store, query)
    assert found.column("v").to_pylist() == wanted[wanted > 0].tolist()


def test_a_question_of_one_input_of_several() -> None:
    times = [START + dt.timedelta(minutes=13 * n) for n in range(60)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "v": range(60)})
    store = stored(table, index="t", rows=7)
    store.write("y", table, index="t")
    asking = Q.filter("v > 3").resample("55min", origin="start").agg(v=("v", "sum"))
    alone = answer(store, asking)
    both = answer(store, Q.drop("t").concat(SubQuery("y", None, asking.drop("t").clauses)))
    assert both.column("v").to_pylist() == [*range(60), *alone.column("v").to_pylist()]
    right = SubQuery("y", None, asking.clauses)
    for live_bytes in (1, 2**28):  # by hash buckets, and with the right held
        joined = answer(store, Q.join(right, on="t"), ({"live_bytes": live_bytes},))
        wanted = set(alone.column("t").to_pylist()) & set(times)
        assert joined.column("t").to_pylist() == sorted(wanted)
        assert len(wanted) > 0


def test_a_question_reads_what_it_needs() -> None:
    times = [START + dt.timedelta(minutes=n) for n in range(40)]
    table = {"t": pa.array(times, pa.timestamp("us", "UTC")), "v": list(range(40))}
    store = stored(table, index="t", rows=4, columns=1)
    with events("segment.read") as read:
        store.read("x", query=Q.row_range(4, 30).resample("1D", origin="start").agg(n="size"))
    one_index = [event for event in read if event.attributes["rows"] == 1]
    assert len(one_index) == 1


def test_questions_are_shown_and_kept_out_of_plans_as_written() -> None:
    times = pa.array([START], pa.timestamp("us", "UTC"))
    store = stored({"t": times, "v": [1]}, index="t")
    query = Q.filter("v > 0").resample("1h", origin="end").agg(n="size")
    assert QueryBuilder.from_json(query.to_json()) == query
    shown = str(store.scan("x").then(*query.clauses).explain())
    assert "asked first: 'x'" in shown
    assert "origin='end'" in shown
    assert "origin_at" not in shown


def test_no_rows_have_no_origin() -> None:
    store = fresh_store()
    schema = pa.schema([("t", pa.timestamp("us")), ("v", pa.int64())])
    store.write("x", schema.empty_table(), index="t")
    for origin in ORIGINS:
        found = answer(store, Q.resample("1h", origin=origin, empty="zero").agg(n="size"))
        assert found.num_rows == 0


def test_misuse_is_refused_before_anything_is_asked() -> None:
    times = pa.array([START], pa.timestamp("us", "UTC"))
    store = stored({"t": times, "v": [1]}, index="t")
    with pytest.raises(IndexColumnError, match="needs a time index"):
        store.scan("x").drop("t").resample("1h", origin="start").agg(n="size").plan()
    with pytest.raises(PlanError, match="not a date"):
        store.scan("x").resample("1h", origin="begin").agg(n="size").plan()
    with pytest.raises(PlanError, match="leave origin_at out"):
        Resample("1h", (), origin_at=5)

"""Time buckets against pandas, Polars, DuckDB, and a walk over the clock of a zone."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from tessel.clauses.buckets.base import bucket_runs
from tessel.clauses.buckets.origins import bucketer_for
from tessel.clauses.buckets.rules import parse_span
from tessel.errors import IndexColumnError, IntegerOverflowError, PlanError
from tests.clauses.calendar_model import EPOCH, FIRST_DAYS, SECOND, ZONES, bucket_start

RULES = ["1s", "7s", "90s", "15min", "1h30min", "6h", "24h", "1D", "7D"]
SIDES = st.sampled_from(["left", "right"])
moments = st.datetimes(min_value=dt.datetime(1950, 1, 1), max_value=dt.datetime(2100, 1, 1))


def labels(times: pd.DatetimeIndex, rule: str, closed: str, **more: object) -> pd.DatetimeIndex:
    """The left edge of each time's bucket, in one line of pandas."""
    series = pd.Series(1, index=times)
    edges = []
    for time in times:
        counted = series.loc[time:time].iloc[:1].resample(rule, closed=closed, label="left", **more)
        edges.append(counted.sum().index[0])
    return pd.DatetimeIndex(edges)


@given(
    st.lists(moments, min_size=1, max_size=6),
    st.sampled_from(RULES),
    SIDES,
    st.sampled_from(["s", "us", "ns"]),
)
def test_edges_are_those_of_pandas(
    times: list[dt.datetime], rule: str, closed: str, unit: str
) -> None:
    index = pd.DatetimeIndex(sorted(t.replace(microsecond=0) for t in times)).as_unit(unit)
    bucketer = bucketer_for(rule, pa.timestamp(unit), closed=closed, origin="epoch", offset=None)
    numbers = bucketer.numbers(index.asi8)
    assert (np.diff(numbers) >= 0).all()
    expected = labels(index, rule, closed, origin="epoch").as_unit(unit)
    assert bucketer.edges(numbers).tolist() == expected.asi8.tolist()


@given(st.lists(moments, min_size=1, max_size=4), st.sampled_from(["2h", "7min", "6h"]), SIDES)
def test_origin_and_offset_are_those_of_pandas(
    times: list[dt.datetime], rule: str, closed: str
) -> None:
    index = pd.DatetimeIndex(sorted(t.replace(microsecond=0) for t in times)).as_unit("ns")
    bucketer = bucketer_for(
        rule, pa.timestamp("ns"), closed=closed, origin="2001-02-03T04:05:06", offset="-13s"
    )
    expected = labels(
        index, rule, closed, origin=pd.Timestamp("2001-02-03T04:05:06"), offset="-13s"
    )
    assert bucketer.edges(bucketer.numbers(index.asi8)).tolist() == expected.asi8.tolist()


@pytest.mark.parametrize(
    "zone",
    ["America/Sao_Paulo", "America/Havana", "Australia/Lord_Howe", "America/New_York", "UTC"],
)
def test_a_local_day_starts_at_its_first_instant(zone: str) -> None:
    hours = pd.date_range("2017-12-30", "2019-01-02", freq="37min", tz="UTC").as_unit("s")
    bucketer = bucketer_for(
        "1D", pa.timestamp("s", zone), closed="left", origin="epoch", offset=None
    )
    days = hours.tz_convert(zone).tz_localize(None).normalize()
    expected = days.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    got = bucketer.edges(bucketer.numbers(hours.asi8))
    assert got.tolist() == expected.as_unit("s").asi8.tolist()


def test_offsets_with_seconds_before_1900() -> None:
    zone = "Europe/Amsterdam"  # +00:19:32 until 1937
    hours = pd.date_range("1890-01-01", "1890-01-09", freq="h", tz="UTC").as_unit("s")
    bucketer = bucketer_for(
        "1D", pa.timestamp("s", zone), closed="left", origin="epoch", offset=None
    )
    days = hours.tz_convert(zone).tz_localize(None).normalize().tz_localize(zone)
    got = bucketer.edges(bucketer.numbers(hours.asi8))
    assert got.tolist() == days.as_unit("s").asi8.tolist()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("15s", (15 * 10**9, False)),
        ("1h30min", (5400 * 10**9, False)),
        ("h", (3600 * 10**9, False)),
        ("2 h", (7200 * 10**9, False)),
        ("250us", (250_000, False)),
        ("1D", (1, True)),
        ("7d", (7, True)),
    ],
)
def test_rules(rule: str, expected: tuple[int, bool]) -> None:
    assert parse_span(rule) == expected


@pytest.mark.parametrize(
    "rule", ["", "0s", "h1", "1 fortnight", "1W", "1M", "QE", "-1h", "1.5h", "1h;", "5m"]
)
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(PlanError):
        parse_span(rule)


def test_a_rule_finer_than_the_index_is_refused() -> None:
    with pytest.raises(PlanError, match="finer"):
        bucketer_for("500ms", pa.timestamp("s"), closed="left", origin="epoch", offset=None)


def test_an_index_without_instants_is_refused() -> None:
    with pytest.raises(IndexColumnError):
        bucketer_for("1h", pa.int64(), closed="left", origin="epoch", offset=None)


def test_extreme_instants_neither_wrap_nor_pass() -> None:
    limits = np.iinfo(np.int64)
    bucketer = bucketer_for("7s", pa.timestamp("ns"), closed="left", origin="epoch", offset="3s")
    values = np.array([limits.min, 0, limits.max])
    numbers = bucketer.numbers(values)
    exact = [(int(v) - 3 * 10**9) // (7 * 10**9) for v in values]
    assert numbers.tolist() == exact
    with pytest.raises(IntegerOverflowError):
        bucketer.edges(numbers)


# --- the calendar ---------------------------------------------------------------------------------

seconds = st.integers(-4_100_000_000, 4_100_000_000)  # 1840 to 2099
near_changes = st.sampled_from(
    [
        dt.datetime(2018, 11, 4, 3, tzinfo=dt.UTC),  # Sao Paulo
        dt.datetime(2019, 3, 10, 5, tzinfo=dt.UTC),  # Havana, forward
        dt.datetime(2018, 11, 4, 5, tzinfo=dt.UTC),  # Havana, back
        dt.datetime(2006, 10, 29, 2, 31, tzinfo=dt.UTC),  # St John's, back
        dt.datetime(2007, 4, 1, 3, 31, tzinfo=dt.UTC),  # St John's, forward
        dt.datetime(2021, 4, 3, 15, tzinfo=dt.UTC),  # Lord Howe
        dt.datetime(2011, 12, 30, 10, tzinfo=dt.UTC),  # Apia
        dt.datetime(1844, 12, 30, 16, tzinfo=dt.UTC),  # Manila
        dt.datetime(1892, 5, 1, tzinfo=dt.UTC),
    ]
).flatmap(lambda at: st.integers(-90_000, 90_000).map(lambda more: (at - EPOCH) // SECOND + more))


@given(
    st.lists(seconds | near_changes, min_size=1, max_size=4),
    st.sampled_from(ZONES),
    st.sampled_from(sorted(FIRST_DAYS)),
    SIDES,
)
@example([-3944678400 + 8 * 3600], "Asia/Manila", "D", "left")
def test_a_bucket_of_the_calendar_begins_with_its_first_day(
    values: list[int], zone_name: str | None, rule: str, closed: Literal["left", "right"]
) -> None:
    bucketer = bucketer_for(
        rule, pa.timestamp("s", zone_name), closed=closed, origin="epoch", offset=None
    )
    found = bucketer.edges(bucketer.numbers(np.array(values)))
    assert found.tolist() == [bucket_start(value, zone_name, rule, closed) for value in values]


PANDAS_RULES = ["W-MON", "W-SUN", "MS", "QS", "QS-FEB", "YS", "YS-APR", "B", "2B", "3MS", "2W-WED"]


def with_epoch(rule: str, times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Add 1970-01-01: pandas counts several units of a calendar from the first time, we from it."""
    if not rule[0].isdigit():
        return times
    first = {"2B": "1970-01-01", "3MS": "1970-01-01", "2W-WED": "1969-12-31"}[rule]
    return times.insert(0, pd.Timestamp(first, tz=times.tz))


@given(
    st.lists(st.integers(400_000, 4_000_000_000), min_size=1, max_size=5),
    st.sampled_from([None, "UTC", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata"]),
    st.sampled_from(PANDAS_RULES),
    st.sampled_from(["left", "right"]),
)
def test_labels_of_the_calendar_are_those_of_pandas(
    values: list[int], zone: str | None, rule: str, label: Literal["left", "right"]
) -> None:
    index = pd.DatetimeIndex(np.array(sorted(values), "datetime64[s]"))
    index = index if zone is None else index.tz_localize("UTC").tz_convert(zone)
    times = with_epoch(rule, index)
    try:
        sizes = pd.Series(1, index=times).resample(rule, closed="left", label=label).sum()
    except ValueError as error:  # it has no labels where a clock changes at midnight
        if "nonexistent time" in str(error):
            reject()
        raise
    expected = sizes[sizes > 0].index
    bucketer = bucketer_for(
        rule, pa.timestamp("s", zone), closed="left", origin="epoch", offset=None
    )
    found = bucketer.labels(np.unique(bucketer.numbers(times.asi8)), label)
    assert found.tolist() == expected.as_unit("s").asi8.tolist()


@given(
    st.lists(st.integers(-2_000_000_000, 4_000_000_000), min_size=1, max_size=5),
    # Without zones that change clocks at midnight: there pandas raises for the end of a month.
    st.sampled_from([None, "UTC", "Asia/Kolkata", "Europe/Paris"]),
    st.sampled_from(["ME", "QE", "QE-JAN", "YE", "YE-MAR"]),
)
def test_end_rules_are_those_of_pandas(values: list[int], zone: str | None, rule: str) -> None:
    index = pd.DatetimeIndex(np.array(sorted(values), "datetime64[s]"))
    index = index if zone is None else index.tz_localize("UTC").tz_convert(zone)
    sizes = pd.Series(1, index=index).resample(rule).sum()
    expected = sizes[sizes > 0].index
    bucketer = bucketer_for(
        rule, pa.timestamp("s", zone), closed="left", origin="epoch", offset=None
    )
    found = bucketer.labels(np.unique(bucketer.numbers(index.asi8)), "right")
    assert found.tolist() == expected.as_unit("s").asi8.tolist()


@given(
    st.lists(st.integers(-2_000_000_000, 4_000_000_000), min_size=1, max_size=5),
    st.sampled_from(["d", "w", "mo", "q", "y", "7d", "2w", "2mo", "3y"]),
    SIDES,
)
def test_truncation_is_that_of_polars(values: list[int], every: str, closed: str) -> None:
    every = every if every[0].isdigit() else f"1{every}"
    index = np.array(sorted(values), "datetime64[s]")
    frame = pl.DataFrame({"t": index.astype("datetime64[us]"), "n": 1})
    bucketer = bucketer_for(
        every,
        pa.timestamp("us"),
        closed="left" if closed == "left" else "right",
        origin=POLARS_ORIGIN.get(every, "epoch"),
        offset=None,
    )
    expected = frame.group_by_dynamic("t", every=every, closed=closed).agg(pl.len())  # type: ignore[arg-type]
    found = bucketer.edges(np.unique(bucketer.numbers(index.astype("datetime64[us]").view("i8"))))
    assert found.tolist() == expected["t"].to_physical().to_list()


POLARS_ORIGIN = {"2w": "1970-01-05"}
"""Polars counts weeks from the first Monday of 1970, we from the week of its first day."""


@given(
    st.lists(st.integers(-2_000_000_000, 4_000_000_000), min_size=1, max_size=5),
    st.sampled_from(
        [
            ("D", "1 day"),
            ("W", "7 days"),
            ("MS", "1 month"),
            ("5MS", "5 months"),
            ("QS", "3 months"),
            ("YS", "1 year"),
            ("3YS", "3 years"),
            ("10D", "10 days"),
        ]
    ),
)
def test_time_buckets_are_those_of_duckdb(values: list[int], rule: tuple[str, str]) -> None:
    ours, theirs = rule
    # DuckDB counts months from 2000-01-01 and days from 2000-01-03.
    origin = "2000-01-03" if "day" in theirs else "2000-01-01"
    bucketer = bucketer_for(ours, pa.timestamp("s"), closed="left", origin=origin, offset=None)
    index = np.array(values)
    rows = ", ".join(f"({value})" for value in values)
    expected = duckdb.sql(
        f"select epoch(time_bucket(interval '{theirs}', t))::bigint "
        f"from (select make_timestamp(v::bigint * 1000000) as t from (values {rows}) x(v))"
    ).fetchall()
    assert bucketer.edges(bucketer.numbers(index)).tolist() == [row[0] for row in expected]


@given(st.lists(st.integers(-50_000, 80_000), min_size=1, max_size=5), SIDES)
@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_have_the_buckets_of_their_midnights(
    kind: pa.DataType, values: list[int], closed: Literal["left", "right"]
) -> None:
    step = 1 if kind == pa.date32() else 86_400_000
    for rule in ("1D", "3D", "W-TUE", "2MS", "QE", "YS", "B"):
        dates = bucketer_for(rule, kind, closed=closed, origin="epoch", offset="-1D")
        instants = bucketer_for(
            rule, pa.timestamp("s"), closed=closed, origin="epoch", offset="-1D"
        )
        numbers = dates.numbers(np.array(values) * step)
        assert numbers.tolist() == instants.numbers(np.array(values) * 86_400).tolist()
        for side in ("left", "right"):
            assert (dates.labels(numbers, side) // step * 86_400).tolist() == instants.labels(  # type: ignore[arg-type]
                numbers,
                side,  # type: ignore[arg-type]
            ).tolist()


@given(
    st.lists(seconds, min_size=1, max_size=60).map(sorted),
    st.sampled_from(["1h", "1D", "W", "MS", "YS", "5000D"]),
    SIDES,
)
def test_runs_of_buckets_are_those_of_numbers(
    values: list[int], rule: str, closed: Literal["left", "right"]
) -> None:
    bucketer = bucketer_for(
        rule, pa.timestamp("s", "Europe/Paris"), closed=closed, origin="epoch", offset="3h"
    )
    numbers, starts = bucket_runs(bucketer, np.array(values))
    each = np.repeat(numbers, np.diff(starts, append=len(values)))
    assert each.tolist() == bucketer.numbers(np.array(values)).tolist()
    assert (np.diff(numbers) > 0).all()


def test_an_offset_of_a_calendar_rule_is_a_time_on_the_clock() -> None:
    zone = "America/New_York"
    hours = pd.date_range("2021-03-12", "2021-03-17", freq="37min", tz="UTC").as_unit("s")
    for offset, shift in (("17h", 17), ("-7h", -7)):
        bucketer = bucketer_for(
            "1D", pa.timestamp("s", zone), closed="left", origin="epoch", offset=offset
        )
        walls = hours.tz_convert(zone).tz_localize(None) - pd.Timedelta(hours=shift)
        expected = (walls.normalize() + pd.Timedelta(hours=shift)).tz_localize(zone)
        got = bucketer.edges(bucketer.numbers(hours.asi8))
        assert got.tolist() == expected.as_unit("s").asi8.tolist()


def test_a_business_day_takes_the_weekend() -> None:
    bucketer = bucketer_for("B", pa.timestamp("s"), closed="left", origin="epoch", offset=None)
    days = np.arange("2021-03-04", "2021-03-10", dtype="datetime64[D]")  # Thursday to Tuesday
    edges = bucketer.edges(bucketer.numbers(days.astype("datetime64[s]").view("i8")))
    found = edges.astype("datetime64[s]").astype("datetime64[D]").astype(str).tolist()
    friday = "2021-03-05"
    assert found == ["2021-03-04", friday, friday, friday, "2021-03-08", "2021-03-09"]


def test_extreme_instants_have_buckets_of_the_calendar() -> None:
    limits = np.iinfo(np.int64)
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "Asia/Tokyo")):
        for rule in ("1D", "W", "MS", "YS"):
            bucketer = bucketer_for(rule, kind, closed="left", origin="epoch", offset=None)
            numbers = bucketer.numbers(np.array([limits.min, 0, limits.max]))
            assert (np.diff(numbers) > 0).all()
            with pytest.raises(IntegerOverflowError):
                bucketer.edges(numbers[:1])
            assert bucketer.edges(numbers[1:]).tolist() == sorted(bucketer.edges(numbers[1:]))


def test_local_dates_end_with_the_years_of_a_calendar() -> None:
    second = 253_402_300_800  # the year 10000
    zone = pa.timestamp("s", "Asia/Tokyo")
    bucketer = bucketer_for("YS", zone, closed="left", origin="epoch", offset=None)
    with pytest.raises(PlanError, match="years 1 to 9999"):
        bucketer.numbers(np.array([second]))
    naive = bucketer_for("YS", pa.timestamp("s"), closed="left", origin="epoch", offset=None)
    assert naive.edges(naive.numbers(np.array([second + 5]))).tolist() == [second]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("M", "write MS .* or ME"),
        ("1M", "more than one meaning"),
        ("5m", "write min for minutes"),
        ("1h5m", "write min for minutes"),
        ("Q", "write QS"),
        ("2Y", "write YS"),
        ("A", "write YS"),
        ("W-FOO", "one of MON, TUE"),
        ("QS-MON", "one of JAN, FEB"),
        ("MS-JAN", "stands without a dash"),
        ("h-MON", "not a rule"),
        ("0MS", "no length"),
        ("99999999999W", "longer than an index"),
        ("999999999999999999999s", "longer than an index"),
        ("MS2", "not a rule"),
        ("BMS", "did you mean MS"),
        ("1W1D", "not a rule"),
        ("", "not a rule"),
    ],
)
def test_rules_that_are_refused(rule: str, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        bucketer_for(rule, pa.timestamp("s"), closed="left", origin="epoch", offset=None)


@pytest.mark.parametrize(
    ("rule", "same"),
    [("1mo", "MS"), ("1q", "QS"), ("1y", "YS"), ("1w", "W-MON"), ("1B", "B"), ("1d", "D"),
     ("QS", "QS-OCT"), ("YS", "YE-DEC"), ("QE", "QE-MAR"), ("W", "W-MON"), ("12MS", "YS")],
)  # fmt: skip
def test_names_of_one_rule(rule: str, same: str) -> None:
    values = np.arange(-10_000, 20_000, 13) * 86_400
    one, other = (
        bucketer_for(text, pa.timestamp("s"), closed="left", origin="epoch", offset=None)
        for text in (rule, same)
    )
    assert one.edges(one.numbers(values)).tolist() == other.edges(other.numbers(values)).tolist()


def test_dates_and_origins_that_do_not_fit_are_refused() -> None:
    def make(
        rule: str, kind: pa.DataType, origin: str = "epoch", offset: str | None = None
    ) -> None:
        bucketer_for(rule, kind, closed="left", origin=origin, offset=offset)

    with pytest.raises(IndexColumnError, match="days or longer"):
        make("24h", pa.date32())
    with pytest.raises(PlanError, match="counts in days"):
        make("W", pa.date64(), offset="6h")
    with pytest.raises(IndexColumnError, match="int64"):
        make("1D", pa.int64())
    with pytest.raises(PlanError, match="begin with a date"):
        make("W", pa.timestamp("s"), origin="2021-02-03T04:05")
    with pytest.raises(PlanError, match="finer than the index"):
        make("1h", pa.timestamp("s"), origin="2021-02-03T04:05:06.5")
    with pytest.raises(PlanError, match="'1W' is not an offset"):
        make("W", pa.timestamp("s"), offset="1W")
    with pytest.raises(PlanError, match="not a date"):
        make("1h", pa.timestamp("s"), origin="yesterday")


@given(
    st.lists(st.integers(0, 2_000_000_000), min_size=1, max_size=5),
    st.sampled_from(["1D", "3D"]),
    st.sampled_from(["2018-11-04", "2018-11-04T17:30", "2001-02-03T04:05:06Z"]),
)
def test_days_begin_at_the_time_of_their_origin(values: list[int], rule: str, origin: str) -> None:
    index = pd.DatetimeIndex(np.array(sorted(values), "datetime64[s]"))
    # With a zone pandas has no origins of days.
    expected = labels(index, rule, "left", origin=pd.Timestamp(origin.rstrip("Z")))
    for zone in ("UTC", "+00:00"):
        bucketer = bucketer_for(
            rule, pa.timestamp("s", zone), closed="left", origin=origin, offset=None
        )
        found = bucketer.edges(bucketer.numbers(index.asi8))
        assert found.tolist() == expected.as_unit("s").asi8.tolist()
    # In Sao Paulo that date begins at 01:00: the first instant, or a time that clocks show.
    local = bucketer_for(
        rule,
        pa.timestamp("s", "America/Sao_Paulo"),
        closed="left",
        origin=origin,
        offset=None,
    )
    numbers = local.numbers(index.asi8)
    edges = local.edges(numbers)
    assert ((edges <= index.asi8) & (index.asi8 < local.edges(numbers + 1))).all()
    clocks = pd.DatetimeIndex(edges.astype("datetime64[s]")).tz_localize("UTC")
    shown = set(clocks.tz_convert("America/Sao_Paulo").strftime("%H:%M:%S"))
    wanted = {"2018-11-04": "00:00:00", "2018-11-04T17:30": "17:30:00"}.get(origin, "02:05:06")
    assert shown <= ({wanted, "01:00:00"} if wanted == "00:00:00" else {wanted})

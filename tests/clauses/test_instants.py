"""Instants and periods against pandas."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import IndexColumnError, PlanError
from tessel.expression.periods import (
    instant_text,
    last_moment,
    parse_period,
    units_from_ns,
    zone_of,
)

FORMATS = {
    "Y": "%Y",
    "M": "%Y-%m",
    "D": "%Y-%m-%d",
    "h": "%Y-%m-%dT%H",
    "min": "%Y-%m-%d %H:%M",
}
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"]
moments = st.datetimes(min_value=dt.datetime(1901, 1, 1), max_value=dt.datetime(2200, 1, 1))


@given(moments, st.sampled_from(sorted(FORMATS)))
def test_a_partial_text_is_its_whole_period(moment: dt.datetime, unit: str) -> None:
    expected = pd.Period(moment, freq=unit)
    period = parse_period(moment.strftime(FORMATS[unit]), None)
    assert period.start_ns == expected.start_time.value
    assert period.end_ns == (expected + 1).start_time.value


@given(moments)
def test_text_with_seconds_is_one_instant(moment: dt.datetime) -> None:
    period = parse_period(moment.isoformat(timespec="microseconds"), None)
    assert period.start_ns == pd.Timestamp(moment).value
    assert period.end_ns == period.start_ns + 1


@given(moments, st.sampled_from(ZONES))
def test_text_without_a_zone_takes_that_of_the_index(moment: dt.datetime, zone: str) -> None:
    moment = moment.replace(microsecond=0)
    expected = pd.Timestamp(moment).tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    period = parse_period(moment.isoformat(), zone_of(pa.timestamp("ns", zone)))
    assert period.start_ns == expected.value


@pytest.mark.parametrize("zone", ZONES)
def test_a_day_is_as_long_as_its_zone_makes_it(zone: str) -> None:
    for day in pd.date_range("2018-01-01", "2019-01-01", freq="D"):
        period = parse_period(day.strftime("%Y-%m-%d"), zone_of(pa.timestamp("s", zone)))
        start = day.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
        end = (day + pd.Timedelta("1D")).tz_localize(
            zone, ambiguous=True, nonexistent="shift_forward"
        )
        assert (period.start_ns, period.end_ns) == (start.value, end.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-03-31T10:15:00Z", "2013-03-31T10:15:00"),
        ("2013-03-31T10:15:00+02:00", "2013-03-31T08:15:00"),
        ("2013-03-31T10:15:00-0330", "2013-03-31T13:45:00"),
        ("2013-03-31T10:15+01", "2013-03-31T09:15:00"),
    ],
)
def test_a_zone_in_the_text_wins(text: str, expected: str) -> None:
    period = parse_period(text, zone_of(pa.timestamp("ns", "Asia/Tokyo")))
    assert period.start_ns == pd.Timestamp(expected).value


@pytest.mark.parametrize(
    "text", ["9999", "9999-12", "9999-12-31", "9999-12-31T23:59", "9999-12-31T23:59-05:00"]
)
def test_a_period_may_end_with_the_last_year(text: str) -> None:
    end = np.datetime64("9999-12-31T23:59:59", "s").astype(int) + 1
    later = 5 * 3_600 if text.endswith("-05:00") else 0
    assert parse_period(text, dt.UTC).end_ns == (int(end) + later) * 10**9
    assert last_moment(text) == dt.datetime.max.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "text", ["2013", "2013-12", "2012-02", "2012-02-29", "2013-03-31T23", "2013-03-31T23:59"]
)
def test_the_last_moment_of_a_period_is_that_of_pandas(text: str) -> None:
    last = pd.Period(text).end_time.floor("us")
    assert last_moment(text) == last.tz_localize("UTC").to_pydatetime()


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2013-13", "2013-02-30", "2013-1-1", "2013-01-01T25", "13"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        parse_period(text, None)


def test_text_with_a_zone_against_a_naive_index_is_refused() -> None:
    with pytest.raises(PlanError, match="time zone"):
        parse_period("2013-01-01T00:00:00Z", None)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(IndexColumnError, match="Mars/Olympus"):
        zone_of(pa.timestamp("s", "Mars/Olympus"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("2013", "2013"),
        (dt.date(2013, 3, 1), "2013-03-01"),
        (dt.datetime(2013, 3, 1, 4, 5, 6), "2013-03-01T04:05:06"),
        (dt.datetime(2013, 3, 1, 4, 5, 6, 7), "2013-03-01T04:05:06.000007"),
        (dt.datetime(2013, 3, 1, tzinfo=dt.UTC), "2013-03-01T00:00:00Z"),
        (pd.Timestamp("2013-03-01T00:00:00.000000001"), "2013-03-01T00:00:00.000000001"),
        (np.datetime64("2013-03-01"), "2013-03-01"),
    ],
)
def test_values_become_text(value: object, text: str | None) -> None:
    assert instant_text(value) == text


def test_a_number_is_no_instant() -> None:
    with pytest.raises(PlanError):
        instant_text(2013)


@given(st.integers(-(10**18), 10**18), st.sampled_from(["s", "ms", "us", "ns"]))
def test_units_round_up(ns: int, unit: str) -> None:
    width = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    found = units_from_ns(ns, pa.timestamp(unit))
    assert (found - 1) * width < ns <= found * width

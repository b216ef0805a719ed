"""Time buckets against pandas' resample."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.buckets import bucketer_for, parse_span
from tessel.errors import IndexColumnError, IntegerOverflowError, PlanError

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

"""ewm against pandas, to the bit, and against Polars and the sums that define it."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Ewm, NamedAggregate, QueryBuilder
from tessel.clauses.aggregates import Std, Var, find_aggregate
from tessel.clauses.along_rows.index_spans import fading_of
from tessel.errors import AggregateError, ColumnNotFoundError, IndexColumnError, PlanError
from tests.clauses.helpers import answer, stored

Q = QueryBuilder()
values = st.none() | st.integers(-9, 9).map(float) | st.floats(-1e6, 1e6)
rows_of_keys = st.lists(st.tuples(st.sampled_from("ab"), values), min_size=1, max_size=20)
FADING: dict[str, st.SearchStrategy[float]] = {
    "alpha": st.floats(0.01, 1),
    "span": st.floats(1, 30),
    "halflife": st.floats(0.1, 20),
    "com": st.floats(0, 20),
}


def _no_repeats(series: pd.Series, own: pd.Series) -> list[float | None]:
    """Make a row without a value missing: pandas repeats there what came before."""
    found = series.where(own.notna())
    return [None if math.isnan(v) else v for v in found.to_numpy()]


def _as_pandas_reads(fading: dict[str, float]) -> Any:
    """Return the measure that pandas makes of alpha and half-lives, which it reads as another.

    Its exponential is numpy's, whose last bit depends on the machine.
    """
    if "alpha" in fading:
        return {"com": (1 - fading["alpha"]) / fading["alpha"]}
    if "halflife" in fading:
        return {"com": 1 / (1 - float(np.exp(np.log(0.5) / fading["halflife"]))) - 1}
    return fading


def _mean_of_pandas(
    own: pd.Series, fading: dict[str, float], adjust: bool, ignore: bool, least: int
) -> pd.Series:
    """Return the mean as pandas has it, but for one measure.

    With a com of exactly 1, and unadjusted, it takes rows for irregular times: a value behind a gap
    then weighs what is left, and not alpha. Here it is alpha for that measure as for all others.
    """
    theirs = own.ewm(**fading, adjust=adjust, ignore_na=ignore, min_periods=least)
    if adjust or theirs._com != 1.0:
        return theirs.mean()
    found, mean, weight, present = [], math.nan, 1.0, 0
    for value in own:
        if math.isnan(value):
            weight *= 1.0 if ignore else 0.5
        else:
            weight *= 0.5
            present += 1
            if math.isnan(mean):
                mean = value
            elif mean != value:
                mean = (weight * mean + 0.5 * value) / (weight + 0.5)
            weight = 1.0
        found.append(mean if present >= least else math.nan)
    return pd.Series(found, own.index, dtype="float64")


def test_what_is_behind_a_gap_weighs_alpha_whatever_alpha_is() -> None:
    store = stored({"v": pa.array([1.0, None, 0.0])})
    for alpha in (0.5, 0.5 + 1e-12, 0.5 - 1e-12):
        query = Q.ewm(alpha=alpha, adjust=False).agg(m=("v", "mean"))
        assert answer(store, query).column("m")[2].as_py() == pytest.approx(1 / 3)


@given(FADING["halflife"])
def test_after_a_half_life_half_is_left(halflife: float) -> None:
    """Against the same in fifty digits."""
    with decimal.localcontext(prec=50):
        exact = 1 - (-(decimal.Decimal(2).ln()) / decimal.Decimal(halflife)).exp()
    found, _ = fading_of(None, None, halflife, None)
    assert found is not None
    assert abs(decimal.Decimal(found) / exact - 1) < decimal.Decimal("1e-13")


@settings(max_examples=25)
@given(
    rows=rows_of_keys,
    cut=st.integers(1, 6),
    measure=st.sampled_from(list(FADING)),
    data=st.data(),
    adjust=st.booleans(),
    ignore=st.booleans(),
    least=st.integers(0, 3),
)
def test_it_is_that_of_pandas_to_the_bit(
    rows: list[tuple[str, float | None]],
    cut: int,
    measure: str,
    data: st.DataObject,
    adjust: bool,
    ignore: bool,
    least: int,
) -> None:
    fading: Any = {measure: data.draw(FADING[measure])}
    keyed = data.draw(st.booleans())
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows]),
            "v": pa.array([v for _, v in rows], pa.float64()),
        }
    )
    query = Q.ewm(
        **_as_pandas_reads(fading),
        by=["k"] if keyed else [],
        adjust=adjust,
        ignore_missing=ignore,
        min_periods=least,
    )
    query = query.agg(
        mean=("v", "mean"), var=("v", "var"), std=("v", "std"), plain=("v", Var(ddof=0))
    )
    found = answer(stored(table, rows=cut), query)
    frame = table.to_pandas()
    for _, own in frame.groupby("k") if keyed else [("", frame)]:
        theirs = own["v"].ewm(**fading, adjust=adjust, ignore_na=ignore, min_periods=least)
        for name, series in (
            ("mean", _mean_of_pandas(own["v"], fading, adjust, ignore, least)),
            ("var", theirs.var()),
            ("std", theirs.std()),
            ("plain", theirs.var(bias=True)),
        ):
            ours = found.column(name).take(pa.array(own.index.to_numpy())).to_pylist()
            assert ours == _no_repeats(series, own["v"]), name


@settings(max_examples=20)
@given(rows=rows_of_keys, cut=st.integers(1, 6), adjust=st.booleans(), ignore=st.booleans())
def test_means_are_near_those_of_polars(
    rows: list[tuple[str, float | None]], cut: int, adjust: bool, ignore: bool
) -> None:
    column = pa.array([v for _, v in rows], pa.float64())
    query = Q.ewm(alpha=0.25, adjust=adjust, ignore_missing=ignore).agg(m=("v", "mean"))
    found = answer(stored({"v": column}, rows=cut), query).column("m").to_pylist()
    theirs = pl.Series(column).ewm_mean(alpha=0.25, adjust=adjust, ignore_nulls=ignore).to_list()
    assert [v is None for v in found] == [v is None for v in theirs]
    pairs = [(a, b) for a, b in zip(found, theirs, strict=True) if a is not None]
    np.testing.assert_allclose(*np.array(pairs).reshape(-1, 2).T, rtol=1e-9, atol=1e-9)


steps = st.lists(st.sampled_from([0, 1, 3, 10, 60, 7_200]), min_size=20, max_size=20)


@settings(max_examples=25)
@given(
    rows=rows_of_keys,
    gaps=steps,
    cut=st.integers(1, 6),
    half=st.sampled_from(["1s", "10s", "1min", "2h", "1D", "1500ms"]),
    adjust=st.booleans(),
    least=st.integers(0, 3),
    keyed=st.booleans(),
    start=st.sampled_from([0, -100, 1_600_000_000]),
)
def test_fading_with_time_is_that_of_pandas_to_the_bit(
    rows: list[tuple[str, float | None]],
    gaps: list[int],
    cut: int,
    half: str,
    adjust: bool,
    least: int,
    keyed: bool,
    start: int,
) -> None:
    times = start + np.cumsum(gaps)[: len(rows)]
    table = pa.table(
        {
            "t": pa.array(times * 1000, pa.timestamp("ms")),
            "k": pa.array([k for k, _ in rows]),
            "v": pa.array([v for _, v in rows], pa.float64()),
        }
    )
    query = Q.ewm(halflife=half, by=["k"] if keyed else [], adjust=adjust, min_periods=least)
    store = stored(table, index="t", rows=cut)
    found = answer(store, query.agg(m=("v", "mean"))).column("m")
    frame = table.to_pandas()
    for _, own in frame.groupby("k") if keyed else [("", frame)]:
        theirs = own["v"].ewm(halflife=half, times=own["t"], adjust=adjust, min_periods=least)
        ours = found.take(pa.array(own.index.to_numpy())).to_pylist()
        assert ours == _no_repeats(theirs.mean(), own["v"])


def _weighted(values: np.ndarray, ages: np.ndarray, half: float, ddof: int) -> float:
    """The variance by its definition: weights that halve, corrected for their number."""
    weights = 0.5 ** (ages / half)
    total = weights.sum()
    mean = (weights * values).sum() / total
    biased = (weights * (values - mean) ** 2).sum() / total
    if not ddof:
        return float(biased)
    rest = total * total - (weights * weights).sum()
    return float(biased * total * total / rest) if rest > 0 else math.nan


@pytest.mark.parametrize(("unit", "half"), [("s", 30.0), ("ns", 30.0), ("us", 0.7)])
def test_spreads_that_fade_with_time_are_those_of_their_definition(unit: str, half: float) -> None:
    rng = np.random.default_rng(3)
    seconds = np.cumsum(rng.integers(0, 40, 60))
    scale = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
    values = rng.normal(size=60)
    values[::7] = np.nan
    times = pa.array((1_700_000_000 + seconds) * scale, pa.timestamp(unit))
    query = Q.ewm(halflife=f"{half * 1000:.0f}ms").agg(
        m=("v", "mean"), var=("v", "var"), std=("v", "std"), plain=("v", Var(ddof=0))
    )
    table = pa.table({"t": times, "v": pa.array(values)})
    found = answer(stored(table, index="t", rows=7), query).to_pandas()
    for row in range(60):
        known = np.flatnonzero(~np.isnan(values[: row + 1]))
        ages = (seconds[row] - seconds[known]).astype(float)
        if np.isnan(values[row]):
            assert found.loc[row, ["m", "var", "std", "plain"]].isna().all()
            continue
        sample, plain = (_weighted(values[known], ages, half, ddof) for ddof in (1, 0))
        wanted = [sample, np.sqrt(sample), plain]
        ours = found.loc[row, ["var", "std", "plain"]].to_numpy(float)
        np.testing.assert_allclose(ours, wanted, rtol=1e-8, atol=1e-12)


def test_the_definition() -> None:
    found = answer(stored({"v": [1, None, 4, 2]}, rows=1), Q.ewm(alpha=0.5).agg(m=("v", "mean")))
    weights = [0.125, 0.5, 1.0]
    mean = (1 * weights[0] + 4 * weights[1] + 2 * weights[2]) / sum(weights)
    assert found.column("m").to_pylist() == [1.0, None, (1 * 0.25 + 4) / 1.25, pytest.approx(mean)]
    query = Q.ewm(alpha=0.5, ignore_missing=True).agg(m=("v", "mean"))
    found = answer(stored({"v": [1, None, 4]}, rows=1), query)
    assert found.column("m").to_pylist() == [1.0, None, (1 * 0.5 + 4) / 1.5]


def test_integers_decimals_and_bools_are_floats() -> None:
    table = pa.table(
        {
            "i": pa.array([1, 3], pa.int8()),
            "d": pa.array(["1.5", "2.5"]).cast(pa.decimal128(5, 1)),
            "b": [True, False],
        }
    )
    found = answer(stored(table), Q.ewm(com=0).agg({"i": "mean", "d": "mean", "b": "mean"}))
    assert found.to_pydict() == {"i": [1.0, 3.0], "d": [1.5, 2.5], "b": [1.0, 0.0]}


MEAN = (NamedAggregate("m", "v", find_aggregate("mean")),)


def test_integers_past_those_that_doubles_hold_are_rounded() -> None:
    big = {"i": pa.array([2**63 - 1, -(2**53) - 1]), "u": pa.array([2**64 - 1, 3], pa.uint64())}
    query = Q.ewm(alpha=1.0).agg(i=("i", "mean"), u=("u", "mean"))
    found = answer(stored(pa.table(big), rows=1), query)
    assert found.to_pydict() == {"i": [2.0**63, -(2.0**53)], "u": [2.0**64, 3.0]}


def test_fading_with_time_needs_times() -> None:
    zoned = pa.timestamp("s", "Europe/Berlin")
    cases: list[tuple[pa.DataType, str, type[Exception], str]] = [
        (pa.int64(), "1s", IndexColumnError, "needs an index of dates or timestamps"),
        (zoned, "1D", PlanError, "not all of one length"),
    ]
    for kind, half, error, text in cases:
        table = pa.table({"t": pa.array([1, 2], pa.int64()).cast(kind), "v": [1.0, 2.0]})
        with pytest.raises(error, match=text):
            stored(table, index="t").schema("x", Q.ewm(halflife=half).agg(m=("v", "mean")))
    dates = pa.table({"t": pa.array([0, 2], pa.date32()), "v": [1.0, 2.0]})
    query = Q.ewm(halflife="1D").agg(m=("v", "mean"))
    found = answer(stored(dates, index="t"), query).column("m")
    assert found.to_pylist() == [1.0, (1 * 0.25 + 2) / 1.25]
    assert QueryBuilder.from_json(query.to_json()) == query


def test_misuse_is_refused() -> None:
    store = stored({"v": [1.0], "s": ["a"], "t": pa.array([1], pa.timestamp("s"))})
    agg = {"m": ("v", "mean")}
    cases: list[tuple[Any, Any, str]] = [
        (lambda: Q.ewm().agg(**agg), PlanError, "one of alpha, span, halflife and com, not none"),
        (lambda: Q.ewm(alpha=0.5, span=3).agg(**agg), PlanError, "not ['alpha', 'span']"),
        (lambda: Q.ewm(alpha=0).agg(**agg), PlanError, "alpha is 0"),
        (lambda: Q.ewm(alpha=1.5).agg(**agg), PlanError, "alpha is 1.5"),
        (lambda: Q.ewm(span=0.5).agg(**agg), PlanError, "span is 0.5"),
        (lambda: Q.ewm(halflife=0).agg(**agg), PlanError, "halflife is 0"),
        (lambda: Q.ewm(com=-1).agg(**agg), PlanError, "com is -1"),
        (lambda: Q.ewm(span="20").agg(**agg), PlanError, "span is a number"),
        (lambda: Q.ewm(span=math.inf).agg(**agg), PlanError, "span is a number"),
        (lambda: Q.ewm(halflife="10").agg(**agg), PlanError, "halflife"),
        (lambda: Q.ewm(halflife="1MS").agg(**agg), PlanError, "halflife"),
        (lambda: Q.ewm(halflife="0s").agg(**agg), PlanError, "halflife"),
        (lambda: Q.ewm(halflife="1s", ignore_missing=True).agg(**agg), PlanError, "time passes"),
        (lambda: Q.ewm(halflife="1s").agg(**agg), IndexColumnError, "index"),
        (lambda: Q.then(Ewm(MEAN, None)), PlanError, "alpha is None and halflife None"),
        (lambda: Q.then(Ewm(MEAN, 0.5, halflife="1s")), PlanError, "alpha is 0.5 and halflife"),
        (lambda: Q.then(Ewm(MEAN, None, halflife=3)), PlanError, "a time such as"),  # type: ignore[arg-type]
        (lambda: Q.ewm(span=2, min_periods=1.5).agg(**agg), PlanError, "min_periods"),
        (lambda: Q.ewm(span=2, min_periods=-1).agg(**agg), PlanError, "min_periods"),
        (lambda: Q.ewm(span=2).agg(m=("v", "median")), AggregateError, "ewm has no median(v)"),
        (lambda: Q.ewm(span=2).agg(m=("v", Std(ddof=2))), AggregateError, "ewm has no std"),
        (lambda: Q.ewm(span=2).agg(m=("s", "mean")), AggregateError, "no mean of column 's'"),
        (lambda: Q.ewm(span=2).agg(m=("t", "mean")), AggregateError, "no mean of column 't'"),
        (lambda: Q.ewm(span=2).agg(m=("w", "mean")), ColumnNotFoundError, "'w'"),
        (lambda: Q.then(Ewm((), 0.5)), AggregateError, "needs an aggregate"),
    ]
    for make, error, text in cases:
        with pytest.raises(error) as caught:
            store.read("x", query=make())
        assert text in str(caught.value)


def test_a_half_life_past_all_rows_counts_them_alike() -> None:
    store = stored({"v": [1.0, 2.0, 6.0]})
    for halflife in (1e16, 1e17, 1e300):
        found = answer(store, Q.ewm(halflife=halflife).agg(m=("v", "mean")))
        assert found.column("m").to_pylist() == [1.0, 1.5, 3.0]

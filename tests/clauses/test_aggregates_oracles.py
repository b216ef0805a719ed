"""Aggregates against other people's: ``statistics`` and ``fractions``, numpy, pandas, DuckDB."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import statistics
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tessel.clauses.aggregates import Quantile, Std, Var, aggregate_from_json, find_aggregate
from tessel.clauses.aggregates.quantile import Interpolation
from tessel.errors import AggregateError, IntegerOverflowError
from tests.oracles import duckdb_answer

F64 = pa.float64()
INTERPOLATIONS: list[Interpolation] = ["linear", "lower", "higher", "nearest", "midpoint"]
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def one(name: str, values: Any, kind: pa.DataType | None = None, **parameters: Any) -> Any:
    """The aggregate of one group, as a Python value."""
    column = pa.array(values, kind)
    aggregate = find_aggregate(name, **parameters)
    return aggregate.compute(column, np.zeros(len(column), np.int64), 1, "x")[0].as_py()


# --- var, std -------------------------------------------------------------------------------------


def _or_infinity(figure: Callable[[Iterable[Fraction]], Fraction], values: list[float]) -> float:
    """Return a figure of exact values; infinity where statistics raises."""
    try:
        return float(figure(map(Fraction, values)))
    except OverflowError:
        return math.inf


@given(values=st.lists(FINITE, min_size=2, max_size=8))
@example(values=[1.7976931348623157e308, -7.446288774449767e307])
def test_variances_are_those_of_statistics(values: list[float]) -> None:
    # Fractions keep the module from rounding on the way; it rounds roots of them correctly, once.
    assert one("var", values) == _or_infinity(statistics.variance, values)
    assert one("std", values) == _or_infinity(statistics.stdev, values)
    assert one("std", values, ddof=0) == _or_infinity(statistics.pstdev, values)


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8))
def test_variances_of_big_integers_are_exact(values: list[int]) -> None:
    exact = statistics.variance(map(Fraction, values))
    assert one("var", values, pa.int64()) == float(exact)
    moved = [value + 2**63 for value in values]
    assert one("var", moved, pa.uint64()) == float(exact)


def test_nothing_cancels_far_from_zero() -> None:
    values = [1e15 + offset for offset in (1.0, 2.0, 3.0, 4.0)]
    assert one("var", values) == statistics.variance([1, 2, 3, 4])
    instants = [1_700_000_000_000_000_000 + n for n in (1, 2, 3, 4, 5)]
    assert one("std", instants, pa.timestamp("ns"))._value == 2  # √2.5 to the unit


def test_a_deviation_does_not_overflow_where_its_square_does() -> None:
    assert one("var", [1e300, -1e300]) == math.inf
    assert one("std", [1e300, -1e300]) == statistics.stdev([Fraction(1e300), Fraction(-1e300)])
    assert one("var", [5e-324, 0.0]) == 0.0
    assert one("std", [5e-324, 1.5e-323]) == 5e-324


def test_deviations_of_days_are_durations() -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 3)]
    assert one("std", days, ddof=0) == dt.timedelta(days=1)
    assert one("std", days) == dt.timedelta(seconds=round(math.sqrt(2) * 86_400))
    with pytest.raises(IntegerOverflowError, match="std of column 'x' is"):
        one("std", [-(2**63), 2**63 - 1], pa.timestamp("ns"))


def test_few_values_have_no_spread() -> None:
    assert one("var", [1.0]) is None
    assert one("var", [1.0], ddof=0) == 0.0
    assert one("std", [1.0, math.nan, None]) is None
    assert one("var", [1.0, 2.0, math.inf]) is None
    assert one("sem", [1.0, 3.0]) == 1.0


def test_many_groups_agree_with_pandas_and_duckdb() -> None:
    """Whole numbers of little size, so that the others' rounding on the way does not show."""
    generator = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"k": generator.integers(0, 300, 4_000), "v": generator.integers(-8, 8, 4_000) * 4}
    )
    codes, values = frame["k"].to_numpy(), pa.array(frame["v"].to_numpy())
    sql = "select var_samp(v) as var, stddev_samp(v) as std, k from x group by k order by k"
    theirs = duckdb_answer(sql, x=pa.Table.from_pandas(frame, preserve_index=False))
    for name in ("var", "std"):
        found = find_aggregate(name).compute(values, codes, 300).to_numpy(zero_copy_only=False)
        wanted = frame.groupby("k")["v"].agg(name).to_numpy()
        # The last bits are theirs to lose: ours are proved above, and these only find the way.
        np.testing.assert_array_almost_equal_nulp(found, wanted, 8)
        np.testing.assert_array_almost_equal_nulp(found, theirs.column(name).to_numpy(), 8)


@pytest.mark.parametrize("ddof", [-1, 1.0, True, "1", None])
def test_a_ddof_is_a_whole_number(ddof: Any) -> None:
    with pytest.raises(AggregateError, match="ddof of std is"):
        Std(ddof)
    with pytest.raises(AggregateError, match="ddof of var is"):
        aggregate_from_json({"name": "var", "ddof": ddof})
    assert Var(2).to_json() == {"name": "var", "ddof": 2}


# --- quantile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@given(values=st.lists(st.integers(-100, 100), min_size=1, max_size=20), q=st.integers(0, 4))
def test_quarters_are_those_of_numpy_and_pandas(
    interpolation: Interpolation, values: list[int], q: int
) -> None:
    """Quarters of small integers are computed without rounding by everyone."""
    found = one("quantile", values, q=q / 4, interpolation=interpolation)
    assert found == np.quantile(values, q / 4, method=interpolation)
    assert found == pd.Series(values).quantile(q / 4, interpolation=interpolation)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@given(
    values=st.lists(FINITE.map(lambda value: value + 0.0), min_size=1, max_size=9),
    hundredth=st.integers(0, 100),
)
def test_quantiles_lie_at_the_place_that_is_written(
    interpolation: Interpolation, values: list[float], hundredth: int
) -> None:
    place = Fraction(hundredth, 100) * (len(values) - 1)
    ordered = sorted(values)
    low, high = Fraction(ordered[math.floor(place)]), Fraction(ordered[math.ceil(place)])
    wanted = {
        "linear": low + (place - math.floor(place)) * (high - low),
        "midpoint": (low + high) / 2,
        "lower": low,
        "higher": high,
        "nearest": Fraction(ordered[round(place)]),
    }[interpolation]
    assert one("quantile", values, q=hundredth / 100, interpolation=interpolation) == float(wanted)


@given(values=st.lists(st.none() | st.floats(), max_size=9))
def test_half_way_is_the_median(values: list[float | None]) -> None:
    assert repr(one("quantile", values, F64, q=0.5)) == repr(one("median", values, F64))


@given(values=st.lists(st.text(max_size=3), min_size=1, max_size=9), q=st.sampled_from([0.0, 0.3]))
def test_text_has_quantiles_without_mixing(values: list[str], q: float) -> None:
    place = math.floor(Fraction(repr(q)) * (len(values) - 1))
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        column = pa.array(values, pa.string()).cast(kind)
        found = Quantile(q, "lower").compute(column, np.zeros(len(values), np.int64), 1)
        assert found.type == Quantile(q, "lower").result_type(kind)
        assert found[0].as_py() == sorted(values)[place]


def test_quantiles_of_instants_and_decimals() -> None:
    instants = pa.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_011], pa.int64())
    assert one("quantile", instants.cast(pa.timestamp("ns")), q=0.25)._value % 100 == 4
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 11)]
    assert one("quantile", days, pa.date64(), q=0.3) == dt.date(2024, 1, 4)
    prices = [decimal.Decimal("1.10"), decimal.Decimal("1.20")]
    assert one("quantile", prices, q=0.1) == 1.11
    assert one("quantile", prices, q=0.1, interpolation="higher") == decimal.Decimal("1.20")


def test_infinite_values_beside_a_quantile() -> None:
    assert one("quantile", [1.0, math.inf], q=0.1) == math.inf
    assert one("quantile", [1.0, math.inf], q=0) == 1.0
    assert one("quantile", [-math.inf, 1.0], q=0.9) == -math.inf
    assert one("quantile", [-math.inf, math.inf], q=0.9) is None
    assert repr(one("quantile", [-0.0, 1.0], q=0, interpolation="lower")) == "0.0"


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan, True, "0.5", None])
def test_a_quantile_is_a_share(q: Any) -> None:
    with pytest.raises(AggregateError, match="the q of a quantile is"):
        Quantile(q)
    with pytest.raises(AggregateError):
        aggregate_from_json({"name": "quantile", "q": q})


def test_unknown_interpolations_are_refused() -> None:
    with pytest.raises(AggregateError, match="interpolation of a quantile is 'cubic'"):
        Quantile(0.5, "cubic")  # type: ignore[arg-type]
    with pytest.raises(AggregateError, match="takes interpolation, q, not q, way"):
        find_aggregate("quantile", q=0.5, way="lower")
    assert find_aggregate("quantile", q=1) == Quantile(1.0)


# --- any, all -------------------------------------------------------------------------------------


@given(values=st.lists(st.none() | st.booleans(), max_size=5))
def test_any_and_all_are_those_of_duckdb(values: list[bool | None]) -> None:
    table = pa.table({"v": pa.array(values, pa.bool_())})
    wanted = duckdb_answer("select bool_or(v) as any, bool_and(v) as all from x", x=table)
    assert one("any", values, pa.bool_()) == wanted.column("any")[0].as_py()
    assert one("all", values, pa.bool_()) == wanted.column("all")[0].as_py()

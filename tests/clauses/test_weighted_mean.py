"""weighted_mean against fractions, whole and from partials, and in queries against DuckDB."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates import WeightedMean, find_aggregate
from tessel.errors import AggregateError, IntegerOverflowError
from tests.clauses.helpers import answer, stored
from tests.clauses.test_aggregates import partials, same
from tests.oracles import duckdb_answer

GROUPS = 3
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXACT = decimal.Context(prec=60)
NUMBERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.float64(): FINITE,
    pa.decimal128(38, 4): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda unscaled: EXACT.scaleb(decimal.Decimal(unscaled), -4)
    ),
}


def of_pairs(values: pa.Array, weights: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([values, weights], ["value", "weight"])


def expected(rows: list[tuple[Any, Any]]) -> float | None:
    present = [(Fraction(v), Fraction(w)) for v, w in rows if v is not None and w is not None]
    total = sum(w for _, w in present)
    if not total:
        return None
    exact = sum(v * w for v, w in present) / total
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@pytest.mark.parametrize("weights", NUMBERS, ids=str)
@pytest.mark.parametrize("values", NUMBERS, ids=str)
@settings(max_examples=settings.default.max_examples // 10)
@given(data=st.data())
def test_weighted_means_are_exact(
    values: pa.DataType, weights: pa.DataType, data: st.DataObject
) -> None:
    pairs = st.tuples(st.none() | NUMBERS[values], st.none() | NUMBERS[weights])
    rows = data.draw(st.lists(st.tuples(pairs, st.integers(0, GROUPS - 1)), max_size=9))
    codes = np.array([code for _, code in rows], np.int64)
    column = of_pairs(
        pa.array([pair[0] for pair, _ in rows], values),
        pa.array([pair[1] for pair, _ in rows], weights),
    )
    wanted = [expected([pair for pair, code in rows if code == g]) for g in range(GROUPS)]
    mean = WeightedMean()
    whole = mean.compute(column, codes, GROUPS, "x")
    assert whole.type == mean.result_type(column.type) == pa.float64()
    merged = mean.finish(partials(mean, column, codes, GROUPS, data), column.type, "x")
    assert same(whole.to_pylist(), wanted)
    assert same(merged.to_pylist(), wanted)


def one(values: pa.Array, weights: Any) -> Any:
    column = of_pairs(values, pa.array(weights))
    return WeightedMean().compute(column, np.zeros(len(column), np.int64), 1, "x")[0].as_py()


def test_instants_and_days_keep_their_type() -> None:
    instants = pa.array([1_700_000_000_000_000_000, 1_700_000_000_000_000_010], pa.timestamp("ns"))
    assert one(instants, [1, 3]).value == 1_700_000_000_000_000_008  # 7.5, half to even
    days = pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 5)])
    assert one(days, [1, 3]) == dt.date(2024, 1, 4)
    assert one(days.cast(pa.date64()), [0.5, 1.5]) == dt.date(2024, 1, 4)
    with pytest.raises(IntegerOverflowError, match="weighted_mean of column 'x' is"):
        one(pa.array([0, 2**62], pa.duration("s")), [-2, 3])


def test_infinities() -> None:
    values = pa.array([math.inf, 1.0])
    assert one(values, [1.0, 1.0]) == math.inf
    assert one(values, [1.0, -2.0]) == -math.inf
    assert one(values, [0.0, 1.0]) is None  # infinite times zero
    assert one(pa.array([1.0, 2.0]), [math.inf, 1.0]) is None
    assert one(pa.array([math.inf, -math.inf]), [1.0, 1.0]) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(30, 2)], ids=str)
def test_infinite_values_with_weights_of_many_digits(kind: pa.DataType) -> None:
    weights = pa.array([-(1 << 60), 1], pa.int64()).cast(kind)
    for value in (math.inf, -math.inf):
        pairs = of_pairs(pa.array([value, 1.0]), weights)
        found = WeightedMean().compute(pairs, np.zeros(2, np.int64), 1)
        assert found.to_pylist() == [value]
    assert one(pa.array([math.inf, 1.0]), [1.0, -1.0]) is None  # the weights are nothing


def test_nan_is_missing_in_either_column() -> None:
    assert one(pa.array([math.nan, 2.0, 4.0]), [1.0, 1.0, 1.0]) == 3.0
    assert one(pa.array([1.0, 2.0, 4.0]), [math.nan, 1.0, 1.0]) == 3.0
    assert one(pa.array([1.0, 2.0]), [1.0, -1.0]) is None
    assert one(pa.array([], pa.float64()), pa.array([], pa.int8())) is None


def test_other_types_are_refused() -> None:
    def kind(value: pa.DataType, weight: pa.DataType) -> pa.DataType:
        return pa.struct([("value", value), ("weight", weight)])

    with pytest.raises(AggregateError, match="no weighted_mean of column 'x' of type string"):
        WeightedMean().result_type(kind(pa.string(), pa.int8()), "x")
    for weight in (pa.string(), pa.timestamp("s"), pa.duration("s"), pa.list_(pa.int8())):
        with pytest.raises(AggregateError, match="weights of weighted_mean are of type"):
            WeightedMean().result_type(kind(pa.float64(), weight), "x")


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.none() | st.integers(-50, 50).map(lambda n: n / 4),
            st.none() | st.integers(0, 8),
        ),
        min_size=1,
        max_size=30,
    ),
    cut=st.integers(1, 7),
)
@settings(max_examples=20)
def test_groups_are_those_of_duckdb(rows: list[tuple[Any, ...]], cut: int) -> None:
    kinds = {"k": pa.string(), "p": pa.float64(), "q": pa.int64()}
    table = pa.table(
        {name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds.items())}
    )
    query = QueryBuilder().groupby("k").agg(v=("p", "vwap", "q"), m="weighted_mean(p, q)")
    found = answer(stored(table, rows=cut), query)
    # Quarters times whole numbers add up exactly, so that theirs are rounded once as well.
    sql = """select k, sum(p * q) / nullif(sum(q) filter (p is not null), 0) as v
             from x where k is not null group by k order by k"""
    assert found.column("v").to_pylist() == duckdb_answer(sql, x=table).column("v").to_pylist()
    assert found.column("m").equals(found.column("v"))


def test_zero_has_no_sign_where_weights_are_negative() -> None:
    table = pa.table({"k": [1, 2, 2], "p": [0.0, 3.0, -3.0], "q": [-1.0, -2.0, -2.0]})
    by_key = QueryBuilder().groupby("k").agg(m=("p", "weighted_mean", "q"))
    found = answer(stored(table, rows=1), by_key).column("m")
    assert [math.copysign(1.0, each) for each in found.to_pylist()] == [1.0, 1.0]


def test_vwap_is_another_name() -> None:
    assert find_aggregate("vwap") == find_aggregate("weighted_mean") == WeightedMean()
    assert WeightedMean().to_json() == "weighted_mean"

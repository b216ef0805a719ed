"""The worked examples of clauses of one's own: they pass the suite, and give what they say."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.volume_bars import VolumeBars
from examples.z_score import ZScore
from tessel.clauses import QueryBuilder
from tessel.errors import ExpressionTypeError, IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.spark_exec import SparkExecutor
from tessel.testing.conformance import check_clause, on_executor
from tests.clauses.helpers import answer, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)


def _trades(prices: list[float | None], volumes: list[int | None]) -> pa.Table:
    times = [START + dt.timedelta(seconds=n) for n in range(len(prices))]
    return pa.table(
        {
            "at": pa.array(times, pa.timestamp("ns")),
            "price": pa.array(prices, pa.float64()),
            "qty": pa.array(volumes, pa.int64()),
        }
    )


TRADES = _trades(
    [10.0, None, 10.5, 9.0, 11.0, float("nan"), 10.0, 10.25, 8.0, 10.75, 500.0, 10.0],
    [5, 7, None, 3, 20, 4, 1, 0, 6, 2, 3, 9],
)


def test_they_pass_the_suite() -> None:
    check_clause(lambda: ZScore("price", 2.0), TRADES, index="at")
    check_clause(lambda: ZScore("qty", 1.0), TRADES.drop_columns(["at"]))
    check_clause(lambda: VolumeBars("price", "qty", 10), TRADES, index="at")
    check_clause(lambda: VolumeBars("qty", "qty", 1), TRADES, index="at")


@pytest.mark.spark
def test_they_pass_it_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    for make in (lambda: ZScore("price", 2.0), lambda: VolumeBars("price", "qty", 10)):
        run = on_executor(SparkExecutor(spark), tmp_path)
        check_clause(make, TRADES, index="at", executors=[run])


NUMBERS = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf")])


@settings(max_examples=40)
@given(values=st.lists(NUMBERS, max_size=20), rows=st.integers(1, 5))
def test_z_score_keeps_what_pandas_would(values: list[float | None], rows: int) -> None:
    store = stored(pa.table({"v": pa.array(values, pa.float64())}), rows=rows)
    found = answer(store, Q.z_score("v", 1.5)).column("v").to_pylist()
    series = pd.Series(values, dtype=float)
    finite = series[np.isfinite(series)]
    distance = (finite - finite.mean()).abs() - 1.5 * finite.std(ddof=0)
    # A value at the very bound may fall to either side: pandas rounds its sums.
    sure = finite[distance <= -1e-6 * (1 + finite.abs().max())]
    possible = finite[distance <= 1e-6 * (1 + finite.abs().max())]
    assert set(sure) <= set(found) <= set(possible)


def _bars(table: pa.Table, size: int) -> list[dict[str, Any]]:
    """Return the bars of a plain walk over all rows."""
    bars: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    for row in table.to_pylist():
        if row["price"] is None or row["price"] != row["price"] or row["qty"] is None:
            continue
        held.append(row)
        if sum(each["qty"] for each in held) >= size:
            bars.append(_bar(held))
            held = []
    return bars + ([_bar(held)] if held else [])


def _bar(rows: list[dict[str, Any]]) -> dict[str, Any]:
    prices = [row["price"] for row in rows]
    return {
        "at": rows[-1]["at"],
        "open": prices[0],
        "high": max(prices),
        "low": min(prices),
        "close": prices[-1],
        "volume": sum(row["qty"] for row in rows),
    }


@settings(max_examples=40)
@given(data=st.data(), rows=st.integers(1, 5), size=st.integers(1, 30))
def test_volume_bars_are_those_of_a_plain_walk(data: st.DataObject, rows: int, size: int) -> None:
    count = data.draw(st.integers(0, 20))
    prices = st.none() | st.sampled_from([1.0, 2.5, -3.0, float("nan")])
    volumes = st.none() | st.integers(0, 12)
    table = _trades(
        data.draw(st.lists(prices, min_size=count, max_size=count)),
        data.draw(st.lists(volumes, min_size=count, max_size=count)),
    )
    store = stored(table, index="at", rows=rows)
    found = answer(store, Q.volume_bars("price", "qty", size))
    assert found.to_pylist() == _bars(table, size)


def test_bars_go_on_into_time_buckets() -> None:
    store = stored(TRADES, index="at", rows=2)
    found = answer(store, Q.volume_bars("price", "qty", 10).resample("5s").agg(n="size"))
    bars = _bars(TRADES, 10)
    wanted = pd.Series(1, index=pd.DatetimeIndex([bar["at"] for bar in bars])).resample("5s").sum()
    assert found.column("n").to_pylist() == [n for n in wanted.tolist() if n]


def test_they_refuse_what_they_cannot_take() -> None:
    schema = TableSchema(pa.schema([("t", pa.timestamp("us")), ("c", pa.string())]), "t")
    with pytest.raises(ExpressionTypeError, match="numbers, and 'c' is string"):
        ZScore("c").output_schema(schema)
    with pytest.raises(PlanError, match="above 0"):
        ZScore("c", 0.0)
    with pytest.raises(PlanError, match="'c' is string"):
        VolumeBars("c", "c", 5).output_schema(schema)
    with pytest.raises(IndexColumnError):
        VolumeBars("c", "c", 5).output_schema(TableSchema(schema.arrow))
    with pytest.raises(PlanError, match="1 or more"):
        VolumeBars("c", "c", 0)

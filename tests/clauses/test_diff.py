"""diff against pandas, Polars and plain subtraction."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ExpressionTypeError, IntegerOverflowError
from tests.clauses.helpers import answer, stored
from tests.oracles import polars_frame, same_rows

Q = QueryBuilder()
numbers = st.none() | st.integers(-(2**20), 2**20)
floats = st.none() | st.floats(width=64, allow_infinity=False)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), numbers, floats), max_size=20),
    n=st.integers(-3, 3),
    cut=st.integers(1, 6),
    keyed=st.booleans(),
)
def test_it_is_that_of_pandas_and_polars(
    rows: list[tuple[Any, ...]], n: int, cut: int, keyed: bool
) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _, _ in rows], pa.string()),
            "i": pa.array([i for _, i, _ in rows], pa.int32()),
            "f": pa.array([f for _, _, f in rows], pa.float64()),
        }
    )
    by = ["k"] if keyed else []
    found = answer(stored(table, rows=cut), Q.diff(["i", "f"], n, by=by)).select(["i", "f"])
    assert found.schema.types == [pa.int64(), pa.float64()]
    frame = table.to_pandas()
    before = frame.groupby("k")[["i", "f"]].shift(n) if keyed else frame[["i", "f"]].shift(n)
    wanted = pa.Table.from_pandas(frame[["i", "f"]] - before, preserve_index=False)
    assert same_rows(found, wanted.cast(found.schema))
    columns = [pl.col("i").cast(pl.Int64), pl.col("f")]
    shifted = [
        column - (column.shift(n).over("k") if keyed else column.shift(n)) for column in columns
    ]
    assert same_rows(found, polars_frame(table).select(shifted).to_arrow())


def test_instants_durations_and_decimals() -> None:
    day = dt.datetime(2024, 3, 10)
    table = pa.table(
        {
            "t": pa.array([day, None, day + dt.timedelta(hours=1)], pa.timestamp("ms")),
            "d": pa.array([dt.date(2024, 1, 1), dt.date(2024, 3, 1), None]),
            "s": pa.array([1, 5, 3], pa.duration("us")),
            "p": pa.array([Decimal("1.10"), Decimal("2.25"), Decimal("0.05")], pa.decimal128(5, 2)),
        }
    )
    found = answer(
        stored(table, rows=1), Q.diff({"u": "t"}, 2).diff({"e": "d", "r": "s", "q": "p"})
    )
    assert found.column("u").to_pylist() == [None, None, dt.timedelta(hours=1)]
    assert found.column("e").to_pylist() == [None, dt.timedelta(days=60), None]
    assert found.column("r").cast(pa.int64()).to_pylist() == [None, 4, -2]
    assert found.column("q").to_pylist() == [None, Decimal("1.15"), Decimal("-2.20")]


def test_unsigned_and_wide_integers() -> None:
    table = pa.table(
        {"u": pa.array([5, 3], pa.uint8()), "w": pa.array([-(2**63), 2**62], pa.int64())}
    )
    store = stored(table, rows=1)
    assert answer(store, Q.diff("u")).column("u").to_pylist() == [None, -2]
    with pytest.raises(IntegerOverflowError):
        store.read("x", query=Q.diff("w"))
    # pandas wraps: 2**62 + 2**63 comes out below zero.
    assert pd.Series([-(2**63), 2**62]).diff().iloc[1] != 2**62


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.list_(pa.int8())], ids=str)
def test_types_without_a_difference_are_refused(kind: pa.DataType) -> None:
    store = stored({"v": pa.nulls(2, kind)})
    with pytest.raises(ExpressionTypeError, match="v") as caught:
        store.schema("x", Q.diff("v"))
    assert caught.value.context["column"] == "v"

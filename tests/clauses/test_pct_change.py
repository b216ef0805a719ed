"""pct_change against pandas and Polars."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ExpressionTypeError
from tests.clauses.helpers import answer, stored
from tests.oracles import polars_frame, same_rows

Q = QueryBuilder()
values = st.none() | st.integers(-4, 4).map(float) | st.floats(1e-3, 1e6)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), values), max_size=20),
    n=st.integers(-3, 3),
    cut=st.integers(1, 6),
    keyed=st.booleans(),
)
def test_it_is_that_of_pandas_and_polars(
    rows: list[tuple[Any, ...]], n: int, cut: int, keyed: bool
) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "f": pa.array([f for _, f in rows], pa.float64()),
        }
    )
    by = ["k"] if keyed else []
    found = answer(stored(table, rows=cut), Q.pct_change("f", n, by=by)).select(["f"])
    frame = table.to_pandas()
    before = frame.groupby("k")["f"].shift(n) if keyed else frame["f"].shift(n)
    wanted = pa.table({"f": pa.array((frame["f"] / before - 1).tolist(), pa.float64())})
    assert same_rows(found, wanted)
    column = pl.col("f")
    changed = column / (column.shift(n).over("k") if keyed else column.shift(n)) - 1
    assert same_rows(found, polars_frame(table).select(changed).to_arrow())


def test_from_zero_and_of_integers() -> None:
    table = pa.table({"v": pa.array([0, 5, 0, 0, -5, None], pa.int16())})
    found = answer(stored(table), Q.pct_change({"c": "v"})).column("c")
    assert found.type == pa.float64()
    plain = [None if v is None or math.isnan(v) else v for v in found.to_pylist()]
    assert plain == [None, math.inf, -1.0, None, -math.inf, None]


def test_types_without_a_quotient_are_refused() -> None:
    store = stored({"t": pa.array([1, 2], pa.timestamp("s"))})
    with pytest.raises(ExpressionTypeError):
        store.schema("x", Q.pct_change("t"))

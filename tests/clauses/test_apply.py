"""apply and with_columns against Polars, and columns that are replaced where they stand."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ColumnNotFoundError, ExpressionTypeError, PlanError
from tessel.expression import col, when
from tests.clauses.helpers import answer, stored
from tests.oracles import nan_as_null, polars_frame, same_rows

CASES = {
    "sum of integers": (col("a") + col("b"), pl.col("a") + pl.col("b")),
    "quotient": (col("a") / col("b"), (pl.col("a") / pl.col("b")).cast(pl.Float64)),
    "product": (col("f") * 0.5, pl.col("f") * 0.5),
    "comparison": (col("a") > col("f"), pl.col("a") > pl.col("f")),
    "choice": (
        when(col("a") > 0).then(col("a")).otherwise(col("b")),
        pl.when(pl.col("a") > 0).then(pl.col("a")).otherwise(pl.col("b")),
    ),
}
numbers = st.lists(
    st.tuples(
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(-3, 3),
        st.none() | st.floats(-5, 5) | st.sampled_from([float("nan"), float("inf")]),
    ),
    max_size=20,
)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=15)
@given(rows=numbers, cut=st.integers(1, 6))
def test_values_are_those_of_polars(case: str, rows: list[tuple[object, ...]], cut: int) -> None:
    ours, theirs = CASES[case]
    kinds = {"a": pa.int64(), "b": pa.int64(), "f": pa.float64()}
    table = pa.table(
        {n: pa.array([r[i] for r in rows], k) for i, (n, k) in enumerate(kinds.items())}
    )
    found = answer(stored(table, rows=cut), QueryBuilder().apply("new", ours))
    # 0/0 is NaN in Polars and missing here, so its answer is adapted too.
    expected = polars_frame(nan_as_null(table)).with_columns(new=theirs).to_arrow()
    assert same_rows(found, nan_as_null(expected))


@pytest.mark.parametrize("name", ["a", "b", "t", "new"])
@pytest.mark.parametrize("columns", [1, 2, 9])
def test_a_column_is_replaced_where_it_stands(name: str, columns: int) -> None:
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "t": pa.array([1, 2, 3], pa.timestamp("s"))})
    store = stored(table, index="t", columns=columns)
    query = QueryBuilder().apply(name, col("b") + 1)
    found = store.read("x", query=query)
    names = table.column_names if name in table.column_names else [*table.column_names, name]
    assert found.column_names == names
    assert found.to_arrow().column(name).to_pylist() == [5, 6, 7]
    assert found.index == (None if name == "t" else "t")
    # A projection to other columns after it must not disturb the order either.
    kept = answer(store, query.filter(col(name) > 5).drop("b"))
    assert kept.column_names == [n for n in names if n != "b"]


def test_with_columns_sees_the_earlier_ones() -> None:
    store = stored({"a": [1, 2]})
    found = answer(store, QueryBuilder().with_columns(b="a + 1", c="b * 2", d=7, e=True))
    assert found.to_pylist() == [
        {"a": 1, "b": 2, "c": 4, "d": 7, "e": True},
        {"a": 2, "b": 3, "c": 6, "d": 7, "e": True},
    ]


def test_misuse_is_refused_before_anything_is_read() -> None:
    store = stored({"price": [1, 2], "name": ["a", "b"]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.schema("x", QueryBuilder().apply("c", "prise + 1"))
    with pytest.raises(ExpressionTypeError):
        store.schema("x", QueryBuilder().apply("c", "price + name"))
    for name in ("", 3):
        with pytest.raises(PlanError, match="needs a name"):
            QueryBuilder().apply(name, "price")  # type: ignore[arg-type]

"""cum_sum against sums of fractions, and against Polars and DuckDB where those are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import AggregateError, IntegerOverflowError
from tests.clauses.cumulatives import check_cumulative
from tests.clauses.helpers import answer, stored
from tests.oracles import duckdb_answer, polars_frame, rows_numbered, same_rows

Q = QueryBuilder()
finite = st.floats(-1e300, 1e300) | st.sampled_from([0.1, 0.2, 1e16, -1e16, 1e-300, float("nan")])


def _float_sum(past: list[Any], value: Any) -> Any:
    return None if value is None else float(sum(map(Fraction, past)))


@settings(max_examples=25)
@given(data=st.data())
def test_floats_are_exact_sums_rounded_once(data: st.DataObject) -> None:
    values = st.lists(st.none() | finite, max_size=20).map(lambda v: pa.array(v, pa.float64()))
    check_cumulative(data, "cum_sum", pa.float64(), _float_sum, values=values)


@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.int8(), pa.uint32(), pa.duration("us"), pa.decimal128(9, 2), pa.null()],
    ids=str,
)
@settings(max_examples=10)
@given(data=st.data())
def test_exact_types(kind: pa.DataType, data: st.DataObject) -> None:
    check_cumulative(
        data, "cum_sum", kind, lambda past, value: None if value is None else sum(past)
    )


@settings(max_examples=20)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.none() | st.integers(-(2**40), 2**40)), max_size=20
    ),
    cut=st.integers(1, 6),
)
def test_it_is_that_of_polars_and_duckdb(rows: list[tuple[str, int | None]], cut: int) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.int64()),
        }
    )
    found = answer(stored(table, rows=cut), Q.cum_sum("v", by="k")).select(["v"])
    added = polars_frame(table).select(pl.col("v").cum_sum().over("k"))
    assert same_rows(found, added.to_arrow())
    sql = "select cast(case when v is null then null else sum(v) over "
    sql += "(partition by k order by row rows unbounded preceding) end as bigint) as v "
    assert same_rows(found, duckdb_answer(sql + "from x order by row", x=rows_numbered(table)))


def test_sums_do_not_drift() -> None:
    values = [1e16, 1.0, -1e16, 0.1, float("inf"), 1.0, float("-inf"), 2.0]
    found = answer(stored({"v": values}, rows=3), Q.cum_sum("v")).column("v").to_pylist()
    assert found == [1e16, 1e16, 1.0, 1.1, float("inf"), float("inf"), None, None]
    assert polars_frame(pa.table({"v": values})).select(pl.col("v").cum_sum())["v"][2] == 0.0


def test_a_sum_that_leaves_its_type_raises_unless_no_row_asks_for_it() -> None:
    store = stored({"v": pa.array([2**62, 2**62, None, -1], pa.int64())}, rows=1)
    with pytest.raises(IntegerOverflowError, match="column 'v' is 9223372036854775808"):
        store.read("x", query=Q.cum_sum("v"))
    store = stored({"v": pa.array([2**62, 2**62 - 1, -5], pa.int64())}, rows=1)
    found = answer(store, Q.cum_sum("v")).column("v").to_pylist()
    assert found == [2**62, 2**63 - 1, 2**63 - 6]


def test_types_without_a_sum_are_refused() -> None:
    store = stored({"t": pa.array([1], pa.timestamp("s")), "s": ["x"]})
    for column in ("t", "s"):
        with pytest.raises(AggregateError, match=f"no sum of column '{column}'"):
            store.schema("x", Q.cum_sum(column))

"""cum_max against Python's own, for every type that has an order, and against Polars."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import AggregateError
from tessel.testing.oracles import nan_as_null, polars_frame, same_rows
from tessel.testing.tables import PLAIN_TYPES
from tests.clauses.cumulatives import check_cumulative
from tests.clauses.helpers import answer, stored

Q = QueryBuilder()
KINDS = (*PLAIN_TYPES, pa.dictionary(pa.int32(), pa.string()))


@settings(max_examples=30)
@given(data=st.data())
def test_every_type(data: st.DataObject) -> None:
    def expected(past: list[Any], value: Any) -> Any:
        return None if value is None else max(past)

    check_cumulative(data, "cum_max", data.draw(st.sampled_from(KINDS)), expected)


@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.floats()), max_size=20),
    cut=st.integers(1, 6),
)
def test_it_is_that_of_polars(rows: list[tuple[str, float | None]], cut: int) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.float64()),
        }
    )
    found = answer(stored(table, rows=cut), Q.cum_max("v", by="k")).select(["v"])
    frame = polars_frame(nan_as_null(table)).select(pl.col("v").cum_max().over("k"))
    assert same_rows(found, frame.to_arrow())


def test_types_without_an_order_are_refused() -> None:
    store = stored({"l": pa.array([[1], [2]])})
    with pytest.raises(AggregateError, match="no max of column 'l'"):
        store.schema("x", Q.cum_max("l"))

"""cum_min against Python's own, for every type that has an order, and against Polars."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import AggregateError
from tests.clauses.cumulatives import EXTREME_ROWS, check_extreme, check_extreme_with_polars
from tests.clauses.helpers import stored

Q = QueryBuilder()


@settings(max_examples=30)
@given(data=st.data())
def test_every_type(data: st.DataObject) -> None:
    check_extreme(data, "cum_min", min)


@settings(max_examples=20)
@given(rows=EXTREME_ROWS, cut=st.integers(1, 6))
def test_it_is_that_of_polars(rows: list[tuple[str, float | None]], cut: int) -> None:
    check_extreme_with_polars(rows, cut, "cum_min")


def test_types_without_an_order_are_refused() -> None:
    store = stored({"l": pa.array([[1], [2]])})
    with pytest.raises(AggregateError, match="no min of column 'l'"):
        store.schema("x", Q.cum_min("l"))

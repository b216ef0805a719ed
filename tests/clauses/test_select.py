"""select: these columns, in this order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, PlanError
from tests.clauses.helpers import answer, stored
from tests.oracles import same_rows
from tests.strategies.queries import query_tables


@settings(max_examples=25)
@given(table=query_tables(), data=st.data(), columns=st.integers(1, 9))
def test_columns_are_those_of_arrow(table: pa.Table, data: st.DataObject, columns: int) -> None:
    names = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    store = stored(table, rows=4, columns=columns)
    assert same_rows(answer(store, QueryBuilder().select(names)), table.select(names))
    assert same_rows(answer(store, QueryBuilder().select(*names)), table.select(names))


def test_the_index_falls_away_with_its_column() -> None:
    store = stored({"t": pa.array([1, 2], pa.timestamp("s")), "a": [1, 2]}, index="t")
    assert store.schema("x", QueryBuilder().select("a", "t")).index == "t"
    assert store.schema("x", QueryBuilder().select("a")).index is None


def test_misuse_is_refused() -> None:
    store = stored({"price": [1]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=QueryBuilder().select("Price"))
    with pytest.raises(DuplicateColumnError, match="names 'price' twice"):
        QueryBuilder().select("price", "price")
    with pytest.raises(PlanError, match="at least one column"):
        QueryBuilder().select()
    with pytest.raises(PlanError, match="named by text"):
        QueryBuilder().select(3)  # type: ignore[arg-type]

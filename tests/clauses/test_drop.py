"""drop: all columns but these."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ColumnNotFoundError, PlanError
from tests.clauses.helpers import answer, stored
from tests.oracles import same_rows
from tests.strategies.queries import query_tables


@settings(max_examples=25)
@given(table=query_tables(), data=st.data(), columns=st.integers(1, 9))
def test_columns_are_those_of_arrow(table: pa.Table, data: st.DataObject, columns: int) -> None:
    names = data.draw(st.lists(st.sampled_from(table.column_names[1:]), unique=True))
    found = answer(stored(table, rows=4, columns=columns), QueryBuilder().drop(names))
    assert same_rows(found, table.drop_columns(names))


def test_misuse_is_refused() -> None:
    store = stored({"price": [1], "qty": [1]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'qty'"):
        store.read("x", query=QueryBuilder().drop("qtty"))
    with pytest.raises(PlanError, match="drop leaves no column"):
        store.read("x", query=QueryBuilder().drop("price", "qty"))

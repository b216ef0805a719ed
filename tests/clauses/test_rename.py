"""rename: other names, all given at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder, Rename
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, PlanError
from tests.clauses.helpers import answer, stored
from tests.oracles import same_rows
from tests.strategies.queries import query_tables


@settings(max_examples=25)
@given(table=query_tables(), data=st.data())
def test_any_columns_may_trade_names(table: pa.Table, data: st.DataObject) -> None:
    names = table.column_names
    mapping = dict(zip(names, data.draw(st.permutations(names)), strict=True))
    found = answer(stored(table, rows=4), QueryBuilder().rename(mapping))
    assert same_rows(found, table.rename_columns([mapping[name] for name in names]))


def test_the_index_keeps_its_role_under_its_new_name() -> None:
    store = stored({"t": pa.array([1, 2], pa.timestamp("s")), "a": [1, 2]}, index="t")
    query = QueryBuilder().rename({"t": "a", "a": "t"})
    assert store.schema("x", query).index == "a"
    kept = answer(store, query.date_range("1970-01-01T00:00:02"))
    assert kept.column("t").to_pylist() == [2]


def test_misuse_is_refused() -> None:
    store = stored({"price": [1], "qty": [1]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'qty'"):
        store.read("x", query=QueryBuilder().rename({"qtty": "q"}))
    with pytest.raises(DuplicateColumnError, match="'qty'"):
        store.read("x", query=QueryBuilder().rename({"price": "qty"}))
    for names in ({"price": 1}, {"price": ""}):
        with pytest.raises(PlanError, match="is no column name"):
            QueryBuilder().rename(names)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="takes a mapping"):
        QueryBuilder().rename("price")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="two new names"):
        Rename((("a", "b"), ("a", "c")))

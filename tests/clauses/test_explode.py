"""explode: against Polars, pandas and DuckDB, for lists of any kind, any cut."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    ExecutionError,
    PlanError,
    UnsupportedTypeError,
)
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import duckdb_answer, polars_frame, rows_numbered
from tests.strategies.tables import bits, columns, cut_into_segments

Q = QueryBuilder()
ITEMS = (pa.int64(), pa.string(), pa.float64(), pa.list_(pa.int8()), pa.struct([("f", pa.int8())]))


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    item = draw(st.sampled_from(ITEMS))
    kinds = [pa.list_(item), pa.list_(item, draw(st.integers(1, 3)))]
    rows = draw(st.integers(0, 12))
    lists = draw(columns(draw(st.sampled_from(kinds)), rows))
    table = pa.table({"a": list(range(rows)), "l": lists, "s": [f"r{n}" for n in range(rows)]})
    return table.cast(pa.schema([("a", pa.int64()), table.schema.field("l"), ("s", pa.string())]))


@settings(max_examples=60)
@given(data=st.data(), keep_empty=st.booleans())
def test_items_are_those_of_the_lists(data: st.DataObject, keep_empty: bool) -> None:
    table = data.draw(_tables())
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    query = Q.explode("l", keep_empty=keep_empty)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    lists = bits(table.column("l"))
    expected = [
        (row, item)
        for row, items in enumerate(lists)
        for item in (items or ([None] if keep_empty else []))
    ]
    assert found.column("a").to_pylist() == [row for row, _ in expected]
    assert found.column("s").to_pylist() == [f"r{row}" for row, _ in expected]
    assert bits(found.column("l")) == [item for _, item in expected]
    assert found.schema.field("l").type == table.schema.field("l").type.value_type


@settings(max_examples=25)
@given(
    lists=st.lists(
        st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=3), min_size=1, max_size=9
    )
)
def test_peers_agree(lists: list[Any]) -> None:
    table = rows_numbered(pa.table({"l": pa.array(lists, pa.list_(pa.int64()))}))
    store = stored(table, rows=3)
    whole = answer(store, Q.explode("l"), SETTINGS[:2])
    frame = polars_frame(table)
    kept = frame.explode("l", empty_as_null=True, keep_nulls=True)
    assert kept.to_arrow().to_pydict() == whole.to_pydict()
    pandas = table.to_pandas().explode("l")
    assert pandas["row"].tolist() == whole.column("row").to_pylist()
    full = answer(store, Q.explode("l", keep_empty=False), SETTINGS[:2])
    dropped = frame.explode("l", empty_as_null=False, keep_nulls=False)
    assert dropped.to_arrow().to_pydict() == full.to_pydict()
    theirs = duckdb_answer("select unnest(l) as l, row from x order by row", x=table)
    assert theirs.column("row").to_pylist() == full.column("row").to_pylist()
    assert sorted(map(repr, theirs.to_pylist())) == sorted(map(repr, full.to_pylist()))


def test_several_lists_go_side_by_side_and_the_index_stays() -> None:
    table = pa.table(
        {
            "t": pa.array([1, 2, 3], pa.timestamp("s")),
            "p": [[1.5, 2.5], [], None],
            "q": pa.array([["x", None], None, []], pa.list_(pa.string())),
        }
    )
    store = stored(table, index="t")
    query = Q.explode("p", "q")
    assert answer(store, query).to_pydict()["p"] == [1.5, 2.5, None, None]
    assert answer(store, query).to_pydict()["q"] == ["x", None, None, None]
    assert store.schema("x", query).index == "t"
    crossed = answer(store, Q.explode("p").explode("q")).to_pydict()
    pairs = list(itertools.product([1.5, 2.5], ["x", None]))
    assert list(zip(crossed["p"], crossed["q"], strict=True))[:4] == pairs
    assert answer(store, query.resample("2s").agg(n="size")).column("n").to_pylist() == [2, 2]
    lengths = stored({"p": [[1]], "q": [[1, 2]]})
    with pytest.raises(ExecutionError, match="1 items in 'p' and 2 in 'q'"):
        lengths.read("x", query=query)


def test_misuse_is_refused() -> None:
    store = stored({"price": [1.0], "l": [[1]]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=Q.explode("Price"))
    with pytest.raises(UnsupportedTypeError, match="'price' of type double has no items"):
        store.read("x", query=Q.explode("price"))
    with pytest.raises(DuplicateColumnError, match="names 'l' twice"):
        Q.explode("l", "l")
    with pytest.raises(PlanError, match="needs a list column"):
        Q.explode()

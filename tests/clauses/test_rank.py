"""rank against pandas, Polars and DuckDB, and for every type that has an order."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import PlanError, UnsupportedTypeError
from tessel.testing.oracles import duckdb_answer, polars_frame, rows_numbered, same_rows
from tessel.testing.tables import PLAIN_TYPES, columns, cut_into_segments
from tests.clauses.cumulatives import python_values
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored

Q = QueryBuilder()
METHODS = ("average", "min", "max", "dense", "ordinal")


def _rank(method: str, value: Any, place: int, own: list[tuple[Any, int]], down: bool) -> float:
    """Rank by counting: how many values are better, and how many are equal."""
    better = [v for v, _ in own if (v > value if down else v < value)]
    equal = [p for v, p in own if v == value]
    if method == "dense":
        return len(set(better)) + 1
    if method == "ordinal":
        return len(better) + sum(p <= place for p in equal)
    low, high = len(better) + 1, len(better) + len(equal)
    return {"min": low, "max": high, "average": (low + high) / 2}[method]


@settings(max_examples=30)
@given(data=st.data())
def test_every_type(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*PLAIN_TYPES, pa.dictionary(pa.int32(), pa.string())]))
    rows = data.draw(st.integers(0, 15))
    column = data.draw(columns(kind, rows))
    keys = data.draw(st.lists(st.sampled_from(["a", None]), min_size=rows, max_size=rows))
    table = pa.table({"k": pa.array(keys, pa.string()), "v": column})
    method, down = data.draw(st.sampled_from(METHODS)), data.draw(st.booleans())
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    query = Q.rank({"r": "v"}, method, by="k", descending=down)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS))]).column("r")
    assert found.type == (pa.float64() if method == "average" else pa.int64())
    values = python_values(column)
    wanted = [
        None
        if value is None
        else _rank(
            method,
            value,
            row,
            [(v, r) for r, v in enumerate(values) if keys[r] == keys[row] and v is not None],
            down,
        )
        for row, value in enumerate(values)
    ]
    assert found.to_pylist() == wanted


@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 3)), max_size=20),
    cut=st.integers(1, 6),
    down=st.booleans(),
)
def test_it_is_that_of_pandas_polars_and_duckdb(
    rows: list[tuple[str, int | None]], cut: int, down: bool
) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.int64()),
        }
    )
    store = stored(table, rows=cut)
    grouped = pd.DataFrame(
        {"k": table["k"].to_pylist(), "v": pd.array(table["v"].to_pylist(), "Float64")}
    ).groupby("k")["v"]
    for method in METHODS:
        query = Q.rank({"r": "v"}, method, by="k", descending=down)  # type: ignore[arg-type]
        found = answer(store, query, SETTINGS[:1]).select(["r"])
        theirs = polars_frame(table).select(
            r=pl.col("v").rank(method, descending=down).over("k")  # type: ignore[arg-type]
        )
        assert same_rows(found, theirs.to_arrow().cast(found.schema))
        named: Any = "first" if method == "ordinal" else method
        ranked = [None if pd.isna(r) else float(r) for r in grouped.rank(named, ascending=not down)]
        assert [None if r is None else float(r) for r in found.column("r").to_pylist()] == ranked
    found = answer(store, Q.rank({"r": "v"}, "min", by="k", descending=down)).select(["r"])
    direction = "desc" if down else "asc"
    sql = f"""
        select case when v is null then null
                    else rank() over (partition by k order by v {direction} nulls last) end as r
        from x order by row
    """
    assert same_rows(found, duckdb_answer(sql, x=rows_numbered(table)))


def test_misuse_is_refused() -> None:
    store = stored({"v": [1, 2], "l": pa.array([[1], [2]])})
    with pytest.raises(PlanError, match="method is 'first'"):
        Q.rank("v", "first")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTypeError, match=r"'l' of type list.* have no order"):
        store.schema("x", Q.rank("l"))

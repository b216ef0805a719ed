"""rank against pandas, Polars and DuckDB, and for every type that has an order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import PlanError, UnsupportedTypeError
from tessel.options import options
from tests.clauses.cumulatives import python_values
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored
from tests.oracles import duckdb_answer, polars_frame, rows_numbered, same_rows
from tests.strategies.tables import PLAIN_TYPES, bits, columns, cut_into_segments

Q = QueryBuilder()
METHODS = ("average", "min", "max", "dense", "ordinal")


def _rank(
    method: str, value: Any, place: int, own: list[tuple[Any, int]], down: bool, pct: bool
) -> float:
    """Rank by counting: how many values are better, and how many are equal."""
    if pct:
        among = len({v for v, _ in own}) if method == "dense" else len(own)
        return _rank(method, value, place, own, down, False) / among
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
    pct = data.draw(st.booleans())
    query = Q.rank({"r": "v"}, method, by="k", descending=down, pct=pct)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS))]).column("r")
    assert found.type == (pa.float64() if pct or method == "average" else pa.int64())
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
            pct,
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


@pytest.mark.parametrize("method", METHODS)
def test_parts_are_those_of_pandas(method: str) -> None:
    table = pa.table({"k": list("aabbab"), "v": [3.0, None, 1.0, 1.0, 3.0, 2.0]})
    store = stored(table)
    named: Any = "first" if method == "ordinal" else method
    for keyed in (False, True):
        query = Q.rank({"r": "v"}, method, by="k" if keyed else [], pct=True)  # type: ignore[arg-type]
        frame = table.to_pandas()
        values = frame.groupby("k")["v"] if keyed else frame["v"]
        wanted = values.rank(method=named, pct=True).tolist()
        found = answer(store, query).column("r").to_pylist()
        assert found == [None if pd.isna(each) else each for each in wanted]


@pytest.fixture(scope="module")
def many() -> pa.Table:
    """Distinct values, few values, one value alone, and text, by few keys and by many."""
    random = np.random.default_rng(11)
    few = random.integers(0, 9, ROWS)
    return pa.table(
        {
            "k": few,
            "v": pa.array(random.random(ROWS), mask=random.random(ROWS) < 0.1),
            "one": np.zeros(ROWS),
            "s": pa.array([f"value {n}" for n in random.integers(0, 4000, ROWS)]),
            "key": random.integers(0, 5000, ROWS),
        }
    )


ROWS = 30_000


BOUNDED = [
    ("average", False, []),
    ("max", True, ["k"]),
    ("dense", True, ["key"]),
    ("ordinal", False, ["k"]),
    ("min", True, ["key", "k"]),
]
ALL = [(method, pct, by) for method in METHODS for pct in (False, True) for by in ([], ["key"])]


@pytest.mark.parametrize(
    ("method", "pct", "by"),
    [*BOUNDED, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL)],
)
def test_it_stays_in_the_budget_whatever_is_equal(
    many: pa.Table, method: Any, pct: bool, by: list[str]
) -> None:
    store = stored(many, rows=1000, columns=9)
    columns = {"rv": "v", "rone": "one", "v": "s"}
    budget = 170_000
    assert many.nbytes > 8 * budget
    query = Q.rank(columns, method, by=by, pct=pct, descending=method == "min")
    whole = store.read("x", query=query).to_arrow()
    with (
        options(workers=1, live_bytes=budget),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        found = pa.Table.from_batches(store.scan("x").then(*query.clauses).iter_batches())
    assert found.schema == whole.schema
    for name in whole.column_names:
        assert bits(found.column(name)) == bits(whole.column(name)), name
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert alive[-1].attributes["bytes"] == 0
    assert sum(event.attributes["bytes"] for event in written) > budget
    frame = many.to_pandas()
    values = frame.groupby(by)["v"] if by else frame["v"]
    named: Any = "first" if method == "ordinal" else method
    theirs = values.rank(method=named, pct=pct, ascending=method != "min")
    ours = found.column("rv").to_pandas().astype(float)
    pd.testing.assert_series_equal(ours, theirs, check_names=False, check_exact=True)


def test_misuse_is_refused() -> None:
    store = stored({"v": [1, 2], "l": pa.array([[1], [2]])})
    with pytest.raises(PlanError, match="method is 'first'"):
        Q.rank("v", "first")  # type: ignore[arg-type]
    for wrong in ({"descending": 1}, {"pct": "yes"}):
        with pytest.raises(PlanError, match=f"{next(iter(wrong))} is true or false"):
            Q.rank("v", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTypeError, match=r"'l' of type list.* have no order"):
        store.schema("x", Q.rank("l"))

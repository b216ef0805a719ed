"""sort: against Polars, pandas, DuckDB and brute force; within the byte budget; any cut."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.ordering import Ordering
from tessel.clauses.spill import Workspace
from tessel.clauses.spill import sorting as sorting_module
from tessel.clauses.spill.sorting import ExternalSort
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    PlanError,
    UnsupportedTypeError,
)
from tessel.expression import col
from tessel.options import Options, options
from tessel.testing.oracles import (
    duckdb_answer,
    nan_as_null,
    one_zero,
    plain_dictionaries,
    polars_frame,
    rows_numbered,
)
from tessel.testing.queries import query_tables
from tessel.testing.tables import bits, columns, cut_into_segments, tables
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored
from tests.clauses.orders import order_of_rows

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)


def _same_bits(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.remove_metadata() == expected.schema.remove_metadata()
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name


def _ordered(table: pa.Table, by: list[str], descending: Any, missing: str) -> pa.Table:
    return table.take(pa.array(order_of_rows(table, by, descending, missing), pa.int64()))


@st.composite
def _sorts(draw: st.DrawFn, names: list[str]) -> tuple[list[str], list[bool], Any]:
    by = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return by, [draw(st.booleans()) for _ in by], draw(st.sampled_from(["last", "first"]))


@settings(max_examples=60)
@given(data=st.data())
def test_any_cut_is_ordered_as_by_comparison(data: st.DataObject) -> None:
    table = data.draw(query_tables())
    index = "t" if "t" in table.column_names else None
    by, descending, missing = data.draw(_sorts(table.column_names))
    store = fresh_store()
    data.draw(cut_into_segments(table, index=index)).write(store, "x")
    query = Q.sort(by, descending=descending, missing=missing)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    _same_bits(found, _ordered(table, by, descending, missing))
    kept = index if by[0] == index and not descending[0] else None
    assert store.schema("x", query).index == kept
    k = data.draw(st.integers(0, 9))
    few = answer(
        store,
        Q.top_k(k, by, descending=descending, missing=missing),
        [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))],
    )
    _same_bits(few, found.slice(0, k))
    _same_bits(answer(store, query.head(k), [SETTINGS[1]]), found.slice(0, k))


@settings(max_examples=40)
@given(data=st.data())
def test_peers_agree(data: st.DataObject) -> None:
    table = data.draw(query_tables(index=False))
    by, descending, missing = data.draw(_sorts(table.column_names))
    found = answer(
        stored(rows_numbered(table), rows=5),
        Q.sort(by, descending=descending, missing=missing).select("row"),
        [SETTINGS[0]],
    )
    rows = found.column("row").to_pylist()
    adapted = rows_numbered(plain_dictionaries(one_zero(nan_as_null(table))))
    frame = polars_frame(adapted).sort(
        by, descending=descending, nulls_last=missing == "last", maintain_order=True
    )
    assert frame["row"].to_list() == rows
    terms = ", ".join(
        f'"{name}" {"desc" if down else "asc"} nulls {missing}'
        for name, down in zip(by, descending, strict=True)
    )
    theirs = duckdb_answer(f"select row from x order by {terms}, row", x=adapted)
    assert theirs.column("row").to_pylist() == rows
    numeric = [n for n in by if n in ("i", "f", "g")]
    if len(by) == 1 and numeric:  # pandas puts missing values apart by one key only, and so do we
        pandas = adapted.to_pandas().sort_values(
            by, ascending=not descending[0], kind="stable", na_position=missing
        )
        assert pandas["row"].tolist() == rows


def test_polars_counts_nan_as_a_value_unless_it_is_adapted() -> None:
    table = pa.table({"f": [float("nan"), 1.0, None]})
    assert polars_frame(table).sort("f", nulls_last=True)["f"].to_list()[0] == 1.0
    assert polars_frame(table).sort("f", descending=True, nulls_last=True)["f"].is_nan()[0]
    found = answer(stored(table), Q.sort("f", descending=True))
    assert found.column("f").to_pylist()[0] == 1.0


# --- time indexes ---------------------------------------------------------------------------------


def _timed(steps: list[int], **columns: list[Any]) -> pa.Table:
    times = np.cumsum(steps)
    return pa.table({"t": pa.array(times, pa.timestamp("s")), **columns})


def test_what_follows_a_sort_by_time_and_more_sees_the_index() -> None:
    table = _timed([0, 0, 1, 0, 60, 0], v=[3, 1, 2, 9, 5, 4])
    store = stored(table, index="t", rows=2)
    query = Q.sort("t", "v", descending=[False, True])
    assert answer(store, query).column("v").to_pylist() == [3, 1, 9, 2, 5, 4]
    assert store.schema("x", query).index == "t"
    ohlc = answer(store, query.resample("1min").agg(o=("v", "first"), c=("v", "last")))
    assert ohlc.to_pydict() == {
        "t": [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 1)],
        "o": [3, 5],
        "c": [2, 4],
    }
    late = answer(store, query.date_range("1970-01-01T00:01"))
    assert late.column("v").to_pylist() == [5, 4]
    assert store.schema("x", Q.sort("t", descending=True)).index is None


def test_a_sort_by_the_index_reads_no_more_than_is_wanted() -> None:
    store = stored(_timed([1] * 20, v=list(range(20))), index="t", rows=2)
    with options(workers=1), events("segment.read") as read:
        found = store.read("x", query=Q.sort("t").head(3)).to_arrow()
    assert found.column("v").to_pylist() == [0, 1, 2]
    assert len(read) == 2


def test_a_sort_by_time_and_more_holds_one_time_only() -> None:
    rows = 30_000
    table = _timed([n % 3 == 0 for n in range(rows)], v=[n * 7919 % 1009 for n in range(rows)])
    store = stored(table, index="t", rows=1000, columns=9)
    with options(workers=1, live_bytes=300_000), events("spill.write") as written:
        found = store.read("x", query=Q.sort("t", "v")).to_arrow()
    assert written == []
    _same_bits(found, _ordered(table, ["t", "v"], [False, False], "last"))


def test_one_time_of_all_rows_is_put_aside() -> None:
    table = _timed([0] * 4000, v=[n * 7919 % 1009 for n in range(4000)])
    store = stored(table, index="t", rows=500, columns=9)
    with options(workers=1, live_bytes=10_000), events("spill.write") as written:
        found = store.read("x", query=Q.sort("t", "v")).to_arrow()
    assert written
    _same_bits(found, _ordered(table, ["t", "v"], [False, False], "last"))


# --- keys that are expressions --------------------------------------------------------------------


def test_keys_may_be_expressions_and_leave_no_column() -> None:
    store = stored({"a": [3, -1, 2, None], "b": ["x", "y", "z", "w"]})
    found = answer(store, Q.sort(abs(col("a")), "b", descending=[True, False]))
    assert found.column_names == ["a", "b"]
    assert found.column("b").to_pylist() == ["x", "z", "y", "w"]
    assert answer(store, Q.sort(col("b"))).column("b").to_pylist() == ["w", "x", "y", "z"]
    assert answer(store, Q.top_k(1, -col("a"))).column("a").to_pylist() == [-1]
    frame = pl.DataFrame({"a": [3, -1, 2, None], "b": ["x", "y", "z", "w"]})
    theirs = frame.sort(pl.col("a").abs(), "b", descending=[True, False], nulls_last=True)
    assert theirs["b"].to_list() == found.column("b").to_pylist()


# --- more than may be held ------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_runs_are_merged_as_one_table_is_ordered(data: st.DataObject) -> None:
    parts = [data.draw(tables(max_rows=12, max_columns=1))]
    name = parts[0].column_names[0]
    kind = parts[0].schema.field(0).type
    if pa.types.is_nested(kind):
        return
    for _ in range(data.draw(st.integers(0, 6))):
        rows = data.draw(st.integers(0, 12))
        parts.append(pa.table({name: data.draw(columns(kind, rows))}))
    ordering = Ordering(
        (name,), (data.draw(st.booleans()),), data.draw(st.sampled_from(["last", "first"]))
    )
    numbered = rows_numbered(pa.concat_tables(parts))
    live_bytes = data.draw(st.sampled_from([0, 300, 1500, 1 << 20]))
    cuts = np.cumsum([0, *(part.num_rows for part in parts)])
    with (
        pytest.MonkeyPatch.context() as patch,
        Workspace(Options(live_bytes=live_bytes)) as workspace,
    ):
        patch.setattr(sorting_module, "_LEAST_BLOCK_BYTES", 40)
        with ExternalSort(ordering, numbered.schema, workspace) as rows:
            for start, stop in itertools.pairwise(cuts):
                rows.add(numbered.slice(start, stop - start))
            found = pa.concat_tables([numbered.schema.empty_table(), *rows.sorted()])
        assert workspace.account.alive == 0
    expected = order_of_rows(numbered, [name], ordering.descending, ordering.missing)
    assert found.column("row").to_pylist() == expected
    _same_bits(found, numbered.take(pa.array(expected, pa.int64())))


def test_tables_that_are_in_order_are_runs_as_they_are() -> None:
    random = np.random.default_rng(4)
    parts = [pa.table({"v": np.sort(random.integers(0, 9, 400)), "n": [k] * 400}) for k in range(6)]
    ordering = Ordering(("v",), (False,))
    with (
        pytest.MonkeyPatch.context() as patch,
        Workspace(Options(live_bytes=30_000)) as workspace,
        ExternalSort(ordering, parts[0].schema, workspace) as rows,
        events("spill.write") as written,
    ):
        patch.setattr(ExternalSort, "_in_order", None)  # nothing is put in order before the merge
        rows._block_bytes, rows._fan_in = 2_000, 7
        for part in parts:
            rows.add(part)
        found = pa.concat_tables(rows.sorted())
    assert sum(event.attributes["rows"] for event in written) == 2400
    whole = pa.concat_tables(parts)
    _same_bits(found, whole.take(pa.array(order_of_rows(whole, ["v"], [False], "last"))))


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_times_the_budget_is_sorted_within_it(workers: int) -> None:
    random = np.random.default_rng(1)
    rows = 60_000
    table = pa.table(
        {
            "a": random.integers(-(10**12), 10**12, rows),
            "f": random.random(rows),
            "s": [f"text {n}" for n in random.integers(0, 1000, rows)],
        }
    )
    store = stored(table, rows=1000, columns=9)
    budget = table.nbytes // 10
    expected = table.take(pa.array(np.lexsort([table["a"].to_numpy()])))
    with (
        options(workers=workers, live_bytes=budget, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        plan = store.scan("x").then(*Q.sort("a").clauses)
        found = pa.concat_tables(pa.Table.from_batches([b]) for b in plan.iter_batches())
    _same_bits(found, expected)
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert sum(event.attributes["bytes"] for event in written) > 5 * budget


# --- misuse ---------------------------------------------------------------------------------------


def test_misuse_is_refused() -> None:
    store = stored({"price": [1.0], "l": [[1]]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=Q.sort("Price"))
    with pytest.raises(UnsupportedTypeError, match=r"'l' of type list.* has no order"):
        store.read("x", query=Q.sort("l"))
    with pytest.raises(UnsupportedTypeError, match="has no order"):
        store.read("x", query=Q.top_k(1, "l"))
    with pytest.raises(DuplicateColumnError, match="names 'price' twice"):
        Q.sort("price", "price")
    with pytest.raises(PlanError, match="needs a column"):
        Q.sort([])
    with pytest.raises(PlanError, match="2 directions for 1 columns"):
        Q.sort("price", descending=[True, False])
    with pytest.raises(PlanError, match="descending is true or false"):
        Q.sort("price", descending="down")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="missing is 'middle'"):
        Q.sort("price", missing="middle")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="columns or expressions"):
        Q.sort(3)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at least no rows"):
        Q.top_k(-1, "price")
    with pytest.raises(PlanError, match="whole number"):
        Q.top_k(1.5, "price")  # type: ignore[arg-type]


def test_pandas_is_not_asked_for_more_than_it_promises() -> None:
    # pandas counts False before True and puts missing apart, as we do.
    frame = pd.DataFrame({"b": pd.array([True, None, False], dtype="boolean")})
    assert frame.sort_values("b", kind="stable").index.tolist() == [2, 0, 1]
    found = answer(stored({"b": [True, None, False]}), Q.sort("b"))
    assert found.column("b").to_pylist() == [False, True, None]

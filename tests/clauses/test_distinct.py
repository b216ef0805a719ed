"""distinct: against Polars, pandas and DuckDB; any cut; within the byte budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.capabilities import Filters, opens_filter
from tessel.clauses.combining import SubQuery
from tessel.clauses.units.bound_unit import bound_unit
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    PlanError,
    UnsupportedTypeError,
)
from tessel.options import options
from tessel.pipeline.plan import SourcePlan
from tessel.pipeline.planner.planner import plan_query
from tessel.pipeline.stage import run_bound
from tessel.store.manifest.bindings import Bindings
from tests.clauses.helpers import SETTINGS, Latest, answer, events, fresh_store, stored
from tests.oracles import (
    duckdb_answer,
    nan_as_null,
    one_zero,
    plain_dictionaries,
    polars_frame,
    rows_numbered,
)
from tests.strategies.queries import query_tables
from tests.strategies.tables import bits, cut_into_segments

Q = QueryBuilder()
KEEPS = ("first", "last", "none")


def _adapted(table: pa.Table) -> pa.Table:
    return rows_numbered(plain_dictionaries(one_zero(nan_as_null(table))))


@settings(max_examples=50)
@given(data=st.data(), keep=st.sampled_from(KEEPS))
def test_rows_are_those_of_polars_and_pandas(data: st.DataObject, keep: Any) -> None:
    table = data.draw(query_tables())
    index = "t" if "t" in table.column_names else None
    names = data.draw(
        st.lists(st.sampled_from(table.column_names), min_size=1, max_size=3, unique=True)
    )
    store = fresh_store()
    data.draw(cut_into_segments(table, index=index)).write(store, "x")
    query = Q.distinct(names, keep=keep)
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    frame = polars_frame(_adapted(table))
    rows = frame.unique(subset=names, keep=keep, maintain_order=True)["row"].to_list()
    if keep == "last":
        rows.sort()  # Polars gives them in the order in which their keys first appear
    expected = table.take(pa.array(rows, pa.int64()))
    assert found.schema.remove_metadata() == expected.schema.remove_metadata()
    for name in table.column_names:
        assert bits(found.column(name)) == bits(expected.column(name))
    assert store.schema("x", query).index == index
    plain = [n for n in names if table.schema.field(n).type in (pa.int64(), pa.string())]
    if plain == names:
        pandas = _adapted(table).to_pandas()
        kept = pandas.drop_duplicates(names, keep=False if keep == "none" else keep)
        assert kept["row"].tolist() == rows


@settings(max_examples=20)
@given(table=query_tables(index=False))
def test_distinct_of_all_columns_is_that_of_duckdb(table: pa.Table) -> None:
    found = answer(stored(table, rows=5), Q.distinct(), SETTINGS[:2])
    adapted = _adapted(table)
    names = ", ".join(f'"{name}"' for name in table.column_names)
    theirs = duckdb_answer(f"select min(row) as row from x group by {names} order by 1", x=adapted)
    rows = theirs.column("row").to_pylist()
    expected = table.take(pa.array(rows, pa.int64()))
    for name in table.column_names:
        assert bits(found.column(name)) == bits(expected.column(name))


def test_what_follows_sees_rows_in_order_and_the_index() -> None:
    table = pa.table({"t": pa.array(range(12), pa.timestamp("s")), "v": [n % 5 for n in range(12)]})
    store = stored(table, index="t", rows=2)
    query = Q.distinct("v", keep="last")
    assert answer(store, query).column("v").to_pylist() == [2, 3, 4, 0, 1]
    assert answer(store, query.head(2)).column("v").to_pylist() == [2, 3]
    assert answer(store, query.resample("4s").agg(n="size")).column("n").to_pylist() == [1, 4]
    twice = Q.distinct("v").sort("t").distinct(keep="none")
    assert answer(store, twice).num_rows == 5


@pytest.mark.parametrize("keep", KEEPS)
def test_more_than_the_budget_is_put_aside(keep: Any) -> None:
    rows = 40_000
    values = [n * 7919 % 30_011 for n in range(rows)]
    store = stored({"v": values, "w": values}, rows=500, columns=9)
    expected = store.read("x", query=Q.distinct("v", keep=keep)).to_arrow()
    with (
        options(workers=2, live_bytes=100_000, hash_bucket_bytes=4_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        found = store.read("x", query=Q.distinct("v", keep=keep)).to_arrow()
    assert found.equals(expected)
    assert max(event.attributes["bytes"] for event in alive) <= 100_000
    assert sum(event.attributes["bytes"] for event in written) > 300_000


def test_misuse_is_refused() -> None:
    store = stored({"price": [1.0], "l": [[1]]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=Q.distinct("Price"))
    with pytest.raises(UnsupportedTypeError, match="'l' of type list"):
        store.read("x", query=Q.distinct())
    with pytest.raises(DuplicateColumnError, match="names 'price' twice"):
        Q.distinct("price", "price")
    with pytest.raises(PlanError, match="keep is 'any'"):
        Q.distinct(keep="any")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="no columns"):
        Q.distinct([])


@settings(max_examples=25)
@given(data=st.data())
def test_units_in_any_order_keep_the_first_row_of_each_key(data: st.DataObject) -> None:
    """What units tell each other depends on which comes first; the answer does not."""
    rows = data.draw(st.integers(8, 60))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    table = pa.table(
        {
            "s": pa.array([f"text {n}" for n in random.integers(0, 5, rows)]),
            "k": random.integers(-1, 2, rows),
            "b": random.random(rows) < 0.5,
            "v": np.arange(rows),
        }
    )
    names = data.draw(
        st.lists(st.sampled_from(["s", "k", "b"]), min_size=1, max_size=3, unique=True)
    )
    query = Q.filter("v % 3 > 0") if data.draw(st.booleans()) else Q
    first: dict[Any, int] = {}
    for row in table.to_pylist():
        if query is Q or row["v"] % 3:
            first.setdefault(tuple(row[name] for name in names), row["v"])
    with options(segment_rows=data.draw(st.integers(4, 30)), segment_columns=20):
        store = fresh_store()
        store.write("x", table)
        plan = plan_query(Latest(store), SubQuery("x", None, query.distinct(names).clauses))
        (source,) = plan.inputs
        assert isinstance(source, SourcePlan)
        stage, segments = plan.stages[0], source.view.source()
        (clause,) = filter(opens_filter, stage.clauses)
        assert isinstance(clause, Filters)
        dynamic = clause.open_filter()
        kept: list[int] = []
        for ordinal in data.draw(st.permutations(range(len(source.units)))):
            pieces = [source.index.source(position) for position in source.units[ordinal]]
            bound = bound_unit(pieces, segments, Bindings(source.index.schema), ordinal)
            unit = run_bound(stage, bound, dynamic)
            kept += unit.table.column("v").to_pylist()
        assert set(first.values()) <= set(kept)
        found = answer(store, query.distinct(names))
    assert found.column("v").to_pylist() == sorted(first.values())


def test_later_units_keep_no_row_of_a_key_that_is_known() -> None:
    rows = np.arange(900)
    table = pa.table({"s": [f"text {row % 7}" for row in rows], "k": rows // 400, "v": rows})
    store = stored(table, rows=100, columns=20)
    with events("clause.choose") as seen:
        found = answer(store, Q.distinct("s", "k"), SETTINGS[:1])
    assert found.column("v").to_pylist() == [*range(7), *range(400, 407), *range(800, 807)]
    assert [each.attributes["rows_out"] for each in seen] == [7, 0, 0, 0, 7, 0, 0, 0, 7]

"""What clauses bind to units that are not read: the answer, or error, is that of reading first."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.clauses import Clause, QueryBuilder
from tessel.clauses.units.bound_unit import bound_unit, is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import ExecutionError, IntegerOverflowError, TesselError
from tessel.expression import col
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.store.manifest.bindings import Bindings
from tessel.store.manifest.selected_range import SelectedRange
from tests.clauses.bound_chains import (
    BindsBoth,
    FiltersBy,
    OneColumn,
    TakesMask,
    TakesTable,
    chain_tables,
    drawn_chain,
    drawn_store,
    outcome,
    outcome_read_first,
    read_again,
)
from tests.clauses.helpers import SETTINGS, events, fresh_store
from tests.clauses.test_late_materialization import _pages_touched, _tiny_pages
from tests.profiles import cases

Q = QueryBuilder()


@cases(20, 60)
@given(data=st.data())
def test_chains_of_what_binds(data: st.DataObject) -> None:
    table = data.draw(chain_tables())
    store = drawn_store(data.draw, table)
    try:
        query = drawn_chain(data.draw, store.view("x").schema)
    except TesselError:
        return  # no such query
    note(repr(query))
    with read_again() as again:
        found = [outcome(store, query, SETTINGS[at]) for at in (0, 2)]
    wanted = outcome_read_first(store, query)
    assert found[0] == wanted
    assert found[1] == wanted
    # What raises is run again on whole units: an answer that took that hides a fault.
    assert isinstance(wanted, tuple) or not again


def test_a_filter_and_a_column_of_one_clause_are_both_replayed() -> None:
    store = fresh_store()
    store.write("x", _shop(), index="t")
    query = Q.apply("y", col("n") + 1).then(BindsBoth("z", abs(col("n")), col("n") % 3 == 0))
    with read_again() as again:
        found = outcome(store, query, SETTINGS[0])
    assert found == outcome_read_first(store, query)
    assert not again


# --- errors ---------------------------------------------------------------------------------------


def _shop(rows: int = 64) -> pa.Table:
    n = np.arange(rows)
    large = n.copy()
    large[17] = 1 << 62
    return pa.table(
        {
            "t": pa.array(n * 10**9).cast(pa.timestamp("ns")),
            "n": n[::-1].copy(),
            "g": n % 3,
            "large": large,
            "small": pa.array([-128, *[1] * (rows - 1)], pa.int8()),
            "s": [f"name {i // 16}" for i in n],
            "x": n / 4,
        }
    )


_RAISING = {
    "computed": BindsBoth("z", col("large") * 4, col("n") >= 0),
    "filter": FiltersBy(col("large") * 4 > 4),
    "cast": BindsBoth("z", col("large").cast("int16"), col("n") >= 0),
}


@pytest.mark.parametrize(
    "rest",
    [
        Q.groupby("g").agg(c=("n", "sum")),
        Q.filter("n < 3").groupby("g").agg(c=("n", "sum")),
        Q.resample("8s").agg(c=("n", "sum")),
        Q.filter("n < 3").resample("8s").agg(c=("n", "median")),
        Q.top_k(1, by="n"),
        Q.top_k(1, by="n", descending=True),
        Q.filter("n > 60").top_k(1, by="x"),
        Q.sort("n").tail(1),
        Q.distinct("g"),
        Q.filter("n < 3"),
        Q.then(TakesMask(col("n") < 3)),
        Q.then(TakesMask(col("n") < 3)).groupby("g").agg(c=("n", "sum")),
        Q.then(TakesTable("rows")).select("n"),
        Q.then(OneColumn("n")),
        Q.then(TakesMask(col("n") < 3), OneColumn("n")),
    ],
    ids=repr,
)
@pytest.mark.parametrize("raising", _RAISING)
@pytest.mark.parametrize("rows", [4, 64])
def test_no_error_is_lost(raising: str, rest: QueryBuilder, rows: int) -> None:
    """Not where nobody reads the column, and not where rows of others rule its rows out."""
    query = Q.then(_RAISING[raising]).then(*rest.clauses)
    store = fresh_store()
    with _tiny_pages(), options(segment_rows=rows):
        store.write("x", _shop(), index="t")
    wanted = outcome_read_first(store, query)
    assert isinstance(wanted, tuple)
    for setting in (SETTINGS[0], SETTINGS[2]):
        assert outcome(store, query, setting) == wanted


@pytest.mark.parametrize(
    "clauses",
    [
        [FiltersBy(col("n"))],
        [FiltersBy(col("s") > 5)],
        [FiltersBy(col("n") < 0), FiltersBy(col("s") > 5)],
        [FiltersBy(col("nowhere") > 5)],
        [FiltersBy(col("n") > 5), TakesMask(col("x"))],
    ],
    ids=repr,
)
def test_predicates_that_are_none(clauses: list[Clause]) -> None:
    store = fresh_store()
    with _tiny_pages(), options(segment_rows=16):
        store.write("x", _shop(), index="t")
    for query in (Q.then(*clauses), Q.then(*clauses).groupby("g").agg(c=("n", "sum"))):
        wanted = outcome_read_first(store, query)
        assert isinstance(wanted, tuple)
        assert outcome(store, query, SETTINGS[0]) == wanted


def test_an_error_of_ones_own_names_clause_and_rows() -> None:
    store = fresh_store()
    with options(segment_rows=16):
        store.write("x", _shop(), index="t")
    query = Q.filter("n >= 0").then(FiltersBy(col("n"))).groupby("g").agg(c=("n", "sum"))
    with pytest.raises(ExecutionError) as raised:
        store.read("x", query=query)
    assert "filters_by" in raised.value.context["clause"]
    assert raised.value.context["rows"] == "0 to 15"


def test_units_that_share_a_segment_are_read_first_alike() -> None:
    """A bucket that two units meet in: the piece says how many units fetch it."""
    times = pa.array([0, 2, 3, 5], pa.timestamp("s")).cast(pa.timestamp("ns"))
    store = fresh_store()
    with options(segment_rows=2):
        store.write("x", pa.table({"t": times, "i": [64, 78, 124, 93]}), index="t")
    query = Q.rename({"t": "t_"}).resample("2s").agg(m="median(i)", rows="size")
    wanted = outcome_read_first(store, query)
    assert outcome(store, query, SETTINGS[0]) == wanted
    assert store.read("x", query=query).to_arrow().column("rows").to_pylist() == [1, 2, 1]


# --- what is read, and kept -----------------------------------------------------------------------


_SAME = {
    "rename": Q.rename({"n": "m", "x": "n"}),
    "swap": Q.rename({"n": "x", "x": "n"}),
    "own": Q.then(BindsBoth("z", col("x") + 1.0, col("n") >= 0)),
    "column": Q.apply("z", col("x") * 2.0),
    "select": Q.select("x", "n", "text", "t"),
}


@pytest.mark.parametrize("before", _SAME)
def test_what_binds_touches_no_page(before: str) -> None:
    """As test_late_materialization.py does: pages of all columns by how many are touched."""
    name = {"rename": "m", "swap": "x"}.get(before, "n")
    query = _SAME[before].filter(col(name).between(8, 15))
    touched = _pages_touched(query)
    assert touched == {"t": 2, "n": 2, "text": 2, "x": 2}
    assert _pages_touched(query.filter(col(name) % 4 == 1)) == touched


def test_a_filter_on_a_computed_column_reads_the_others_where_rows_are_left() -> None:
    query = Q.apply("y", col("x") * 4.0).rename({"y": "n", "n": "y"}).filter((col("n") % 32) == 5)
    touched = _pages_touched(query)
    assert touched["x"] == 16
    assert touched["t"] == touched["n"] == 2  # rows 5 and 37


@pytest.mark.parametrize("name", ["i", "f", "m", "s", "d", "t"])
def test_values_are_of_the_declared_types(name: str) -> None:
    words = ["a", "b", None, "a"] * 8
    table = pa.table(
        {
            "t": pa.array(np.arange(32) * 10**9).cast(pa.timestamp("ns")),
            "i": pa.array(range(32), pa.int8()),
            "f": pa.array(np.arange(32) / 4, pa.float32()),
            "m": pa.array([Decimal(i) / 4 for i in range(32)], pa.decimal128(9, 2)),
            "s": words,
            "d": pa.array(words).dictionary_encode(),
        }
    )
    _, unit = _batches(Q.filter("i > 1 and i != 7"), table)
    wanted = table.filter(pc.and_(pc.greater(table["i"], 1), pc.not_equal(table["i"], 7)))
    for found in (unit.column(name), unit.evaluate(col(name)), unit.table.column(name)):
        assert found.type == table.schema.field(name).type
        assert found.to_pylist() == wanted.column(name).to_pylist()
    _, unit = _batches(Q.filter("i < 0"), table)
    assert unit.column(name).type == unit.evaluate(col(name)).type == unit.table.column(name).type


@pytest.mark.parametrize("slices", [2, 4])
def test_a_mask_reads_no_other_column(slices: int) -> None:
    query = Q.then(TakesMask(col("n") < 4))
    assert _pages_touched(query, slices) == {"t": 1, "n": 16, "text": 1, "x": 1}
    assert _pages_touched(query.rename({"n": "x", "x": "n"}), slices)["t"] == 1


def _batches(query: QueryBuilder, table: pa.Table) -> tuple[Any, Any]:
    """Return a unit of one segment, not read, and what clauses make of it."""
    store = fresh_store()
    store.write("x", table, index="t")
    view = store.view("x")
    whole = bound_unit([view.index().source(0)], view.source(), Bindings(view.schema), 0)
    unit: ProcessingUnit = whole
    for clause in query.clauses:
        unit = clause.process(unit)
    return whole, unit


@pytest.mark.parametrize(
    "query",
    [Q.filter("x * 3 > 7"), Q.then(TakesMask(col("n") % 2 == 0)), Q.then(TakesTable("column"))],
    ids=repr,
)
def test_a_unit_that_waits_holds_no_values(query: QueryBuilder) -> None:
    whole, unit = _batches(query, _shop())
    assert is_bound(unit)
    assert unit.num_rows
    for waiting in (whole, unit):
        for batch in (each.keep(each.narrowed()[0].places()) for each in waiting.batches):
            for rows in (batch.source, batch._unpruned, batch._pruned):
                assert not any(selected.columns for selected in rows._ranges)
            assert batch._narrowed is None


def test_a_chain_holds_what_is_needed_of_it() -> None:
    query = Q
    for _ in range(20):
        query = query.apply("x", col("x") + 1.0)
    _, unit = _batches(query.filter("x > 21"), _shop())
    with events("clause.process") as seen:
        assert unit.table.num_columns == 7
    assert len(seen) == 2  # the columns of one clause, and the filter
    with pytest.MonkeyPatch.context() as patch:
        most = []
        old = ProcessingUnit.evaluate

        def evaluate(held: ProcessingUnit, expression: Any, beside: Any) -> pa.ChunkedArray:
            most.append(len(beside) + len(held.schema.names))
            return old(held, expression, beside)

        patch.setattr(ProcessingUnit, "evaluate", evaluate)
        _, unit = _batches(query, _shop())
        assert unit.table.num_columns == 7
        assert len(most) == 20
        assert max(most) <= 8


@pytest.mark.parametrize("length", [40, 200])
def test_long_chains_of_columns_and_filters(length: int) -> None:
    """Deeper than a predicate is put in terms of stored columns."""
    query = Q
    for at in range(length):
        query = query.apply("x", col("x") + 1.0)
        query = query.filter(col("x") > at % 7 + float(at)) if at % 5 == 0 else query
    store = fresh_store()
    with options(segment_rows=32):
        store.write("x", _shop(), index="t")
    for last in (Q, Q.groupby("g").agg(c=("x", "sum")), Q.top_k(3, by="x")):
        asked = query.then(*last.clauses)
        assert outcome(store, asked, SETTINGS[0]) == outcome_read_first(store, asked)


# --- runs of rows ---------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_resample_of_spans_that_zone_maps_leave(data: st.DataObject) -> None:
    """Several ranges of a segment, whose ends share buckets or lie many buckets apart."""
    rows = data.draw(st.integers(40, 400))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    band = np.repeat(random.integers(0, 4, rows), 16)[:rows]
    density = data.draw(st.sampled_from([0.0, 0.2]))
    table = pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(0, 3, rows)) * 10**9).cast(pa.timestamp("ns")),
            "b": band,
            "v": pa.array(random.integers(-50, 50, rows) / 4, mask=random.random(rows) < density),
            "n": pa.array(random.integers(-50, 50, rows), mask=random.random(rows) < density),
        }
    )
    store = fresh_store()
    size = data.draw(st.sampled_from([rows, rows // 2 + 1]))
    slices = data.draw(st.sampled_from([2, 20]))
    with _tiny_pages(4, 1024), options(segment_rows=size, segment_columns=slices):
        store.write("x", table, index="t")
    query = Q.filter(col("b") == data.draw(st.integers(0, 4)))
    if data.draw(st.booleans()):
        query = query.filter(data.draw(st.sampled_from(["n > 0", "v <= 1.5", "n != 3"])))
    if data.draw(st.booleans()):
        query = query.rename({"t": "n", "n": "t"})
    name = "t" if len(query.clauses) and query.clauses[-1].name == "rename" else "n"
    rule = data.draw(st.sampled_from(["5s", "40s", "1h"]))
    closed = data.draw(st.sampled_from(["left", "right"]))
    query = query.resample(rule, closed=closed).agg(
        a=("v", "sum"), b=("v", "first"), c=(name, "last"), d=(name, "min"), e=("v", "max"),
        f=("v", "count"), g="size", h=("b", "first"),
    )  # fmt: skip
    note(repr(query))
    found = [outcome(store, query, SETTINGS[at]) for at in (0, 2)]
    wanted = outcome_read_first(store, query)
    assert found[0] == wanted
    assert found[1] == wanted


def test_resample_behind_filters_runs_on_stored_rows() -> None:
    rows = 4096
    n = np.arange(rows)
    table = pa.table(
        {"t": pa.array(n * 10**9).cast(pa.timestamp("ns")), "b": n // 256 % 2, "v": n / 4}
    )
    store = fresh_store()
    with _tiny_pages(6, 4096):
        store.write("x", table, index="t")
    query = Q.filter("b == 1").filter("v > 70").rename({"v": "w"})
    query = query.resample("1min").agg(a=("w", "sum"), b=("w", "first"), c="size")
    with events("clause.process") as seen:
        found = outcome(store, query, SETTINGS[0])
    assert found == outcome_read_first(store, query)
    assert any(event.attributes.get("stored") for event in seen)


@pytest.mark.parametrize(
    "rest",
    [
        Q.resample("1min").agg(c=("v", "sum"), d=("v", "first")),
        Q.top_k(3, by="v"),
        Q.filter("n >= 0"),
    ],
    ids=repr,
)
def test_many_ranges_take_steps_in_proportion(rest: QueryBuilder) -> None:
    """Every other page is pruned: ranges are cut by pages that meet them, not by all."""
    pages, cuts = 400, 0
    n = np.arange(pages * 4)
    table = pa.table(
        {"t": pa.array(n * 10**9).cast(pa.timestamp("ns")), "b": n // 4 % 2, "v": n / 4, "n": n}
    )
    store = fresh_store()
    with _tiny_pages(2, 1024):
        store.write("x", table, index="t")
    query = Q.filter("b == 1").then(*rest.clauses)
    wanted = outcome_read_first(store, query)
    old = SelectedRange.cut

    def cut(selected: SelectedRange, low: int, high: int) -> SelectedRange | None:
        nonlocal cuts
        cuts += 1
        return old(selected, low, high)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SelectedRange, "cut", cut)
        assert outcome(store, query, SETTINGS[0]) == wanted
    assert cuts < 20 * pages


# --- the encoded domain ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(table=chain_tables(), data=st.data())
def test_abs_and_casts_as_they_are_stored(table: pa.Table, data: st.DataObject) -> None:
    """All numbers of all types and their edges, as a filter, as what is summed and as a key."""
    name = data.draw(st.sampled_from("inguwpxfm"))
    target = data.draw(st.sampled_from(["abs", "int8", "int16", "int64", "uint64", "float64"]))
    value = abs(col(name)) if target == "abs" else col(name).cast(target)
    value = abs(value) if data.draw(st.booleans()) else value
    bound = data.draw(st.sampled_from([0, 1, 2, 50]))
    schema = TableSchema(table.schema, "t")
    try:
        kind = value.result_type(schema)
    except TesselError:
        return
    store = fresh_store()
    with _tiny_pages(3, 512), options(segment_rows=32, segment_columns=20):
        store.write("x", table, index="t")
    queries = [
        Q.filter(value > bound).agg(a="size"),
        Q.apply("z", value).agg(a=("z", "min"), b=("z", "max"), c=("z", "count"), d=("z", "first")),
        Q.apply("z", value).filter(col("z") <= bound).agg(a=("n", "count"), b=("z", "last")),
        Q.apply("z", value).top_k(3, by="z").select("t", "z"),
    ]
    if pa.types.is_integer(kind):
        queries.append(Q.apply("z", value).groupby("z").agg(a="size", b=("p", "sum")))
    for query in queries:
        note(repr(query))
        assert outcome(store, query, SETTINGS[0]) == outcome_read_first(store, query)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_abs_of_the_least_integer_raises(kind: str) -> None:
    least = np.iinfo(kind).min
    store = fresh_store()
    store.write("x", pa.table({"v": pa.array([least, 1, 2], pa.type_for_alias(kind))}))
    for query in (
        Q.filter(abs(col("v")) > 0).agg(a="size"),
        Q.apply("z", abs(col("v"))).agg(a=("z", "max")),
    ):
        wanted = outcome_read_first(store, query)
        assert outcome(store, query, SETTINGS[0]) == wanted
        if kind == "int64":
            with pytest.raises(IntegerOverflowError):
                store.read("x", query=query)


def test_signs_of_zero_and_infinities() -> None:
    values = [-0.0, 0.0, -1.5, math.inf, -math.inf, math.nan, None, 2.25]
    store = fresh_store()
    store.write("x", pa.table({"v": values, "g": [0, 1, 2, 3, 4, 5, 6, 7]}))
    query = (
        Q.apply("z", abs(col("v")))
        .groupby("g")
        .agg(a=("z", "first"), b=("z", "min"), c=("z", "sum"))
    )
    assert outcome(store, query, SETTINGS[0]) == outcome_read_first(store, query)

"""Clauses that choose rows before the rest is read: the answer is that of reading everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel import telemetry
from tessel.clauses import Filter, QueryBuilder
from tessel.clauses.units.bound_unit import bound_unit
from tessel.ecs import ProcessingUnit
from tessel.errors import CorruptSegmentError, IntegerOverflowError, TesselError
from tessel.expression import col, parse
from tessel.expression.evaluate import evaluate
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import run_bound
from tessel.store.manifest.bindings import Bindings
from tessel.store.segment import paging
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store
from tests.clauses.reference import comparable, comparable_table, frame_of, run
from tests.profiles import cases
from tests.strategies import expressions
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.tables import bits, cut_into_segments


@contextmanager
def _tiny_pages(shift: int = 2, page_bytes: int = 64) -> Iterator[None]:
    """Write pages of a few rows, fewer in columns of long values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "LARGEST_PAGE_SHIFT", shift)
        patch.setattr(paging, "PAGE_BYTES", page_bytes)
        patch.setattr(paging, "_SMALL_PAGE_BYTES", page_bytes // 8)
        yield


@cases(30, 80)
@given(data=st.data())
def test_chains_over_many_small_pages(data: st.DataObject) -> None:
    table = data.draw(query_tables(max_rows=60))
    index = "t" if "t" in table.column_names else None
    steps = data.draw(chains(TableSchema(table.schema, index)))
    note(repr(build(steps)))
    store = fresh_store()
    with _tiny_pages():
        data.draw(cut_into_segments(table, index=index)).write(store, "x")
    expected = run(steps, {"x": frame_of(table, index)}, "x")
    found = answer(store, build(steps), [SETTINGS[0], SETTINGS[2]])
    for ours, wanted in zip(comparable_table(found, expected), comparable(expected), strict=True):
        assert ours == wanted


@cases(50, 150)
@given(
    table=expressions.tables(max_rows=40),
    predicates=st.lists(expressions.predicates(), min_size=1, max_size=3),
    cut=st.tuples(st.integers(1, 40), st.integers(1, 4)),
)
def test_filters_of_any_types(table: pa.Table, predicates: list[Any], cut: tuple[int, int]) -> None:
    expected: pa.Table | None = table
    try:
        for predicate in predicates:
            mask = evaluate(predicate, expected)
            expected = expected.filter(pc.fill_null(mask.cast(pa.bool_()), False))
    except TesselError:
        expected = None
    query = QueryBuilder()
    for predicate in predicates:
        query = query.filter(predicate)
    store = fresh_store()
    with _tiny_pages(), options(segment_rows=cut[0], segment_columns=cut[1]):
        store.write("x", table)
    if expected is None:
        with pytest.raises(TesselError):
            store.read("x", query=query)
        return
    found = store.read("x", query=query).to_arrow()
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name


def _shop(rows: int = 64) -> pa.Table:
    n = np.arange(rows)
    return pa.table(
        {
            "t": pa.array(n * 10**9).cast(pa.timestamp("ns")),
            "n": n,
            "text": [f"name {i // 16}" for i in n],
            "x": n / 4,
        }
    )


def _pages_touched(query: QueryBuilder, slices: int = 4) -> dict[str, int]:
    """Return how many pages of each column a query touches, with so many columns a slice."""
    store = fresh_store()
    with _tiny_pages(), options(segment_columns=slices, segment_rows=64):
        store.write("x", _shop(), index="t")
    view = store.view("x")
    index, source = view.index(), view.source()
    pieces = [index.source(at) for at in range(len(index))]
    clauses = query.clauses
    schemas = [view.schema]
    for clause in clauses:
        schemas.append(clause.output_schema(schemas[-1]))
    unit = bound_unit(pieces, source, Bindings(view.schema), 0)
    table = run_bound(Stage(clauses, tuple(schemas)), unit).table
    assert table.equals(store.read("x", query=query).to_arrow())
    return {
        name: sum(page is not None for page in segment._known.get(node.number, []))
        for piece in pieces
        for segment in [source._reader.open(piece.key)]
        for name, node in zip(piece.columns, segment.tops, strict=True)
    }


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("slices", [8, 2, 1])
def test_few_rows_are_gathered_in_one_pass_a_column_slice(slices: int, is_stream: bool) -> None:
    rows = 400_000
    n = np.arange(rows)
    table = pa.table({"n": n, "u": np.random.default_rng(4).random(rows), "x": n / 4, "y": n * 3})
    store = fresh_store()
    with options(segment_columns=slices, segment_rows=rows // 4):
        store.write("x", table)
    query = QueryBuilder().filter("u < 0.001 and x > 0")
    reads: list[dict[str, Any]] = []
    with telemetry.follow(
        lambda e: reads.append(e.attributes) if e.name == "segment.read" else None
    ):
        asked = store.scan("x").then(*query.clauses)
        found = (
            pa.Table.from_batches(asked.iter_batches()) if is_stream else asked.collect().to_arrow()
        )
    kept = pc.and_(pc.less(table["u"], 0.001), pc.greater(table["x"], 0))
    assert found.equals(table.filter(kept))
    together = [read for read in reads if "values of single rows" in read["columns"].values()]
    assert sorted(name for read in together for name in read["columns"]) == ["n", "u", "x", "y"]
    assert len(together) == -(-table.num_columns // slices)
    if is_stream:  # the first unit goes ahead alone, and the last is left over
        inside = pc.and_(
            pc.greater_equal(found["n"], rows // 4), pc.less(found["n"], rows // 4 * 3)
        )
        assert {read["rows"] for read in together} == {found.filter(inside).num_rows}
    else:
        assert {read["rows"] for read in together} == {found.num_rows}


def test_a_date_range_touches_only_pages_inside_it() -> None:
    touched = _pages_touched(
        QueryBuilder().date_range("1970-01-01T00:00:09", "1970-01-01T00:00:21")
    )
    assert touched["n"] == 4  # rows 9 to 21 are in pages 2 to 5 of 4 rows
    assert touched["t"] == 4


def test_pages_that_statistics_rule_out_are_not_touched() -> None:
    assert _pages_touched(QueryBuilder().filter(col("n").between(8, 15))) == {
        "t": 2, "n": 2, "text": 2, "x": 2,
    }  # fmt: skip


def test_the_other_columns_are_read_where_rows_are_left() -> None:
    touched = _pages_touched(QueryBuilder().filter((col("x") * 4) % 32 == 5))
    assert touched["x"] == 16
    assert touched["t"] == touched["n"] == 2  # rows 5 and 37


def test_a_second_filter_does_not_see_what_the_first_dropped() -> None:
    store = fresh_store()
    store.write("x", pa.table({"n": [1, 2**62, 3], "m": [1, 1, 1]}))
    query = QueryBuilder().filter("n < 10").filter("n * 4 > 4")
    assert store.read("x", query=query).to_arrow().column("n").to_pylist() == [3]
    with pytest.raises(IntegerOverflowError) as raised:
        store.read("x", query=QueryBuilder().filter("n * 4 > 4"))
    assert "filter" in raised.value.context["clause"]


def test_the_profile_counts_the_rows_of_each_clause() -> None:
    store = fresh_store()
    with options(segment_rows=8):
        store.write("x", _shop(), index="t")
    # The manifest rules out the first eight rows.
    query = QueryBuilder().date_range(end="1970-01-01T00:00:19").filter("n >= 10")
    with events("clause.process") as found:
        store.read("x", query=query)
    ran = [event.attributes for event in found]
    for name, rows_in, rows_out in (("date_range", 16, 12), ("filter", 12, 10)):
        mine = [facts for facts in ran if facts["clause"] == name]
        assert sum(facts["rows_in"] for facts in mine) == rows_in
        assert sum(facts["rows_out"] for facts in mine) == rows_out


@dataclass(frozen=True, eq=False)
class _Inverted(Filter):
    """A filter of a third party that overrides ``process``."""

    name: ClassVar[str] = "inverted"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(pc.invert(unit.evaluate(self.predicate)))


def test_a_process_of_ones_own_stands() -> None:
    store = fresh_store()
    store.write("x", pa.table({"n": [1, 2, 3]}))
    view = store.view("x")
    unit = bound_unit([view.index().source(0)], view.source(), Bindings(view.schema), 0)
    stage = Stage((_Inverted(col("n") > 1),), (view.schema, view.schema))
    left = run_bound(stage, unit)
    assert left.table.column("n").to_pylist() == [1]


def test_damage_met_while_selecting_names_the_segment() -> None:
    store = fresh_store()
    store.write("x", _shop(), index="t")
    objects = store.objects
    (name,) = objects.list("seg/")
    damaged = bytearray(objects.get(name).to_pybytes())
    damaged[3] ^= 1
    objects.delete(name)
    objects.put_if_absent(name, bytes(damaged))
    with pytest.raises(CorruptSegmentError) as raised:
        store.read("x", query=QueryBuilder().filter("x >= 0").filter("n % 2 == 0 and text != 'a'"))
    assert raised.value.context["segment"] == name


@settings(max_examples=40)
@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    bounds=st.tuples(st.integers(-2, 60_000), st.integers(-2, 60_000)).map(sorted),
    segment_rows=st.sampled_from([7_000, 40_000, 1 << 20]),
)
def test_bounds_in_long_pages(steps: list[int], bounds: list[int], segment_rows: int) -> None:
    # Pages long enough to be looked at in a few rows first; equal times in stretches of any length.
    times = np.cumsum(np.resize(np.array(steps), 40_000)).astype("M8[s]")
    table = pa.table({"t": times, "n": np.arange(len(times))})
    store = fresh_store()
    with options(segment_rows=segment_rows):
        store.write("x", table, index="t")
    low, high = (np.datetime64(bound, "s") for bound in bounds)
    found = store.read("x", query=QueryBuilder().date_range(f"{low}", f"{high}"))
    wanted = np.flatnonzero((times >= low) & (times <= high))
    assert found.to_arrow().column("n").to_pylist() == wanted.tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("asked", ["==", "!=", "<", ">="])
@pytest.mark.parametrize("rows", [4, 100])
def test_times_are_compared_in_one_unit(unit: str, asked: str, rows: int) -> None:
    """What is stored counts in the unit of the column, a value in its own."""
    waits = [None, None, 0, None, None, 1, 1000, 2000] * 3
    table = pa.table({"wait": pa.array(waits, pa.duration(unit)), "at": range(len(waits))})
    store = fresh_store()
    with _tiny_pages(), options(segment_rows=rows):
        store.write("x", table)
    for value in ("duration[us] '1us'", "duration[us] '1ms'", "duration[ms] '1s'"):
        predicate = parse(f"wait {asked} {value}")
        kept = table.filter(pc.fill_null(evaluate(predicate, table), False))
        found = store.read("x", query=QueryBuilder().filter(predicate)).to_arrow()
        assert found.equals(kept), value
        summed = store.read("x", query=QueryBuilder().filter(predicate).agg(n="size")).to_arrow()
        assert summed.column("n").to_pylist() == [len(kept)]

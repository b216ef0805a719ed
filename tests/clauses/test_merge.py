"""merge of several symbols, and of overlapping segments, against Polars' stable sort by time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import MergeInputs, QueryBuilder, SubQuery
from tessel.ecs import ProcessingUnit
from tessel.ecs.piece import ColRange, Piece, RowRange
from tessel.errors import (
    ColumnNotFoundError,
    IndexColumnError,
    PlanError,
    SchemaMismatchError,
    UnsortedIndexError,
)
from tessel.expression.schema import TableSchema
from tessel.options import options
from tests.clauses.helpers import answer, fresh_store
from tests.oracles import polars_frame, same_rows

Q = QueryBuilder()
KINDS = (pa.int8(), pa.int64(), pa.uint16(), pa.int32())
UNITS = ("s", "ms", "us", "ns")

times = st.lists(st.integers(0, 9), max_size=9).map(sorted)


def _stored(parts: list[list[int]], cut: int) -> tuple[Store, list[pa.Table]]:
    """Return symbols x, y1, y2, … and their rows; types differ from one to the next."""
    store = fresh_store()
    tables = []
    for at, values in enumerate(parts):
        own = pa.array([f"{at}:{n}" for n in range(len(values))], pa.string())
        number = pa.array([None if v == 5 else v for v in values], KINDS[at])
        stamp = pa.array(values, pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(UNITS[at]))
        table = pa.table({"n": number, f"own{at % 2}": own, "t": stamp, "every": own})
        tables.append(table)
        with options(segment_rows=cut, segment_columns=2):
            store.write("x" if at == 0 else f"y{at}", table, index="t")
    return store, tables


def _expected(tables: list[pa.Table], join: str, found: pa.Table) -> pa.Table:
    frames = [
        polars_frame(table).with_columns(
            pl.col("n").cast(pl.Int64), pl.col("t").cast(pl.Datetime("ns"))
        )
        for table in tables
    ]
    if join == "inner":
        names = [n for n in tables[0].column_names if all(n in t.column_names for t in tables)]
        frames = [frame.select(names) for frame in frames]
    joined = pl.concat(frames, how="diagonal").sort("t", maintain_order=True).to_arrow()
    for name in ("n", "t"):
        at = joined.column_names.index(name)
        kind = found.schema.field(name).type
        joined = joined.set_column(at, name, joined.column(name).cast(kind))
    return joined


@settings(max_examples=15)
@given(
    parts=st.lists(times, min_size=2, max_size=4),
    cut=st.integers(1, 4),
    join=st.sampled_from(["outer", "inner"]),
)
def test_symbols_are_merged_as_polars_does(parts: list[list[int]], cut: int, join: str) -> None:
    store, tables = _stored(parts, cut)
    others = [f"y{at}" for at in range(1, len(parts))]
    query = Q.merge(*others, join=join)  # type: ignore[arg-type]
    found = answer(store, query)
    assert same_rows(found, _expected(tables, join, found))
    assert store.schema("x", query).index == "t"
    assert store.schema("x", query).arrow == found.schema.remove_metadata()


@settings(max_examples=15)
@given(parts=st.lists(times, min_size=1, max_size=3), cut=st.integers(1, 4))
def test_overlapping_segments_are_merged_as_polars_does(parts: list[list[int]], cut: int) -> None:
    store, tables = _stored(parts, cut)
    others = [f"y{at}" for at in range(1, len(parts))]
    query = (Q.concat(*others) if others else Q).merge(on="t")
    found = answer(store, query)
    assert same_rows(found, _expected(tables, "outer", found))
    assert store.schema("x", query).index == "t"


@settings(max_examples=10)
@given(parts=st.lists(times, min_size=2, max_size=3), cut=st.integers(1, 3))
def test_what_follows_sees_a_time_index(parts: list[list[int]], cut: int) -> None:
    store, tables = _stored(parts, cut)
    others = [f"y{at}" for at in range(1, len(parts))]
    merged = Q.merge(*others)
    found = answer(store, merged.date_range("1970-01-01T00:00:03", None))
    everything = _expected(tables, "outer", found)
    later = [row for row in everything.to_pylist() if row["t"].second >= 3]
    assert [row["every"] for row in found.to_pylist()] == [row["every"] for row in later]
    counted = answer(store, merged.resample("2s").agg(n="size", first=("every", "first")))
    expected = []
    for bucket, rows in itertools.groupby(everything.to_pylist(), lambda r: r["t"].second // 2):
        held = list(rows)
        expected.append((2 * bucket, len(held), held[0]["every"]))
    assert [(r["t"].second, r["n"], r["first"]) for r in counted.to_pylist()] == expected
    assert answer(store, merged.head(3)).num_rows == min(3, everything.num_rows)


def test_each_has_clauses_of_its_own_first() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": [1, 4, 9], "a": [1, 2, 3]}), index="t")
    store.write("y", pa.table({"t": [1, 4, 8], "a": [10, 20, 30], "c": ["p", "q", "r"]}), index="t")
    other = SubQuery("y", None, Q.filter("a != 20").clauses)
    found = answer(store, Q.tail(2).merge(other).select("a", "c"))
    assert found.to_pylist() == [
        {"a": 10, "c": "p"},
        {"a": 2, "c": None},
        {"a": 30, "c": "r"},
        {"a": 3, "c": None},
    ]


def test_a_merge_of_a_merge_and_of_itself() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": [1, 3], "a": [0, 1]}), index="t")
    store.write("y", pa.table({"t": [1, 2], "a": [2, 3]}), index="t")
    inner = SubQuery("y", None, Q.merge("x").clauses)
    found = answer(store, Q.merge(inner).merge("x", "x"))
    assert found.column("a").to_pylist() == [0, 2, 0, 0, 0, 3, 1, 1, 1, 1]
    assert found.column("t").to_pylist() == sorted(found.column("t").to_pylist())


def test_a_column_that_is_no_index_orders_and_becomes_one() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": [1, 4], "u": [5, 7]}), index="t")
    store.write("y", pa.table({"u": [5, 6]}))
    query = Q.merge("y", on="u")
    found = answer(store, query)
    assert found.to_pylist() == [
        {"t": 1, "u": 5},
        {"t": None, "u": 5},
        {"t": None, "u": 6},
        {"t": 4, "u": 7},
    ]
    assert store.schema("x", query).index == "u"


def test_inputs_are_taken_as_they_are_needed() -> None:
    """Of each input one unit is held, and none is asked for before its turn."""
    schema = TableSchema(pa.schema([("t", pa.int64())]), "t")
    taken: list[int] = []

    def units(start: int) -> Iterator[ProcessingUnit]:
        for number in range(40):
            taken.append(start + number)
            table = pa.table({"t": list(range(10_000 * number, 10_000 * (number + 1)))})
            piece = Piece(table, RowRange(0, 1), ColRange(0, 1))
            yield ProcessingUnit(number, schema, [piece])

    stream = MergeInputs(schema, ("x", "y")).interleave([units(0), units(100)])
    first = next(stream)
    assert first.num_rows < 100_000
    assert len(taken) < 14
    assert first.num_rows + sum(unit.num_rows for unit in stream) == 800_000
    assert len(taken) == 80


def test_the_plain_form_and_the_lazy_table() -> None:
    store, _ = _stored([[1, 2, 3], [2, 3, 4]], 2)
    query = Q.merge(SubQuery("y1", None, Q.head(2).clauses), on="t", join="inner").tail(3)
    again = QueryBuilder.from_json(query.to_json())
    assert again == query
    assert answer(store, again).equals(answer(store, query))
    assert QueryBuilder.from_json({"tessel_plan": 1, "clauses": [{"clause": "merge"}]}) == Q.merge()
    lazy = store.scan("x").merge(store.scan("y1").head(2), on="t", join="inner").tail(3)
    assert lazy.collect().to_arrow().equals(answer(store, query))


def test_explain_tells_what_is_merged() -> None:
    store, _ = _stored([[1, 2, 3], [2, 3, 4]], 2)
    text = str(store.explain("x", Q.merge("y1").head(2)))
    assert "those of 2 inputs, by time" in text
    assert "MULTI_SYMBOL → ROW_SLICE" in text
    assert "index: t" in text
    alone = str(store.explain("x", Q.merge()))
    assert "ALL → ROW_SLICE" in alone


def test_misuse_is_refused() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": [1, 2], "a": [1, 2], "s": ["p", "q"]}), index="t")
    store.write("other", pa.table({"time": [1], "a": [1]}), index="time")
    store.write("plain", pa.table({"t": [2, 1], "a": [1, 2]}))
    store.write("text", pa.table({"t": [1], "a": ["p"]}), index="t")
    cases = [
        (lambda: Q.merge("plain"), IndexColumnError, "no time index"),
        (lambda: Q.merge("other"), IndexColumnError, "'t' in one symbol and 'time' in another"),
        (lambda: Q.merge("text"), SchemaMismatchError, "merge: column 'a' is int64"),
        (lambda: Q.merge("plain", on="t"), UnsortedIndexError, "symbol 'plain'"),
        (lambda: Q.merge("plain", on="x"), ColumnNotFoundError, "'x'"),
        (lambda: Q.merge("text", on="s"), IndexColumnError, "cannot be a time index"),
        (lambda: Q.merge("x", join="left"), PlanError, "outer or inner"),  # type: ignore[arg-type]
        (lambda: Q.merge(3), PlanError, "takes symbols, not 3"),  # type: ignore[arg-type]
        (lambda: Q.merge("x", on=3), PlanError, "name of a column"),  # type: ignore[arg-type]
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):  # type: ignore[arg-type]
            store.read("x", query=make())
    with pytest.raises(IndexColumnError, match="no time index"):
        store.read("plain", query=Q.merge())
    with pytest.raises(PlanError, match="merge depends on the other symbols"):
        Q.merge("x").schema(store.schema("x"))


def test_missing_times_are_refused() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": [1, None]}))
    with pytest.raises(IndexColumnError, match="missing in row 1"):
        store.read("x", query=Q.merge(on="t"))
    with pytest.raises(IndexColumnError, match=r"missing in row 1(.|\n)*symbol 'x'"):
        store.read("x", query=Q.merge("x", on="t"))

"""concat of several symbols against Polars, and the common types of columns."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.clauses.promotion import promote
from tessel.errors import (
    ColumnNotFoundError,
    PlanError,
    SchemaMismatchError,
    SymbolNotFoundError,
    VersionNotFoundError,
)
from tessel.options import options
from tessel.testing.oracles import polars_frame, same_rows
from tests.clauses.helpers import answer, fresh_store

numbers = st.lists(st.none() | st.integers(-5, 5), max_size=9)


@settings(max_examples=25)
@given(
    parts=st.lists(numbers, min_size=2, max_size=4),
    cut=st.integers(1, 4),
    join=st.sampled_from(["outer", "inner"]),
)
def test_rows_are_those_of_polars(parts: list[list[int | None]], cut: int, join: str) -> None:
    store = fresh_store()
    tables = []
    for at, values in enumerate(parts):
        kind = [pa.int8(), pa.int64(), pa.uint16(), pa.int32()][at]
        own = pa.array([f"{at}:{n}" for n in range(len(values))], pa.string())
        absolute = [None if v is None else abs(v) for v in values]
        table = pa.table({"n": pa.array(absolute, kind), f"own{at % 2}": own})
        tables.append(table.append_column("every", own))
        with options(segment_rows=cut, segment_columns=2):
            store.write("x" if at == 0 else f"y{at}", tables[-1])
    others = [f"y{at}" for at in range(1, len(parts))]
    found = answer(store, QueryBuilder().concat(*others, join=join))  # type: ignore[arg-type]
    frames = [polars_frame(table).with_columns(pl.col("n").cast(pl.Int64)) for table in tables]
    if join == "inner":
        names = [n for n in tables[0].column_names if all(n in t.column_names for t in tables)]
        frames = [frame.select(names) for frame in frames]
    expected = pl.concat(frames, how="diagonal").to_arrow()
    kind = found.schema.field("n").type
    at = expected.column_names.index("n")
    assert same_rows(found, expected.set_column(at, "n", expected.column("n").cast(kind)))


def _two() -> Store:
    store = fresh_store()
    store.write("x", pa.table({"a": [1, 2, 3], "b": ["p", "q", "r"]}))
    store.write("y", pa.table({"a": [10, 20, 30], "c": [0.5, 1.5, 2.5]}))
    return store


def test_each_has_clauses_of_its_own_first() -> None:
    store = _two()
    other = SubQuery("y", None, QueryBuilder().filter("a > 10").head(1).clauses)
    query = QueryBuilder().tail(2).concat(other).filter("a != 3")
    found = answer(store, query)
    assert found.to_pylist() == [
        {"a": 2, "b": "q", "c": None},
        {"a": 20, "b": None, "c": 1.5},
    ]


def test_a_symbol_with_itself_keeps_both() -> None:
    store = _two()
    found = answer(
        store, QueryBuilder().concat("x", "x").groupby("b").agg(n=("a", "nunique"), r="size")
    )
    assert found.to_pylist() == [{"b": b, "n": 1, "r": 3} for b in "pqr"]


def test_a_concat_of_a_concat() -> None:
    store = _two()
    inner = SubQuery("y", None, QueryBuilder().concat("x").clauses)
    query = QueryBuilder().head(1).concat(inner).concat("y").select("a")
    found = answer(store, query)
    assert found.column("a").to_pylist() == [1, 10, 20, 30, 1, 2, 3, 10, 20, 30]
    ordered = answer(store, query.groupby("a", sort=False).agg(n="size", d=("a", "nunique")))
    assert ordered.column("a").to_pylist() == [1, 10, 20, 30, 2, 3]


def test_another_version_of_a_symbol() -> None:
    store = fresh_store()
    old = store.write("x", pa.table({"a": [1]}))
    store.write("x", pa.table({"a": [2]}))
    found = answer(store, QueryBuilder().concat(SubQuery("x", old)))
    assert found.column("a").to_pylist() == [2, 1]
    with pytest.raises(VersionNotFoundError):
        store.read("x", query=QueryBuilder().concat(SubQuery("x", 99)))


def test_the_result_has_no_index() -> None:
    store = fresh_store()
    for name in ("x", "y"):
        store.write(name, pa.table({"t": pa.array([1, 2], pa.timestamp("s"))}), index="t")
    assert store.schema("x", QueryBuilder().concat("y")).index is None


TYPES = [
    ([pa.int8(), pa.int8()], pa.int8()),
    ([pa.int8(), pa.int32()], pa.int32()),
    ([pa.uint8(), pa.int8()], pa.int16()),
    ([pa.uint32(), pa.int8()], pa.int64()),
    ([pa.int16(), pa.float32()], pa.float32()),
    ([pa.int32(), pa.float32()], pa.float64()),
    ([pa.float32(), pa.float64()], pa.float64()),
    ([pa.null(), pa.string()], pa.string()),
    ([pa.dictionary(pa.int32(), pa.string()), pa.string()], pa.string()),
    ([pa.dictionary(pa.int32(), pa.string())] * 2, pa.dictionary(pa.int32(), pa.string())),
    ([pa.timestamp("s"), pa.timestamp("ns")], pa.timestamp("ns")),
    ([pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("s", "UTC")], pa.timestamp("s", "UTC")),
    ([pa.date32(), pa.date64()], pa.date32()),
    ([pa.decimal128(5, 2), pa.decimal128(7, 1)], pa.decimal128(8, 2)),
    ([pa.duration("s"), pa.duration("us")], pa.duration("us")),
    ([pa.time32("s"), pa.time64("ns")], pa.time64("ns")),
    ([pa.string(), pa.large_string()], pa.large_string()),
]
REFUSED = [
    [pa.int64(), pa.uint64()],
    [pa.int64(), pa.float64()],
    [pa.bool_(), pa.int8()],
    [pa.string(), pa.int64()],
    [pa.timestamp("s"), pa.timestamp("s", "UTC")],
    [pa.decimal128(38, 0), pa.decimal128(38, 10)],
    [pa.string(), pa.binary()],
]


@pytest.mark.parametrize(("types", "common"), TYPES, ids=str)
def test_the_common_type(types: list[pa.DataType], common: pa.DataType) -> None:
    assert promote("c", types) == common
    assert promote("c", types[::-1]) == common


@pytest.mark.parametrize("types", REFUSED, ids=str)
def test_types_without_a_common_one_are_refused(types: list[pa.DataType]) -> None:
    for order in (types, types[::-1]):
        with pytest.raises(SchemaMismatchError, match="column 'c' is"):
            promote("c", order)


def test_misuse_is_refused() -> None:
    store = _two()
    q = QueryBuilder()
    cases = [
        (lambda: q.concat("z"), SymbolNotFoundError, "'z'"),
        (lambda: q.concat(SubQuery("y", None, q.select("b").clauses)), ColumnNotFoundError, "'b'"),
        (
            lambda: q.select("b").concat(SubQuery("y"), join="inner"),
            PlanError,
            "no column in common",
        ),
        (lambda: q.concat("y", join="left"), PlanError, "outer or inner"),  # type: ignore[arg-type]
        (lambda: q.concat(), PlanError, "needs another symbol"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):  # type: ignore[arg-type]
            store.read("x", query=make())
    with pytest.raises(PlanError, match="depends on the other symbols"):
        q.concat("y").schema(store.schema("x"))

"""concat of several symbols against Polars, and the common types of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.clauses.concat import brought_to
from tessel.errors import (
    ColumnNotFoundError,
    IntegerOverflowError,
    PlanError,
    SchemaMismatchError,
    SymbolNotFoundError,
    VersionNotFoundError,
)
from tessel.options import options
from tessel.store.promotion import promote
from tests.clauses.helpers import answer, fresh_store
from tests.oracles import polars_frame, same_rows

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
    ([pa.binary(4), pa.binary(8)], pa.binary()),
    ([pa.binary(4), pa.large_binary()], pa.large_binary()),
    ([pa.decimal128(9, 2), pa.int64()], pa.decimal128(22, 2)),
    ([pa.decimal128(9, 2), pa.uint8(), pa.int16()], pa.decimal128(9, 2)),
    ([pa.uint32(), pa.int32(), pa.float32()], pa.float64()),
    ([pa.null(), pa.null()], pa.null()),
    (
        [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.large_string())],
        pa.dictionary(pa.int32(), pa.large_string()),
    ),
    ([pa.list_(pa.int8()), pa.list_(pa.uint8())], pa.list_(pa.int16())),
    ([pa.list_(pa.null()), pa.list_(pa.string())], pa.list_(pa.string())),
    ([pa.list_(pa.int8(), 2), pa.list_(pa.int64(), 2)], pa.list_(pa.int64(), 2)),
    ([pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3)], pa.list_(pa.int8())),
    ([pa.list_(pa.int8(), 2), pa.large_list(pa.int8())], pa.large_list(pa.int8())),
    (
        [
            pa.struct([("a", pa.int8())]),
            pa.struct([("a", pa.int32())]),
            pa.struct([("a", pa.null())]),
        ],
        pa.struct([("a", pa.int32())]),
    ),
]
REFUSED = [
    [pa.int64(), pa.uint64()],
    [pa.int64(), pa.float64()],
    [pa.bool_(), pa.int8()],
    [pa.string(), pa.int64()],
    [pa.timestamp("s"), pa.timestamp("s", "UTC")],
    [pa.decimal128(38, 0), pa.decimal128(38, 10)],
    [pa.string(), pa.binary()],
    [pa.date32(), pa.timestamp("s")],
    [pa.decimal128(9, 2), pa.float64()],
    [pa.decimal128(38, 20), pa.int64()],
    [pa.list_(pa.int64()), pa.int64()],
    [pa.struct([("a", pa.int8())]), pa.int8()],
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
    cases: list[tuple[Callable[[], QueryBuilder], type[Exception], str]] = [
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
        with pytest.raises(error, match=text):
            store.read("x", query=make())
    with pytest.raises(PlanError, match="depends on the other symbols"):
        q.concat("y").schema(store.schema("x"))


def test_the_common_type_of_a_part_is_found_or_refused_by_its_name() -> None:
    one = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.date32()))])
    two = pa.struct([("c", pa.bool_()), ("b", pa.list_(pa.date64())), ("a", pa.int16())])
    common = pa.struct([("a", pa.int16()), ("b", pa.list_(pa.date32())), ("c", pa.bool_())])
    assert promote("s", [one, two]) == common
    with pytest.raises(SchemaMismatchError, match=r"column 's\.b\[\]' is"):
        promote("s", [one, pa.struct([("b", pa.list_(pa.string()))])])


NESTED: list[tuple[list[Any], list[Any], pa.DataType, pa.DataType]] = [
    (
        [[1, None], None, [], [5]],
        [[300], None, []],
        pa.list_(pa.int8()),
        pa.list_(pa.int16()),
    ),
    (
        [[1, 2], None, [3, None]],
        [[70_000, 1]],
        pa.list_(pa.int8(), 2),
        pa.list_(pa.int32(), 2),
    ),
    ([[1, 2], None, [3, 4]], [[1], None, []], pa.list_(pa.int8(), 2), pa.list_(pa.int8())),
    (
        [{"a": 1}, None, {"a": None}],
        [{"a": 2.5, "b": "x"}, None],
        pa.struct([("a", pa.int8())]),
        pa.struct([("a", pa.float64()), ("b", pa.string())]),
    ),
    (
        [[{"a": [1]}, None], None, [{"a": None}, {"a": []}]],
        [[{"b": True, "a": [300, None]}]],
        pa.list_(pa.struct([("a", pa.list_(pa.int8()))])),
        pa.list_(pa.struct([("b", pa.bool_()), ("a", pa.list_(pa.int64()))])),
    ),
]


@pytest.mark.parametrize(("left", "right", "one", "two"), NESTED, ids=str)
def test_parts_of_values_are_those_of_polars(
    left: list[Any], right: list[Any], one: pa.DataType, two: pa.DataType
) -> None:
    store = fresh_store()
    tables = [pa.table({"c": pa.array(v, k)}) for v, k in ((left, one), (right, two))]
    with options(segment_rows=2):
        store.write("x", tables[0])
        store.write("y", tables[1])
    found = answer(store, QueryBuilder().concat("y"))
    assert found.schema.field("c").type == promote("c", [one, two])
    if pa.types.is_fixed_size_list(one):  # Polars has no type for arrays and lists together
        assert found.column("c").to_pylist() == left + right
        return
    theirs = pl.concat([polars_frame(table) for table in tables], how="diagonal_relaxed")
    assert found.column("c").to_pylist() == theirs["c"].to_list()
    # Slices, and what lies under nulls.
    for start in range(1, 3):
        column = pa.chunked_array([pa.array(left, one).slice(start)])
        brought = brought_to(pa.table({"c": column}), found.schema, "concat")
        brought.validate(full=True)
        assert brought.column("c").to_pylist() == found.column("c").to_pylist()[start : len(left)]


def test_dictionaries_stay_and_decimals_take_whole_numbers() -> None:
    store = fresh_store()
    small = pa.dictionary(pa.int8(), pa.string())
    money = pa.array([1, 2, None], pa.int64()).cast(pa.decimal128(21, 2))
    store.write("x", pa.table({"s": pa.array(["a", "b", None]).cast(small), "m": money}))
    wide = pa.dictionary(pa.int16(), pa.string())
    store.write("y", pa.table({"s": pa.array(["b", "c"]).cast(wide), "m": [3, 2**62]}))
    found = answer(store, QueryBuilder().concat("y"))
    assert found.schema.field("s").type == pa.dictionary(pa.int32(), pa.string())
    assert found.column("s").to_pylist() == ["a", "b", None, "b", "c"]
    assert found.column("m").to_pylist() == [1, 2, None, 3, 2**62]
    grouped = answer(store, QueryBuilder().concat("y").groupby("s").agg(m=("m", "sum")))
    assert grouped.column("s").to_pylist() == ["a", "b", "c"]
    chosen = answer(store, QueryBuilder().concat("y").filter("s == 'b' and m > 1"))
    assert chosen.column("m").to_pylist() == [2, 3]


@pytest.mark.parametrize("verb", ["concat", "merge"])
def test_instants_that_the_finer_unit_cannot_count_are_refused_by_name(verb: str) -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": pa.array([2**40], pa.timestamp("s"))}), index="t")
    store.write("y", pa.table({"t": pa.array([1], pa.timestamp("ns"))}), index="t")
    with pytest.raises(IntegerOverflowError, match=rf"{verb}: column 't' is timestamp\[s\]"):
        store.read("x", query=getattr(QueryBuilder(), verb)("y"))

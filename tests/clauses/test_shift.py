"""shift against pandas, Polars and a list in plain Python, for every type and cut."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder, Shift
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, PlanError, UnsupportedTypeError
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import polars_frame, same_rows
from tests.strategies.tables import as_dictionary, bits, cut_into_segments, tables

Q = QueryBuilder()
keyed = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(-9, 9)), max_size=25
)


def _table(rows: list[tuple[Any, Any]]) -> pa.Table:
    return pa.table(
        {
            "k": as_dictionary(pa.array([k for k, _ in rows], pa.string())),
            "v": pa.array([v for _, v in rows], pa.int64()),
        }
    )


@settings(max_examples=25)
@given(data=st.data())
def test_every_type_and_cut(data: st.DataObject) -> None:
    table = data.draw(tables())
    n = data.draw(st.integers(-4, 4))
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    pairs = {f"moved {name}": name for name in table.column_names}
    found = answer(store, Q.shift(pairs, n), [SETTINGS[0], data.draw(st.sampled_from(SETTINGS))])
    for new, name in pairs.items():
        values = bits(table.column(name))
        moved = [values[at - n] if 0 <= at - n < len(values) else None for at in range(len(values))]
        assert found.schema.field(new).type == table.schema.field(name).type
        assert bits(found.column(new)) == moved
        assert bits(found.column(name)) == values


@settings(max_examples=25)
@given(rows=keyed, n=st.integers(-3, 3), cut=st.integers(1, 6))
def test_by_keys_is_that_of_polars(rows: list[tuple[Any, Any]], n: int, cut: int) -> None:
    table = _table(rows)
    found = answer(stored(table, rows=cut), Q.shift({"w": "v"}, n, by="k", fill=100))
    frame = polars_frame(table).with_columns(pl.col("k").cast(pl.String))
    moved = frame.with_columns(w=pl.col("v").shift(n, fill_value=100).over("k"))
    assert same_rows(found.select(["w"]), moved.select("w").to_arrow())


@settings(max_examples=25)
@given(rows=keyed, n=st.integers(-3, 3), cut=st.integers(1, 6))
def test_by_keys_is_that_of_pandas(rows: list[tuple[Any, Any]], n: int, cut: int) -> None:
    table = _table([row for row in rows if row[0] is not None])
    found = answer(stored(table, rows=cut), Q.shift("v", n, by="k"))
    frame = pd.DataFrame(
        {"k": table.column("k").to_pylist(), "v": pd.array(table["v"].to_pylist(), "Int64")}
    )
    moved = frame.groupby("k", sort=False)["v"].shift(n)
    assert found.column("v").to_pylist() == [None if v is pd.NA else int(v) for v in moved]


def test_several_keys_columns_and_shifts() -> None:
    table = pa.table({"a": [1, 1, 2, 1, 2], "b": [0.0, -0.0, 1.0, None, 1.0], "v": list("pqrst")})
    query = Q.shift({"one": "v", "two": "b"}, 1, by=["a", "b"]).shift({"next": "one"}, -2)
    found = answer(stored(table, rows=1), query)
    assert found.column("one").to_pylist() == [None, "p", None, None, "r"]
    assert found.column("two").to_pylist() == [None, 0.0, None, None, 1.0]
    assert found.column("next").to_pylist() == [None, None, "r", None, None]


def test_after_what_drops_rows_and_before_it() -> None:
    store = stored({"v": list(range(20))}, rows=3)
    odd = answer(store, Q.filter("v % 2 == 1").shift({"w": "v"}, 2).filter("w > 4").head(3))
    assert odd.column("w").to_pylist() == [5, 7, 9]
    ahead = answer(store, Q.filter("v % 5 == 0").shift({"w": "v"}, -1).select("w"))
    assert ahead.column("w").to_pylist() == [5, 10, 15, None]
    # A filter stays behind: the row before is one that the filter drops.
    assert answer(store, Q.shift({"w": "v"}).filter("v == 7")).to_pylist() == [{"v": 7, "w": 6}]


@pytest.mark.parametrize(
    ("kind", "fill", "value"),
    [
        (pa.int8(), 7, 7),
        (pa.float32(), 1, 1.0),
        (pa.bool_(), True, True),
        (pa.decimal128(5, 2), Decimal("1.25"), Decimal("1.25")),
        (pa.string(), "x", "x"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
        (pa.duration("ms"), 5, pd.Timedelta(5, "ms").to_pytimedelta()),
        (pa.date32(), "2020-02-03", pd.Timestamp("2020-02-03").date()),
        (pa.timestamp("us"), "2020-02-03T04:05", pd.Timestamp("2020-02-03T04:05")),
        (pa.list_(pa.int8()), None, None),
    ],
    ids=str,
)
def test_fill_values(kind: pa.DataType, fill: Any, value: Any) -> None:
    table = pa.table({"v": pa.nulls(3, kind)})
    found = answer(stored(table), Q.shift("v", 2, fill=fill))
    assert found.schema.field("v").type == kind
    assert found.column("v").to_pylist() == [value, value, None]


@pytest.mark.parametrize(
    ("kind", "fill"),
    [
        (pa.int8(), 300),
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.int64(), "1"),
        (pa.float64(), 2**53 + 1),
        (pa.bool_(), 1),
        (pa.decimal128(3, 1), 1.25),
        (pa.string(), 1),
        (pa.timestamp("us"), "soon"),
        (pa.timestamp("us"), 5),
        (pa.list_(pa.int8()), 5),
    ],
    ids=str,
)
def test_fill_values_that_a_type_does_not_hold_are_refused(kind: pa.DataType, fill: Any) -> None:
    store = stored({"v": pa.nulls(3, kind)})
    with pytest.raises(PlanError, match=r"shift: column 'v' of type .* does not hold"):
        store.schema("x", Q.shift("v", fill=fill))


def test_misuse_is_refused() -> None:
    store = stored({"price": [1, 2], "l": pa.array([[1], [2]])})
    cases: list[tuple[Any, Any, str]] = [
        (lambda: Q.shift("prize"), ColumnNotFoundError, "did you mean 'price'"),
        (lambda: Q.shift("price", by="kee"), ColumnNotFoundError, "'kee'"),
        (lambda: Q.shift("price", by="l"), UnsupportedTypeError, "cannot be a key"),
        (lambda: Q.shift(["price", "price"]), DuplicateColumnError, "two columns named 'price'"),
        (lambda: Q.shift([]), PlanError, "needs a column"),
        (lambda: Q.shift({"": "price"}), PlanError, "no column name"),
        (lambda: Q.shift(3), PlanError, "takes names of columns"),
        (lambda: Q.shift("price", 1.5), PlanError, "whole number of rows"),
        (lambda: Shift((("p", "price"),), (), True), PlanError, "whole numbers of rows"),
        (lambda: Q.shift("price", 2**63), PlanError, "further than rows can be counted"),
        (lambda: Q.shift("price", fill=[1]), PlanError, "no constant"),
        (lambda: Q.shift("price", by=3), PlanError, "by takes names"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):
            store.read("x", query=make())


def test_replacing_the_index_takes_its_role_away() -> None:
    store = stored({"t": pa.array([1, 2, 3], pa.timestamp("s")), "v": [1, 2, 3]}, index="t")
    assert store.schema("x", Q.shift("v")).index == "t"
    assert store.schema("x", Q.shift("t")).index is None
    found = answer(store, Q.shift({"then": "t"}).date_range("1970-01-01T00:00:02"))
    assert found.column("then").cast(pa.int64()).to_pylist() == [1, 2]


def test_further_than_any_row() -> None:
    store = stored({"v": [1, 2, 3]}, rows=1)
    for n in (2**62, -(2**62)):
        assert answer(store, Q.shift("v", n, by="v")).column("v").to_pylist() == [None] * 3

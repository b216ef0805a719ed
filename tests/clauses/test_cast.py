"""cast: what the operator says, by column; values that do not fit are named, or become missing."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    ExpressionError,
    ExpressionTypeError,
    PlanError,
)
from tessel.expression import col
from tests.clauses.helpers import SETTINGS, answer, stored

Q = QueryBuilder()


@settings(max_examples=40)
@given(
    values=st.lists(st.none() | st.integers(-300, 300), max_size=20),
    kind=st.sampled_from(["int8", "uint8", "int16", "float32", "string"]),
    cut=st.integers(1, 7),
)
def test_values_are_those_of_polars(values: list[int | None], kind: str, cut: int) -> None:
    store = stored({"n": pa.array(values, pa.int64()), "m": values}, rows=cut)
    query = Q.cast({"n": kind}, strict=False)
    theirs = {
        "int8": pl.Int8, "uint8": pl.UInt8, "int16": pl.Int16, "float32": pl.Float32,
        "string": pl.String,
    }  # fmt: skip
    expected = pl.Series(values, dtype=pl.Int64).cast(theirs[kind], strict=False).to_list()
    found = answer(store, query, SETTINGS[:2])
    assert found.column("n").to_pylist() == expected
    assert found.column_names == ["n", "m"]
    fits = expected.count(None) == values.count(None)
    if fits:
        assert answer(store, Q.cast({"n": kind}), SETTINGS[:2]).equals(found)
    else:
        with pytest.raises(ExpressionError, match=f"a value of n .* cannot be cast to {kind}"):
            store.read("x", query=Q.cast({"n": kind}))


def test_texts_that_are_no_numbers_become_missing_only_if_told() -> None:
    store = stored({"s": ["1", "x", None, "-7", "2.5"]})
    found = answer(store, Q.cast({"s": pa.int64()}, strict=False))
    assert found.column("s").to_pylist() == [1, None, None, -7, None]
    with pytest.raises(ExpressionError, match="Failed to parse string: 'x'"):
        store.read("x", query=Q.cast({"s": pa.int64()}))


def test_several_at_once_and_a_type_that_it_has_already() -> None:
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us")), "a": [1, 2], "b": ["3", "4"]})
    store = stored(table, index="t")
    query = Q.cast({"b": "int32", "a": pa.decimal128(5, 1)})
    assert store.schema("x", query).index == "t"
    found = answer(store, query)
    assert found.schema.field("a").type == pa.decimal128(5, 1)
    assert found.column("b").to_pylist() == [3, 4]
    same = {"t": "timestamp[us]", "a": "int64"}
    assert store.schema("x", Q.cast(same)) == store.schema("x", Q)
    assert store.schema("x", Q.cast({"t": "timestamp[s]"})).index is None
    written = answer(store, Q.apply("a", col("a").cast("float64")))
    assert answer(store, Q.cast({"a": "float64"})).equals(written)


def test_head_after_cast_reads_no_more_than_is_wanted() -> None:
    store = stored({"s": ["1", "2", "x"]}, rows=1)
    assert answer(store, Q.cast({"s": "int8"}).head(2)).column("s").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({}, PlanError, "needs a column"),
        ({"Price": "int8"}, ColumnNotFoundError, "did you mean 'price'"),
        ({"l": "int8"}, ExpressionTypeError, "cast to int8"),
        ({"price": "number"}, ExpressionTypeError, "number"),
        ("price", PlanError, "a mapping"),
    ],
)
def test_misuse_is_refused(columns: Any, error: type[Exception], message: str) -> None:
    store = stored({"price": [1.0], "l": [[1]]})
    with pytest.raises(error, match=message):
        store.read("x", query=Q.cast(columns))


def test_two_types_for_one_column_are_refused() -> None:
    from tessel.clauses import Cast

    with pytest.raises(DuplicateColumnError, match="gives 'a' two types"):
        Cast((("a", "int8"), ("a", "int16")))

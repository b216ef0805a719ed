"""fill against lists in plain Python for every type, and against pandas and Polars."""

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
from tessel.errors import ExpressionTypeError, IndexColumnError, PlanError
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import polars_frame, same_rows
from tests.strategies.tables import bits, column_types, columns, cut_into_segments

Q = QueryBuilder()
floats = st.none() | st.integers(-9, 9).map(float) | st.just(float("nan"))


def _is_missing(column: pa.Array) -> list[bool]:
    if pa.types.is_floating(column.type):
        return [v is None or v != v for v in column.to_pylist()]
    if pa.types.is_dictionary(column.type):
        return _is_missing(column.dictionary_decode())
    return [not scalar.is_valid for scalar in column]


@settings(max_examples=30)
@given(data=st.data())
def test_forward_and_backward_for_every_type_and_cut(data: st.DataObject) -> None:
    kind = data.draw(column_types())
    rows = data.draw(st.integers(0, 20))
    column = data.draw(columns(kind, rows))
    keys = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=rows, max_size=rows))
    limit = data.draw(st.none() | st.integers(1, 3))
    table = pa.table({"k": pa.array(keys, pa.string()), "v": column})
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    under = [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))]
    values, missing = bits(column), _is_missing(column)
    for method, step in (("forward", 1), ("backward", -1)):
        for by in ((), ("k",)):
            found = answer(store, Q.fill("v", method, by=by, limit=limit), under).column("v")  # type: ignore[arg-type]
            wanted = list(values)
            last: dict[Any, tuple[Any, int]] = {}
            for row in range(rows)[::step]:
                key = keys[row] if by else None
                if not missing[row]:
                    last[key] = (values[row], 0)
                elif key in last:
                    value, passed = last[key]
                    last[key] = (value, passed + 1)
                    if limit is None or passed < limit:
                        wanted[row] = value
            assert found.type == kind
            assert bits(found) == wanted


def test_both_zeros_of_a_dictionary_stay_apart() -> None:
    """Arrow's ``take`` of chunks whose dictionaries differ makes one of them."""
    zeros = pa.DictionaryArray.from_arrays(pa.array([None, 1, None, 0]), pa.array([-0.0, 0.0]))
    store = stored({"k": ["a", "b", "a", "a"], "v": zeros}, rows=2)
    for by, wanted in (((), [0.0, 0.0, -0.0, -0.0]), (("k",), [-0.0, 0.0, -0.0, -0.0])):
        found = answer(store, Q.fill("v", "backward", by=by)).column("v")
        assert bits(found) == bits(pa.array(wanted))


@settings(max_examples=25)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), floats), max_size=20),
    limit=st.none() | st.integers(1, 3),
    cut=st.integers(1, 6),
)
def test_it_is_that_of_pandas_and_polars(
    rows: list[tuple[str, float | None]], limit: int | None, cut: int
) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.float64()),
        }
    )
    store = stored(table, rows=cut)
    grouped = table.to_pandas().groupby("k", sort=False)["v"]
    column = pl.col("v").fill_nan(None)
    for method, theirs, expression in (
        ("forward", grouped.ffill(limit=limit), column.forward_fill(limit)),
        ("backward", grouped.bfill(limit=limit), column.backward_fill(limit)),
    ):
        found = answer(store, Q.fill("v", method, by="k", limit=limit)).select(["v"])  # type: ignore[arg-type]
        assert same_rows(found, pa.table({"v": pa.array(theirs.to_numpy(), pa.float64())}))
        assert same_rows(found, polars_frame(table).select(expression.over("k")).to_arrow())


@settings(max_examples=25)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), floats, st.integers(0, 3)), max_size=20),
    cut=st.integers(1, 6),
    along=st.sampled_from(["rows", "time"]),
    keyed=st.booleans(),
    limit=st.none() | st.integers(1, 3),
)
def test_linear_is_the_line_between_neighbours(
    rows: list[tuple[str, float | None, int]], cut: int, along: Any, keyed: bool, limit: int | None
) -> None:
    keys = [k for k, _, _ in rows]
    values = [None if v is None or v != v else v for _, v, _ in rows]
    times = np.cumsum([step for *_, step in rows]).astype(int).tolist()
    table = pa.table(
        {
            "t": pa.array(times, pa.timestamp("ms")),
            "k": pa.array(keys, pa.string()),
            "v": pa.array([v for _, v, _ in rows], pa.float64()),
        }
    )
    query = Q.fill({"w": "v"}, "linear", by=["k"] if keyed else [], along=along, limit=limit)
    found = answer(stored(table, index="t", rows=cut), query).column("w").to_pylist()
    for row, value in enumerate(values):
        own = [r for r in range(len(rows)) if not keyed or keys[r] == keys[row]]
        before = [r for r in own if r < row and values[r] is not None]
        after = [r for r in own if r > row and values[r] is not None]
        if value is not None:
            assert found[row] == value
        elif (
            not before
            or not after
            or (limit is not None and own.index(row) - own.index(before[-1]) > limit)
        ):
            assert found[row] is None
        else:
            a, b = before[-1], after[0]
            at = times if along == "time" else {r: place for place, r in enumerate(own)}
            whole = at[b] - at[a]
            share = (at[row] - at[a]) / whole if whole else 0.0
            assert found[row] == values[a] + (values[b] - values[a]) * share


def test_linear_is_that_of_polars_and_pandas_but_for_the_ends() -> None:
    values = [None, 1.0, None, None, 2.5, None, 8.0, None]
    found = answer(stored({"v": values}, rows=3), Q.fill("v", "linear")).column("v").to_pylist()
    assert found == [None, 1.0, 1.5, 2.0, 2.5, 5.25, 8.0, None]
    assert found == pl.Series(values).interpolate().to_list()
    # pandas repeats the last value at the end unless told that only gaps are to be filled.
    series = pd.Series(values, dtype="float64").interpolate(limit_area="inside")
    assert same_rows(
        pa.table({"v": pa.array(found, pa.float64())}),
        pa.table({"v": pa.array(series.to_numpy(), pa.float64())}),
    )
    assert pd.Series(values, dtype="float64").interpolate().iloc[-1] == 8.0


def test_types_of_lines() -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 4], pa.int16()),
            "f": pa.array([1, None, 2], pa.float32()),
            "d": pa.array(["1.10", None, "1.20"]).cast(pa.decimal128(5, 2)),
        }
    )
    found = answer(stored(table, rows=1), Q.fill(["i", "f", "d"], "linear"))
    assert found.schema.types == [pa.float64(), pa.float32(), pa.float64()]
    assert found.to_pylist()[1] == {"i": 2.5, "f": 1.5, "d": 1.1 + (1.2 - 1.1) * 0.5}


def test_integers_past_those_that_doubles_hold_are_rounded() -> None:
    big = pa.array([2**63 - 1, None, -(2**63)], pa.int64())
    found = answer(stored(pa.table({"i": big}), rows=1), Q.fill("i", "linear"))
    assert found.column("i").to_pylist() == [2.0**63, 0.0, -(2.0**63)]


def test_a_constant() -> None:
    table = pa.table({"f": [None, float("nan"), 2.0], "s": ["a", None, None], "i": [1, None, 3]})
    found = answer(
        stored(table, rows=2), Q.fill(["f"], value=0).fill({"u": "s"}, value="?").fill("i", value=7)
    )
    assert found.column("f").to_pylist() == [0.0, 0.0, 2.0]
    assert found.column("u").to_pylist() == ["a", "?", "?"]
    assert found.column("i").to_pylist() == [1, 7, 3]
    assert found.column("s").to_pylist() == ["a", None, None]


def test_misuse_is_refused() -> None:
    store = stored({"v": [1, None], "s": ["a", None]})
    cases: list[tuple[Any, Any, str]] = [
        (lambda: Q.fill("v", "sideways"), PlanError, "method is 'sideways'"),
        (lambda: Q.fill("v", "value"), PlanError, "give the value to fill with"),
        (lambda: Q.fill("v", "backward", value=1), PlanError, "a value goes with"),
        (lambda: Q.fill("v", value="x"), PlanError, "does not hold 'x'"),
        (lambda: Q.fill("v", limit=1.5), PlanError, "limit is 1.5"),
        (lambda: Q.fill("v", limit=0), PlanError, "limit is 0"),
        (lambda: Q.fill("v", value=1, limit=1), PlanError, "limit is 1"),
        (lambda: Q.fill("v", along="time"), PlanError, "along is 'time'"),
        (lambda: Q.fill("v", "linear", along="time"), IndexColumnError, "fill"),
        (lambda: Q.fill("s", "linear"), ExpressionTypeError, "no line between values"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):
            store.read("x", query=make())

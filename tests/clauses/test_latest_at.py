"""latest_at against a search in plain Python, and against pandas and Polars as-of joins."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    IndexColumnError,
    PlanError,
)
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import polars_frame, same_rows
from tests.strategies.tables import (
    INDEX_TYPES,
    as_dictionary,
    bits,
    cut_into_segments,
    index_columns,
    tables,
)

Q = QueryBuilder()


def _integers(column: pa.ChunkedArray) -> list[int]:
    kind = column.type
    if pa.types.is_integer(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _as_asked(value: int, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return value
    if pa.types.is_date(kind):
        days = value // (86_400_000 if pa.types.is_date64(kind) else 1)
        return dt.date(1970, 1, 1) + dt.timedelta(days=days)
    text = str(np.datetime64(value, kind.unit))
    return text + "Z" if kind.tz else text


@settings(max_examples=25)
@given(data=st.data())
def test_every_type_of_index_and_column(data: st.DataObject) -> None:
    table = data.draw(tables(max_rows=15, max_columns=3))
    kind = data.draw(st.sampled_from(INDEX_TYPES))
    rows = table.num_rows
    table = table.append_column("t", data.draw(index_columns(kind, rows)))
    keys = data.draw(st.lists(st.sampled_from(["b", "a", None]), min_size=rows, max_size=rows))
    table = table.append_column("k", as_dictionary(pa.array(keys, pa.string())))
    store = fresh_store()
    data.draw(cut_into_segments(table, index="t")).write(store, "x")
    times = _integers(table.column("t"))
    step = 86_400_000 if pa.types.is_date64(kind) else 1
    near = st.integers(-2, 2).map(lambda n: n * step)
    chosen = st.sampled_from(times or [5 * step]).flatmap(
        lambda t: near.map(lambda n: max(t + n, 0))
    )
    asked = data.draw(st.lists(chosen, max_size=6))
    by = data.draw(st.sampled_from([(), ("k",)]))
    query = Q.latest_at([_as_asked(value, kind) for value in asked], by=by, origin="own")
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS))])
    wanted: list[tuple[int, int]] = []
    for time in sorted(set(asked)):
        last: dict[Any, int] = {}
        for row, own in enumerate(times):
            if own <= time:
                last[keys[row] if by else None] = row
        order = sorted(last, key=lambda key: (key is None, key or ""))
        wanted += [(time, last[key]) for key in order]
    assert _integers(found.column("t")) == [time for time, _ in wanted]
    taken = pa.array([row for _, row in wanted], pa.int64())
    for name in table.column_names:
        expected = table.column(name).take(taken)
        ours = found.column("own" if name == "t" else name)
        assert ours.type == expected.type
        assert bits(ours) == bits(expected), name


@settings(max_examples=20)
@given(
    steps=st.lists(st.integers(0, 3), max_size=20),
    asked=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    cut=st.integers(1, 6),
)
def test_it_is_an_asof_join(steps: list[int], asked: list[int], cut: int) -> None:
    times = pa.array(np.cumsum(np.array(steps, np.int64)), pa.int64()).cast(pa.timestamp("s"))
    table = pa.table({"t": times, "v": pa.array(range(len(steps)), pa.int64())})
    at = pa.array(sorted(set(asked)), pa.int64()).cast(pa.timestamp("s"))
    query = Q.latest_at(at.to_pylist(), origin="own").select("t", "v")
    found = answer(stored(table, index="t", rows=cut), query)
    left = pa.table({"t": at})
    theirs = pd.merge_asof(left.to_pandas(), table.to_pandas(), on="t").dropna()
    assert found.column("v").to_pylist() == theirs["v"].astype(int).tolist()
    # Polars, too, takes the last of equal times; both keep times without a row, which we leave out.
    joined = polars_frame(left.cast(pa.schema([("t", pa.timestamp("us"))]))).join_asof(
        polars_frame(table.cast(pa.schema([("t", pa.timestamp("us")), ("v", pa.int64())]))), on="t"
    )
    joined = joined.drop_nulls().cast({"t": pl.Datetime("us")})
    assert same_rows(found, joined.to_arrow().cast(found.schema))


def test_the_result_has_the_times_as_its_index() -> None:
    table = pa.table({"t": pa.array([10, 20, 30], pa.timestamp("s")), "v": [1, None, 3]})
    store = stored(table, index="t", rows=1)
    query = Q.latest_at(["1970-01-01T00:00:25", "1970-01-01T00:00:05", "1971"])
    assert store.schema("x", query).index == "t"
    found = answer(store, query)
    assert found.column("t").cast(pa.int64()).to_pylist() == [25, 31_536_000]
    assert found.column("v").to_pylist() == [None, 3]
    later = answer(store, query.date_range("1971").resample("1D").agg(s=("v", "sum")))
    assert later.column("s").to_pylist() == [3]
    assert answer(store, Q.latest_at(dt.datetime(1970, 1, 1, 0, 0, 20))).num_rows == 1
    assert answer(store, Q.latest_at([])).num_rows == 0
    zoned = pa.table({"t": pa.array([0], pa.timestamp("s", "Asia/Tokyo")), "v": [1]})
    asked = Q.latest_at(["1970-01-01T08:59:59", "1970-01-01T09:00"])
    assert answer(stored(zoned, index="t"), asked).num_rows == 1


def test_misuse_is_refused() -> None:
    store = stored({"t": pa.array([1, 2], pa.timestamp("s")), "v": [1, 2]}, index="t")
    plain = stored({"v": [1, 2]})
    numbers = stored({"v": [1, 2]}, index="v")
    cases: list[tuple[Any, Any, Any, str]] = [
        (store, lambda: Q.latest_at("soon"), PlanError, "'soon' is not a date or time"),
        (store, lambda: Q.latest_at(5), PlanError, "5 is no time of an index"),
        (store, lambda: Q.latest_at("1970-01-01T00:00:00.5"), PlanError, "finer than the index"),
        (numbers, lambda: Q.latest_at(2**63), PlanError, "no value of an index of int64"),
        (numbers, lambda: Q.latest_at("1970"), PlanError, "no value of an index of int64"),
        (store, lambda: Q.latest_at([None]), PlanError, "None is none"),
        (plain, lambda: Q.latest_at("1970"), IndexColumnError, "latest_at"),
        (store, lambda: Q.latest_at("1970", by="k"), ColumnNotFoundError, "'k'"),
        (store, lambda: Q.latest_at("1970", by="t"), PlanError, "is no key"),
        (store, lambda: Q.latest_at("1970", origin="v"), DuplicateColumnError, "'v' already"),
        (store, lambda: Q.latest_at("1970", origin=""), PlanError, "no column name"),
    ]
    for case, make, error, text in cases:
        with pytest.raises(error, match=text):
            case.read("x", query=make())

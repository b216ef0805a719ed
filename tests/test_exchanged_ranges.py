"""A range whose ends are exchanged is an error wherever one enters; an empty one is empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import InvalidInputError
from tessel.store.events import LiveStore, Recorder
from tests.clauses.helpers import fresh_store

Q = ts.QueryBuilder()


@pytest.fixture
def store() -> ts.Store:
    store = fresh_store()
    times = pa.array([1_000, 2_000, 3_000], pa.int64())
    table = pa.table({"t": times.cast(pa.timestamp("ns")).cast(pa.timestamp("us")), "v": [1, 2, 3]})
    store.write("x", table, index="t")
    store.write("n", pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}), index="t")
    return store


@pytest.fixture
def live() -> LiveStore:
    live = LiveStore()
    with Recorder(live) as recorder:
        for n in (1, 2, 3):
            recorder.log("e", {"v": n}, frame=n, at=np.datetime64(n, "ns"))
    return live


AT = [pd.Timestamp(2_000), pd.Timestamp(1_000)]
ROW = pa.table({"t": pa.array([], pa.timestamp("us")), "v": pa.array([], pa.int64())})
RANGES: dict[str, Callable[[ts.Store, Any, Any], object]] = {
    "clause": lambda s, a, b: s.read("x", query=Q.date_range(a, b)),
    "clause after a filter": lambda s, a, b: s.read("x", query=Q.filter("v > 0").date_range(a, b)),
    "clause, left": lambda s, a, b: s.schema("x", Q.date_range(a, b, closed="left")),
    "clause, neither": lambda s, a, b: s.explain("x", Q.date_range(a, b, closed="neither")),
    "read": lambda s, a, b: s.read("x", date_range=(a, b)),
    "read_many": lambda s, a, b: s.read_many(["x"], date_range=(a, b)),
    "lazy": lambda s, a, b: s.scan("x").date_range(a, b).collect(),
    "update": lambda s, a, b: s.update("x", ROW, date_range=(a, b)),
    "delete_rows": lambda s, a, b: s.delete_rows("x", date_range=(a, b)),
    "transaction": lambda s, a, b: s.transaction("r").__enter__().read("x", times=(a, b)),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(
    "ends",
    [
        AT,
        ["1970-01-02", "1970-01-01"],
        ["1971", "1970-12"],
        [np.datetime64(2, "ns"), np.datetime64(1, "ns")],
    ],
    ids=str,
)
def test_times_that_are_exchanged(store: ts.Store, name: str, ends: list[Any]) -> None:
    before = store.version
    with pytest.raises(InvalidInputError, match="ends before it begins"):
        RANGES[name](store, *ends)
    assert store.version == before


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(
    "ends",
    [
        AT[:1] * 2,
        ["1970-01-01T00", "1970"],
        [np.datetime64(1, "ns"), np.datetime64(2, "ns")],  # none of the index lies between
    ],
    ids=str,
)
def test_times_that_are_not(store: ts.Store, name: str, ends: list[Any]) -> None:
    RANGES[name](store, *ends)


def test_an_empty_range_is_empty(store: ts.Store) -> None:
    for closed in ("left", "right", "neither"):
        query = Q.date_range(AT[0], AT[0], closed=closed)  # type: ignore[arg-type]
        assert len(store.read("x", query=query)) == 0
    ends = np.datetime64(1_001, "ns"), np.datetime64(1_002, "ns")
    store.delete_rows("x", date_range=ends)
    store.update("x", ROW, date_range=ends)
    assert len(store.read("x")) == 3
    assert len(store.read("x", query=Q.row_range(2, 2))) == 0
    assert len(store.read("x", query=Q.row_range(-1, 1))) == 0  # told by the number of rows alone


@pytest.mark.parametrize("ends", [(2, 1), (-1, -2), (np.int64(2), np.int64(1))], ids=str)
def test_rows_that_are_exchanged(store: ts.Store, ends: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="ends before it begins"):
        Q.row_range(*ends)
    if ends[0] > 0:
        with pytest.raises(InvalidInputError, match="ends before it begins"):
            store.delete_rows("x", rows=ends)
        with (
            store.transaction("r") as transaction,
            pytest.raises(InvalidInputError, match="ends before it begins"),
        ):
            transaction.read("x", rows=ends)
    store.delete_rows("x", rows=(1, 1))
    assert len(store.read("x")) == 3


def test_numbers_that_are_exchanged(store: ts.Store) -> None:
    with pytest.raises(InvalidInputError, match="ends before it begins"):
        store.delete_rows("n", date_range=(2, 1))
    with pytest.raises(InvalidInputError, match="ends before it begins"):
        store.delete_rows("n", date_range=(np.int64(2), 1))
    store.delete_rows("n", date_range=(np.int64(2), 2))
    assert store.read("n").to_arrow()["v"].to_pylist() == [1, 3]


def test_live_times_that_are_exchanged(live: LiveStore) -> None:
    for timeline, first, last in (
        ("frame", 2, 1),
        ("at", np.datetime64(2, "ns"), np.datetime64(1, "ns")),
    ):
        with pytest.raises(InvalidInputError, match="ends before it begins"):
            live.range(timeline, first, last, "e")
        with pytest.raises(InvalidInputError, match="ends before it begins"):
            live.drop_range(timeline, first, last)
        assert len(live) == 3
        assert live.range(timeline, last, last, "e").num_rows == 1
    assert live.drop_after("frame", 2**63 - 1) == 0
    assert live.drop_range("frame", 2, 2) == 1

"""agg("sum"): all columns that can, as if each had been named."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import tessel as ts
from tessel.errors import AggregateError, NameNotFoundError

ROWS = 60


@pytest.fixture
def store() -> ts.Store:
    found = ts.open("memory://")
    rows = {
        "t": [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=n) for n in range(ROWS)],
        "k": ["a", "b", "c"] * 20,
        "v": [None if n % 7 == 0 else n for n in range(ROWS)],
        "f": [n / 4 for n in range(ROWS)],
        "l": [[n] for n in range(ROWS)],
        "ok": [n % 2 == 0 for n in range(ROWS)],
    }
    found.write("a", rows, index="t")
    return found


def _grouped(query: Any) -> list[tuple[Any, set[str]]]:
    """Return queries that wait for agg, each with the columns that are keys."""
    return [
        (query, set()),
        (query.groupby("k"), {"k"}),
        (query.groupby("k", sort=False), {"k"}),
        (query.groupby(ts.col("f").floor().alias("w"), drop_missing=False), set()),
        (query.resample("10min"), set()),
        (query.resample("7min", by="k"), {"k"}),
        (query.resample("3min", empty="ffill"), set()),
    ]


CAN = {
    **dict.fromkeys(("sum", "mean", "median"), "v f ok"),
    **dict.fromkeys(("max", "nunique"), "k v f ok"),
    **dict.fromkeys(("first", "count"), "k v f l ok"),
    "any": "ok",
}


@pytest.mark.parametrize(("how", "can"), CAN.items())
def test_as_if_each_column_was_named(store: ts.Store, how: str, can: str) -> None:
    for grouped, keys in _grouped(store.scan("a")):
        named = {name: (name, how) for name in can.split() if name not in keys}
        found, wanted = grouped.agg(how), grouped.agg(**named)
        assert found.schema() == wanted.schema()
        assert found.collect().to_arrow().equals(wanted.collect().to_arrow())


def test_a_plan_survives_json() -> None:
    for grouped, _ in _grouped(ts.QueryBuilder()):
        query = grouped.agg("sum").head(3)
        assert ts.QueryBuilder.from_json(query.to_json()) == query


def test_misuse_is_told(store: ts.Store) -> None:
    lazy = store.scan("a")
    with pytest.raises(NameNotFoundError, match="no aggregate 'smu'") as caught:
        lazy.agg("smu")
    assert "did you mean 'sum'" in str(caught.value)
    with pytest.raises(AggregateError, match="counts rows"):
        lazy.agg("size")
    with pytest.raises(AggregateError, match="stands alone"):
        lazy.agg("sum", n="count")
    with pytest.raises(AggregateError, match="not one aggregate but several"):
        lazy.agg("ohlc")
    for how in ("weighted_mean", "vwap"):
        with pytest.raises(AggregateError, match="is of more columns than one"):
            lazy.groupby("k").agg(how)
    with pytest.raises(AggregateError, match="there is no column to compute 'mean' of"):
        lazy.select("t", "k").agg("mean").collect()

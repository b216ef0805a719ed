"""Codes of floats keep the sign of zero, wherever rows of several segments come together.

Arrow's ``take``, ``combine_chunks`` and ``concat_arrays`` join dictionaries that differ, and give
0.0 for -0.0; see :func:`tessel.arrays.unified`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tessel as ts
from tessel.clauses.values import with_used_entries
from tests.strategies.tables import bits

Q = ts.QueryBuilder()
ZEROS = pa.DictionaryArray.from_arrays(
    pa.array([1, 0, 1, 0, 0, 1], pa.int32()), pa.array([-0.0, 0.0])
)
TABLE = pa.table(
    {
        "t": pa.array(range(6), pa.timestamp("us")),
        "c": ZEROS,
        "k": ["a", "b"] * 3,
        "o": [5, 4, 3, 2, 1, 0],
    }
)
QUERIES = {
    "read": Q,
    "filter": Q.filter("o < 5"),
    "shift": Q.shift({"m": "c"}, 1),
    "shift by key": Q.shift({"m": "c"}, 1, by="k"),
    "fill": Q.fill({"m": "c"}, method="forward"),
    "sort": Q.sort("o"),
    "top_k": Q.top_k(4, by="o"),
    "distinct": Q.distinct("o"),
    "take": Q.take([3, 0, 5, 1]),
    "sample": Q.sample(n=4, seed=1),
    "first": Q.groupby("k").agg(m=("c", "first"), n=("c", "last"), o=("c", "min")),
    "resample": Q.resample("2us").agg(m=("c", "first")),
    "rolling": Q.rolling(2).agg(m=("c", "last")),
    "latest_at": Q.latest_at("1970-01-01T00:00:00.000004", by=["k"]),
    "join": Q.join("y", on="o"),
    "join_asof": Q.join_asof("y", by="k"),
    "merge": Q.merge("y"),
    "concat": Q.concat("y"),
}


def _answer(name: str, rows: int, **options: Any) -> list[list[Any]]:
    store = ts.open("memory://")
    with ts.options(segment_rows=rows, workers=1):
        store.write("x", TABLE, index="t")
        store.write("y", TABLE, index="t")
    with ts.options(workers=1, **options):
        return [bits(column) for column in store.read("x", query=QUERIES[name]).to_arrow().columns]


@pytest.mark.parametrize("name", QUERIES)
def test_the_sign_of_zero_stays_whatever_the_cut(name: str) -> None:
    whole = _answer(name, 1000)
    assert _answer(name, 1) == whole
    assert _answer(name, 1, live_bytes=0) == whole


def test_one_table_is_the_oracle_of_what_is_read() -> None:
    assert _answer("read", 1)[1] == bits(TABLE.column("c"))
    assert len(set(map(str, _answer("read", 1)[1]))) == 2


def test_entries_that_are_dropped_leave_one_dictionary() -> None:
    """Chunks of one dictionary use different entries: Arrow would join what is left of it."""
    chunks = [ZEROS.slice(at, 1) for at in range(len(ZEROS))]
    table = with_used_entries(pa.table({"c": pa.chunked_array(chunks)}))
    assert bits(table.combine_chunks().column("c")) == bits(ZEROS)

"""Answers on a symbol that was edited: those of its rows, written anew in one go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.compare import first_difference
from tessel.options import options
from tests.clauses.bound_chains import TakesTable
from tests.clauses.helpers import answer, fresh_store

Q = QueryBuilder()

QUERIES = {
    "median": Q.resample("7s").agg(m=("n", "median"), c="size"),
    "median behind a filter": Q.filter("n > 1").resample("7s").agg(m=("n", "median"), c="size"),
    "median behind a table": Q.then(TakesTable()).resample("7s").agg(m=("n", "median"), c="size"),
    "median by key": Q.resample("7s", by="k").agg(m=("n", "median"), c="size"),
    "median of all buckets": Q.resample("3s", empty="null").agg(m=("n", "median"), c="size"),
    "median from the end": Q.resample("7s", origin="end").agg(m=("n", "median"), c="size"),
    "sum": Q.resample("7s").agg(s=("n", "sum"), f=("n", "first"), l=("n", "last"), c="size"),
    "of two": Q.resample("2s").agg(s=("n", "sum")).resample("9s").agg(m=("s", "median"), c="size"),
    "range of dates": Q.date_range("1970-01-01T00:00:09", "1970-01-01T00:00:21"),
    "latest at": Q.latest_at("1970-01-01T00:00:19"),
    "rolling": Q.rolling("5s").agg(m=("n", "sum"), c=("n", "count")),
    "as of": Q.join_asof("x"),
    "merge": Q.merge("x"),
    "head and tail": Q.tail(20).head(7),
    "whole": Q.agg(b=("t", "min"), e=("t", "max"), f=("n", "first"), m=("n", "median"), c="size"),
    "counts": Q.agg(n=("f", "count"), w=("w", "count"), l=("w", "min"), h=("f", "max"), c="size"),
    "missing": Q.filter("f is missing").agg(w=("w", "count"), c="size"),
    "not missing": Q.filter("w is not missing and f is not missing").select("t", "w"),
    "missing or small": Q.filter("w is missing or f < 3").agg(n=("f", "count"), c="size"),
    "top": Q.top_k(5, by="t", descending=False),
    "groups": Q.groupby("k").agg(f=("n", "first"), l=("n", "last"), t=("t", "max"), b=("t", "min")),
}


def _table(random: np.random.Generator, rows: int, start: int = 0) -> pa.Table:
    times = start + np.cumsum(random.integers(0, 3, rows))
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("s")),
            "n": random.integers(0, 9, rows),
            "k": random.choice(["a", "b"], rows),
            "f": _runs(random, [None, float("nan"), 1.0, 2.0, 5.0], rows, pa.float64()),
            "w": _runs(random, [None, None, "a", "b"], rows, pa.string()),
        }
    )


def _runs(random: np.random.Generator, values: list[Any], rows: int, type_: Any) -> pa.Array:
    """Draw a column of short runs, so that slices lose all or none of what is missing."""
    picks = np.repeat(random.integers(0, len(values), rows), 3)[:rows]
    return pa.array([values[pick] for pick in picks], type_)


def _edit(draw: Any, store: Store, random: np.random.Generator) -> None:
    """Draw one edit of the symbol ``x``, which has rows before and after."""
    kinds = ["delete rows", "delete where", "update", "append", "add column", "compact"]
    kind = draw(st.sampled_from(kinds))
    times = store.read("x", columns=["t"]).to_arrow().column("t").cast(pa.int64()).to_pylist()
    rows = len(times)
    if kind == "delete rows" and rows > 1:
        start = draw(st.integers(0, rows - 1))
        stop = draw(st.integers(start + 1, rows))
        if stop - start < rows:
            store.delete_rows("x", rows=(start, stop))
    elif kind == "delete where" and rows > 20:
        store.delete_rows("x", where=f"n == {draw(st.integers(0, 8))}")
    elif kind == "update":
        store.update("x", _table(random, draw(st.integers(1, 6)), draw(st.sampled_from(times))))
    elif kind == "append":
        store.append("x", _table(random, draw(st.integers(1, 6)), times[-1]))
    elif kind == "add column":  # rows that an edit cut are told of anew
        store.add_column("x", "added", 0, data_type=pa.int64())
        store.drop_column("x", "added")
    else:
        store.compact("x")


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=25)
@given(data=st.data())
def test_an_edited_symbol_answers_like_its_rows(name: str, data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    edited, anew = fresh_store(), fresh_store()
    size, columns = data.draw(st.integers(3, 20)), data.draw(st.integers(1, 3))
    with options(segment_rows=size, segment_columns=columns):
        edited.write("x", _table(random, data.draw(st.integers(8, 60))), index="t")
        for _ in range(data.draw(st.integers(1, 4))):
            _edit(data.draw, edited, random)
    anew.write("x", edited.read("x").to_arrow(), index="t")
    found, wanted = answer(edited, QUERIES[name]), answer(anew, QUERIES[name])
    assert first_difference(found, wanted) is None


def test_a_count_of_rows_that_were_cut_and_written_again_reads_them() -> None:
    store = fresh_store()
    store.write("x", pa.table({"i": pa.array([1, None, None, 4, None, 6], pa.int64())}))
    store.delete_rows("x", rows=(2, 5))
    store.add_column("x", "m", 0, data_type=pa.int64())
    found = store.read("x", query=QueryBuilder().agg(n=("i", "count"), rows="size"))
    assert found.to_arrow().to_pylist() == [{"n": 2, "rows": 3}]

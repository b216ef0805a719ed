"""The error of a query is that of its first failing row, however its rows are cut into units."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel import TesselError, options
from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tests.clauses.helpers import SETTINGS, fresh_store

Q = QueryBuilder()

STEPS = {
    "s": Q.apply("z", "cast(s, 'int64')"),
    "n": Q.cast({"n": "int8"}),
    "a": Q.apply("y", "a * 4"),
    "u": Q.filter("cast(u, 'int16') is not missing"),
}
"""Each fails for what :data:`WRONG` holds in the column of its name, and for nothing else."""

FINE, WRONG = "fine", "wrong"


def _column(name: str, rows: Sequence[dict[str, str]]) -> pa.Array:
    """Return a column of numbers, each of a row of its own, wrong where the rows say so."""
    wrong = [row[name] == WRONG for row in rows]
    if name in "su":
        return pa.array([f"word{at}" if bad else str(at) for at, bad in enumerate(wrong)])
    size = 1 << 62 if name == "a" else 1_000
    return pa.array([size + at if bad else at for at, bad in enumerate(wrong)], pa.int64())


def _first(rows: Sequence[dict[str, str]], names: Sequence[str]) -> tuple[int, str] | None:
    for at, row in enumerate(rows):
        for name in names:
            if row[name] == WRONG:
                return at, name
    return None


def _stored(rows: Sequence[dict[str, str]], segment_rows: int) -> Store:
    store = fresh_store()
    with options(segment_rows=segment_rows, segment_columns=2):
        store.write("x", pa.table({name: _column(name, rows) for name in STEPS}))
        store.write("few", pa.table({"b": pa.array([1], pa.int64())}))
    return store


@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.sampled_from([FINE, FINE, WRONG]) for name in STEPS}),
        min_size=1,
        max_size=20,
    ),
    names=st.permutations(["s", "n", "a"]),
    before=st.sampled_from([Q, Q.sort("n"), Q.concat("few"), Q.join("few", {"n": "b"}, "left")]),
    segment_rows=st.integers(1, 20),
    setting=st.sampled_from(SETTINGS),
)
def test_the_first_row_that_fails_tells(
    rows: list[dict[str, str]],
    names: list[str],
    before: QueryBuilder,
    segment_rows: int,
    setting: dict[str, int],
) -> None:
    if before == Q:
        names = ["u", *names]  # where the planner moves a filter to
    if before == Q.sort("n"):
        rows = sorted(rows, key=lambda row: row["n"] == WRONG)  # the order that they get
    store = _stored(rows, segment_rows)
    query = before
    for name in names:
        query = query.then(*STEPS[name].clauses)
    expected = _first(rows, names)
    with options(**setting):
        if expected is None:
            assert store.read("x", query=query).to_arrow().num_rows >= len(rows)
            return
        with pytest.raises(TesselError) as caught:
            store.read("x", query=query)
    at, name = expected
    (clause,) = STEPS[name].clauses
    assert caught.value.context["clause"] == clause.describe()
    if name != "a":  # which tells no value
        assert str(_column(name, rows)[at]) in str(caught.value)


def test_values_that_do_not_go_together_are_told_by_the_first_row() -> None:
    store = fresh_store()
    times = pa.array([0, 1 << 40, 1 << 60, 1 << 61], pa.timestamp("s"))
    with options(segment_rows=3):
        store.write("x", pa.table({"t": times, "s": ["1", "2", "3", "x"]}))
        store.write("y", pa.table({"t": pa.array([0], pa.timestamp("ns")), "s": ["4"]}))
    query = Q.concat(SubQuery("y")).apply("z", "cast(s, 'int64')")
    with pytest.raises(TesselError, match="becomes timestamp") as caught:
        store.read("x", query=query)
    assert str(1 << 40) in str(caught.value.to_json()["detail"])

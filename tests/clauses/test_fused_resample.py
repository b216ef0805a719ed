"""Row-wise clauses before a resample run in its units: no barrier, and the same answer."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.options import options
from tests.clauses.helpers import answer, events, stored

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)
ROWS = 120


@pytest.fixture(scope="module")
def store() -> Store:
    """Ten minutes a row, in slices of four rows whose buckets touch and overlap."""
    times = [START + dt.timedelta(minutes=10 * n) for n in range(ROWS)]
    values = np.random.default_rng(3).integers(0, 50, ROWS)
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "a": values, "b": np.arange(ROWS)})
    return stored(table, index="t", rows=4, columns=2)


BEFORE = {
    "date range": Q.date_range("2021-01-01T03:25", "2021-01-01T15:05"),
    "filter": Q.filter("a > 10"),
    "filter that leaves slices empty": Q.filter("b < 9 or b > 40"),
    "computed": Q.apply("c", "a * 2").filter("c > 30").select("t", "b", "a", "c"),
    "renamed": Q.rename({"t": "u", "a": "x"}).filter("x > 3").rename({"x": "a"}),
}


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("rule", ["25min", "1h", "7h", "1D"])
def test_fused_and_apart_give_the_same(store: Store, name: str, rule: str) -> None:
    query = BEFORE[name].resample(rule).agg(m=("a", "median"), n=("b", "nunique"))
    plan = store.scan("x").then(*query.clauses).plan()
    assert [clause.name for clause in plan.stages[0].clauses][-1] == "resample"
    # Rows that were read before the buckets are formed, written as a table of their own.
    rows = answer(store, BEFORE[name])
    apart = stored(rows, index=rows.column_names[0], rows=1_000)
    wanted = answer(apart, Q.resample(rule).agg(m=("a", "median"), n=("b", "nunique")))
    assert answer(store, query).equals(wanted)


def test_clauses_of_others_are_not_fused(store: Store) -> None:
    query = Q.drop_negative("a").resample("1h").agg(m=("a", "median"))
    stages = store.scan("x").then(*query.clauses).plan().stages
    assert [[clause.name for clause in stage.clauses] for stage in stages] == [
        ["drop_negative"],
        ["resample"],
    ]


def test_buckets_come_out_before_all_rows_are_read(store: Store) -> None:
    query = Q.filter("a > 10").resample("1h").agg(m=("a", "median"))
    with options(workers=1, inline_bytes=0), events("segment.read") as read:
        batches = store.scan("x").then(*query.clauses).iter_batches()
        next(batches)
        assert len(read) <= 3 * 2, "the first unit and those that share its buckets"
        batches.close()  # type: ignore[attr-defined]

"""Units of a store that is far: requests of many overlap, answers stay those of a near one."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tessel import api
from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.errors import IntegerOverflowError
from tessel.options import options
from tessel.store.history.documents import open_store
from tessel.store.objects.memory import MemoryObjects

Q = QueryBuilder()
SEGMENTS, ROWS = 24, 720_000  # smaller segments are read together
_numbers = itertools.count()


class _Far:
    """Objects in memory that are no memory to who asks; counts requests for segments."""

    def __init__(self) -> None:
        self.held = MemoryObjects(f"memory://far-{next(_numbers)}")
        self.lock = threading.Lock()
        self.requests = self.now = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        with self.lock:
            self.requests += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)  # others arrive meanwhile
        with self.lock:
            self.now -= 1
        return self.held.get_range(name, offset, length)


@pytest.fixture
def far() -> tuple[_Far, Store, pa.Table]:
    objects = _Far()
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "score": random.random(ROWS),
            "text": pa.array([f"w{at}" for at in random.integers(0, 900, ROWS)]),
        }
    )
    open_store(objects, create=True, read_only=False)  # type: ignore[arg-type]
    with options(segment_rows=ROWS // SEGMENTS):
        Store(objects, "id", read_only=False).write("x", table)  # type: ignore[arg-type]
    return objects, Store(objects, "id", read_only=True), table  # type: ignore[arg-type]


QUERIES = {
    "all": Q,
    "filter": Q.filter("score > 0.999"),
    "groups": Q.filter("score > 0.5").groupby("text").agg(n="size", s=("n", "sum")),
    "top": Q.top_k(5, "score"),
    "window": Q.cum_sum("n").filter("score < 0.01"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_requests_of_many_units_overlap(far: tuple[_Far, Store, pa.Table], name: str) -> None:
    objects, store, _ = far
    near = Store(objects.held, "id", read_only=True)
    with options(workers=2):
        found = store.read("x", query=QUERIES[name]).to_arrow()
        assert objects.most > 8  # twice the workers are 4
        assert found.equals(near.read("x", query=QUERIES[name]).to_arrow())
    with options(workers=1):
        assert store.read("x", query=QUERIES[name]).to_arrow().equals(found)


def test_small_columns_come_along_with_those_of_a_filter(
    far: tuple[_Far, Store, pa.Table],
) -> None:
    objects, store, _ = far
    store.view("x").index()  # what the plan takes is not counted
    objects.requests = 0
    with options(workers=2):
        store.read("x", query=QUERIES["filter"]).to_arrow()
    assert objects.requests == 2 * SEGMENTS  # metadata, and pages of all columns


@pytest.mark.parametrize(
    "query",
    [
        Q.sort("text"),
        Q.rolling(3, by="text").agg(m=("n", "mean")),
        Q.groupby("text").agg(n=("n", "count")),
        Q.select("text").distinct(),
        Q.select("n", "text"),
    ],
    ids=str,
)
def test_pages_without_a_selected_row_are_not_looked_at(query: QueryBuilder) -> None:
    """Of pages that zone maps cannot rule out, and a filter leaves no row of."""
    rows, random = 9 << 16, np.random.default_rng(3)
    middle = (np.arange(rows) >> 16) % 4 > 0
    score = np.where(middle, random.choice([0, 9.5], rows), random.choice([0, 4.5, 5, 9.5], rows))
    words = np.array([f"word number {at} of some length" for at in range(40)])
    table = pa.table({"n": np.arange(rows), "score": score, "text": random.choice(words, rows)})
    objects = _Far()
    open_store(objects, create=True, read_only=False)  # type: ignore[arg-type]
    Store(objects, "id", read_only=False).write("x", table)  # type: ignore[arg-type]
    store = Store(objects, "id", read_only=True)  # type: ignore[arg-type]
    found = store.read("x", query=Q.filter("score > 4 and score < 6").then(*query.clauses))
    kept = table.filter(pc.and_(pc.greater(table["score"], 4), pc.less(table["score"], 6)))
    near = api.open_store("memory://")
    near.write("x", kept)
    assert found.to_arrow().equals(near.read("x", query=query).to_arrow())


def test_a_query_that_may_end_early_reads_little_ahead(far: tuple[_Far, Store, pa.Table]) -> None:
    objects, store, table = far
    with options(workers=2, inline_bytes=0):
        found = store.read("x", query=Q.filter("score > 0.2").head(7)).to_arrow()
    assert found.equals(table.filter(pa.compute.greater(table["score"], 0.2)).slice(0, 7))
    assert objects.requests <= 4 * 5  # of some units, not of 24


def test_what_is_alive_stays_in_the_budget(far: tuple[_Far, Store, pa.Table]) -> None:
    objects, store, _ = far
    with options(workers=2, live_bytes=60_000):
        store.read("x", query=Q.select("n", "text"))
    assert objects.most <= 8


def test_the_first_error_in_order_wins(far: tuple[_Far, Store, pa.Table]) -> None:
    _, store, _ = far
    query = Q.apply("v", "(n + 9223372036854770000) * 1")
    messages = []
    for workers in (1, 2, 4):
        with options(workers=workers), pytest.raises(IntegerOverflowError) as caught:
            store.read("x", query=query)
        messages.append(str(caught.value))
    assert len(set(messages)) == 1


def test_no_thread_stays(far: tuple[_Far, Store, pa.Table]) -> None:
    _, store, _ = far
    with options(workers=2):
        parts = store.scan("x").iter_batches()
        next(parts)
        parts.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("tessel-pool")]

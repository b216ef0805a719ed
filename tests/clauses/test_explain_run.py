"""explain of a run: what the code that ran says of each clause and column."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel import telemetry
from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.display.documents import Table
from tessel.errors import IntegerOverflowError
from tessel.expression import col
from tessel.options import options
from tests.clauses.custom import DropNegative
from tests.clauses.helpers import fresh_store

Q = QueryBuilder()
ROWS = 40_000


@pytest.fixture(scope="module")
def store() -> Store:
    """Four segments of 10,000 rows; numbers in order, few words, two kinds of floats."""
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "s": pa.array(random.choice(["a", "b", "c"], ROWS)),
            "price": np.round(random.random(ROWS), 2),
            "raw": random.random(ROWS),
        }
    )
    store = fresh_store()
    with options(segment_rows=10_000):
        store.write("x", table)
        store.write("y", pa.table({"n": [5, 6, 20_000]}))
    return store


def _tables(store: Store, query: QueryBuilder) -> tuple[dict[str, Any], dict[str, Any], Table]:
    """Return units and rows by clause and form, reads by column, form and reader, and the first."""
    with options(workers=1):
        parts = store.explain("x", query, analyze=True).document.parts
    ran, read = parts[-2:]
    assert isinstance(ran, Table)
    assert isinstance(read, Table)
    clauses = {f"{name}: {form}": (units, rows) for name, form, units, rows, *_ in ran.rows}
    return clauses, {f"{c} {form} for {by}": n for c, form, by, n in read.rows}, ran


def test_what_is_bound_runs_in_the_kernel_of_the_clause_behind_it(store: Store) -> None:
    query = Q.filter((col("s") == "a") & (col("price") > 0.5)).apply("v", "n * 2")
    clauses, columns, ran = _tables(store, query.groupby("s").agg(v=("v", "sum")))
    inside = "bound, in the kernel of partial_aggregation"
    assert clauses["partial_aggregation: kernel on stored columns"][1] == "40,000 → 4"
    assert clauses[f"filter: {inside}"] == clauses[f"apply: {inside}"]
    assert set(columns) == {
        "n integers for partial_aggregation",
        "price scaled integers for partial_aggregation",
        "s dictionary codes for partial_aggregation",
    }
    assert ran.notes == ("result: 1 rows", "read for the result: 0 bytes in 0 reads")


def test_a_filter_says_whether_pages_kernels_or_values_answered(store: Store) -> None:
    query = Q.filter("n >= 10000").filter("n < 25000").filter("raw * raw < 0.25")
    clauses, columns, _ = _tables(store, query.select("price"))
    forms = {name.split(": ")[1] for name in clauses if name.startswith("filter")}
    assert forms == {"zone maps", "kernel on stored columns"}
    assert "price values for result of the scan" in columns
    clauses, columns, _ = _tables(store, Q.filter("raw % 0.5 < 0.25").select("price"))
    assert list(clauses) == ["filter: values"]
    assert "raw values for filter" in columns


def test_a_clause_that_asks_for_arrays_reads_values(store: Store) -> None:
    clauses, columns, ran = _tables(store, Q.then(DropNegative("n")))
    assert clauses["drop_negative: values, and bound"][0] == "4"
    assert "n values for drop_negative" in columns
    assert "raw values for result of the scan" in columns
    assert ran.notes[1].startswith("read for the result: ")


def test_what_is_spilled_is_told(store: Store) -> None:
    with options(live_bytes=20_000):
        _, _, ran = _tables(store, Q.sort("raw"))
    assert ran.notes[0] == f"result: {ROWS:,} rows"
    assert ran.notes[2].startswith("spilled: ")


def test_other_queries_of_the_process_are_not_told(store: Store) -> None:
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            store.read("x", query=Q.filter("s == 'b'").sort("n").head(3))

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(5):
            clauses, _, _ = _tables(store, Q.groupby("s").agg(v=("n", "max")))
            assert {name.split(":")[0] for name in clauses} == {
                "partial_aggregation",
                "merge_aggregation",
            }
    finally:
        stop.set()
        thread.join()


def test_an_error_of_the_run_is_that_of_the_query(store: Store) -> None:
    query = Q.apply("v", "n * 9223372036854775807")
    with pytest.raises(IntegerOverflowError) as read:
        store.read("x", query=query)
    with pytest.raises(IntegerOverflowError) as told:
        store.explain("x", query, analyze=True)
    assert str(told.value) == str(read.value)
    assert not telemetry.is_followed()


def test_nothing_is_said_to_be_unread_once_it_was_read(store: Store) -> None:
    assert "nothing was read" in str(store.explain("x", Q.head(1)))
    assert "nothing was read" not in str(store.explain("x", Q.head(1), analyze=True))

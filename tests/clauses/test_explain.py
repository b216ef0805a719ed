"""explain as people read it: what the planner did, what is dropped and why, stages and barriers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tests.clauses.helpers import events, fresh_store

Q = QueryBuilder()
PAGE = 1 << 16


@pytest.fixture(scope="module")
def store() -> Store:
    """Four pages in one segment, a row a minute; ``b`` is 0 in the first two pages and 1 after."""
    store = fresh_store()
    rows = np.arange(4 * PAGE)
    minutes = pa.array(rows * 60_000_000, pa.int64()).cast(pa.timestamp("us"))
    store.write("x", pa.table({"t": minutes, "a": rows, "b": rows // (2 * PAGE)}), index="t")
    store.write("y", pa.table({"t": minutes[:3], "a": pa.array([1, 2, 3], pa.int32())}), index="t")
    return store


def _golden(name: str) -> str:
    """Return the text that is expected."""
    return (Path(__file__).parent / "golden" / f"explain_{name}.txt").read_text(encoding="utf-8")


def _text(explanation: object) -> str:
    return re.sub(r"about [\d,]+ bytes", "about N bytes", str(explanation)) + "\n"


def test_one_symbol(store: Store) -> None:
    query = (
        Q.apply("c", "a + b")
        .filter("t >= '1970-03-01' and a < 200000 and b > 0 and 1 < 2")
        .select("c")
        .head(7)
    )
    with events("segment.read") as found:
        assert _text(store.explain("x", query, pages=True)) == _golden("one_symbol")
    assert not found


def test_several_symbols(store: Store) -> None:
    query = Q.merge("y").filter("a > 5").head(3)
    assert _text(store.explain("x", query)) == _golden("several_symbols")


def test_what_statistics_tell(store: Store) -> None:
    query = Q.filter("a < 1000000").agg(n="size", low=("a", "min"))
    assert _text(store.explain("x", query)) == _golden("statistics")


def test_pages_are_told_only_if_asked_for(store: Store) -> None:
    query = Q.filter("a > 5")
    assert "pages of" not in str(store.explain("x", query))
    assert "│ filter │ 4 → 4 │ 262,144 → 262,144 │     │" in str(
        store.explain("x", query, pages=True)
    )
    assert "pages of" not in str(store.explain("x", Q.head(5), pages=True))
    assert "pages of" not in str(store.explain("x", Q.filter("a < 0"), pages=True))


def test_rows_ruled_out_are_those_that_no_answer_has(store: Store) -> None:
    query = Q.date_range("1970-02-01", "1970-03-01").filter("a % 2 == 0 and b == 0")
    text = str(store.explain("x", query, pages=True))
    assert "│ date_range │ 4 → 2 │ 262,144 → 131,072 │" in text
    assert len(store.read("x", query=query)) <= 131_072

"""One big segment is run in pieces, and no answer depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts
from tessel.pipeline.plan import Plan, SourcePlan

ROWS = 1_040_000
PIECES = [(0, 524_288), (524_288, ROWS)]


@pytest.fixture(scope="module")
def store() -> Any:
    random = np.random.default_rng(5)
    store = ts.open("memory://")
    table = pa.table(
        {
            "t": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("ns")),
            "k": random.integers(0, 7, ROWS),
            "v": random.integers(-1000, 1000, ROWS),
        }
    )
    with ts.options(segment_columns=2):
        store.write("one", table, index="t")
    with ts.options(segment_rows=65_536):
        store.write("many", table, index="t")
    return store


def _source(plan: Plan) -> SourcePlan:
    source = plan.inputs[0]
    assert isinstance(source, SourcePlan)
    return source


def test_units_follow_the_byte_budget(store: Any) -> None:
    bytes_of_a_row = 24  # decoded, of three columns
    for budget, rows in ((1 << 20, 65_536), (16 * 131_072 * bytes_of_a_row + 999, 131_072)):
        with ts.options(live_bytes=budget):
            index = _source(store.scan("one").plan(slots=1)).index
            found = store.scan("one").agg(s=("v", "sum"), m=("k", "median")).collect()
        assert max(index.slice_row_end - index.slice_row_start) == rows
        assert found.to_arrow().equals(
            store.scan("many").agg(s=("v", "sum"), m=("k", "median")).collect().to_arrow()
        )


def test_one_segment_is_several_units(store: Any) -> None:
    source = _source(store.scan("one").plan(slots=4))
    index = source.index
    assert list(zip(index.slice_row_start, index.slice_row_end, strict=True)) == PIECES
    assert list(source.units) == [[0, 1], [2, 3]]
    assert [index.source(at).segment_row_start for at in (0, 2)] == [a for a, _ in PIECES]


def test_cuts_lie_between_pages_also_after_a_row_range(store: Any) -> None:
    index = _source(store.scan("one").row_range(100, 900_000).plan(slots=4)).index
    ends = list(zip(index.slice_row_start, index.slice_row_end, strict=True))
    assert ends == [(100, 524_288), (524_288, 900_000)]


def test_time_buckets_are_not_cut(store: Any) -> None:
    query = store.scan("one").resample("1s").agg(m=("v", "median"))
    assert _source(query.plan(slots=4)).index.slices == 1


QUERIES = {
    "all": lambda q: q,
    "filter": lambda q: q.filter("v > 900"),
    "head after filter": lambda q: q.filter("v > 900").head(20_000),
    "tail": lambda q: q.tail(300_001),
    "date_range": lambda q: q.date_range("1970-01-01T00:02", "1970-01-01T00:06"),
    "groupby": lambda q: q.groupby("k").agg(s=("v", "sum"), n=("v", "nunique")),
    "resample": lambda q: q.resample("7s").agg(s=("v", "sum"), f=("v", "first")),
    "resample whole": lambda q: q.filter("v > 0").resample("7s").agg(m=("v", "median")),
}


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_other_cuts(store: Any, name: str) -> None:
    with ts.options(workers=4):
        one = QUERIES[name](store.scan("one")).collect().to_arrow()
    with ts.options(workers=1):
        many = QUERIES[name](store.scan("many")).collect().to_arrow()
    assert one.replace_schema_metadata(None).equals(many.replace_schema_metadata(None))

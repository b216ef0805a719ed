"""Sums of what is computed of decimals, on the integers that they stand for and on values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.expression.block_columns import BlockColumns
from tests.clauses.stored_ways import both_ways

_ROWS = st.integers(20, 90)
_EXPRESSIONS = [
    "a * v",
    "a - b",
    "a + b - a * 2",
    "a * b",
    "a * (v + 1)",
    "a * c - c",
    "3 * a - b * 2.0",
    "a * 0.5",
    "a * w",
    "(a - b) * (v - 2)",
]


@st.composite
def _tables(draw: Any) -> pa.Table:
    rows = draw(_ROWS)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    least = draw(st.sampled_from([-500, 0, 1, 99_00]))
    spread = draw(st.sampled_from([10, 10**4, 10**8]))
    missing = draw(st.booleans())

    def decimals(places: int) -> pa.Array:
        whole = random.integers(least, least + spread, rows)
        # One that is not whole tells which places the column has.
        whole[0] = whole[0] // 10 * 10 + 1
        values = whole / 10.0**places
        return pa.array(values, mask=(random.random(rows) < 0.2) if missing else None)

    return pa.table(
        {
            "t": np.arange(rows).astype("datetime64[s]"),
            "k": pa.array(random.integers(0, 3, rows)),
            "a": decimals(2),
            "b": decimals(2),
            "c": decimals(3),
            "v": pa.array(random.integers(-4, 5000, rows)),
            "w": pa.array(random.integers(-(1 << 52), 1 << 52, rows)),
        }
    )


@given(
    expression=st.sampled_from(_EXPRESSIONS),
    table=_tables(),
    rows=_ROWS,
    filtered=st.booleans(),
    grouped=st.booleans(),
)
def test_sums(expression: str, table: pa.Table, rows: int, filtered: bool, grouped: bool) -> None:
    query = QueryBuilder().filter("v < 2500") if filtered else QueryBuilder()
    query = query.apply("n", expression)
    grouped_query = query.groupby("k") if grouped else query
    both_ways(table, grouped_query.agg(s=("n", "sum"), m=("n", "mean"), d="size"), rows)


def test_sums_of_decimals_are_summed_as_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests compare is truly another way."""
    asked: list[int] = []
    whole = BlockColumns.whole

    def counted(self: BlockColumns, *given: Any) -> int:
        asked.append(1)
        return whole(self, *given)

    monkeypatch.setattr(BlockColumns, "whole", counted)
    table = pa.table(
        {
            "t": np.arange(60).astype("datetime64[s]"),
            "a": [1.25, 2.5, 3.75] * 20,
            "v": list(range(60)),
        }
    )
    both_ways(table, QueryBuilder().apply("n", "a * v").agg(s=("n", "sum")), 60)
    assert asked

"""cum_count against counting, for every type, and against Polars."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tests.clauses.cumulatives import check_cumulative
from tests.clauses.helpers import answer, stored
from tests.oracles import polars_frame, same_rows
from tests.strategies.tables import column_types


@settings(max_examples=25)
@given(data=st.data())
def test_every_type(data: st.DataObject) -> None:
    kind = data.draw(column_types(nested=False))
    check_cumulative(data, "cum_count", kind, lambda past, value: len(past))


@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 3)), max_size=20),
    cut=st.integers(1, 6),
)
def test_it_is_that_of_polars(rows: list[tuple[str, int | None]], cut: int) -> None:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.int64()),
        }
    )
    query = QueryBuilder().cum_count({"n": "v"}, by="k")
    found = answer(stored(table, rows=cut), query).select(["n"])
    counted = polars_frame(table).select(n=pl.col("v").cum_count().over("k").cast(pl.Int64))
    assert same_rows(found, counted.to_arrow())


def test_lists_are_counted() -> None:
    table = {"l": pa.array([[1], None, [], None, [2]])}
    found = answer(stored(table, rows=2), QueryBuilder().cum_count("l"))
    assert found.column("l").to_pylist() == [1, 1, 2, 2, 3]

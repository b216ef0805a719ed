"""Runs of apply that the planner makes one clause: answers, columns, filters and errors."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessel.clauses.apply_together
from tessel.clauses import Apply, ApplyTogether, Clause, Filter, QueryBuilder
from tessel.clauses.apply_together import together
from tessel.errors import ColumnNotFoundError, IntegerOverflowError
from tessel.expression import col, lit
from tests.clauses.helpers import answer, stored

TABLE = pa.table({"t": pa.array(range(20), pa.timestamp("us")), "a": range(20), "b": range(20)})
NAMES = ("t", "a", "b", "c", "d", "e")


def _chain(columns: list[tuple[str, str, int]]) -> QueryBuilder:
    query = QueryBuilder().apply("c", col("a")).apply("d", col("b")).apply("e", col("b"))
    for made, read, number in columns:
        query = query.apply(made, col(read).cast("int64") + number)
    return query


def _kinds(clauses: tuple[Clause, ...]) -> list[int]:
    """Return how many columns each clause makes; 0 for another clause."""
    return [len(c.columns) if type(c) is ApplyTogether else int(type(c) is Apply) for c in clauses]


@settings(max_examples=40, deadline=None)
@given(
    columns=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 9)), max_size=12
    ),
    cut=st.integers(1, 20),
    then=st.sampled_from(["", "a > 5", "c % 2 == 0", "a > 3 and e < 15"]),
)
def test_the_answer_is_that_of_one_by_one(
    columns: list[tuple[str, str, int]], cut: int, then: str
) -> None:
    query = _chain(columns)
    query = query.filter(then) if then else query
    store = stored(TABLE, rows=cut)
    one_by_one = answer(store, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tessel.clauses.apply_together, "_LEAST", 1)
        found = answer(stored(TABLE, rows=cut), query)
    assert found.equals(one_by_one)


def test_many_columns_are_computed_by_one_clause() -> None:
    query = QueryBuilder().with_columns(**{f"x{n}": col("a") + n for n in range(100)})
    assert _kinds(together(query.clauses)) == [100]
    found = answer(stored(TABLE, rows=7), query)
    assert found.column_names == [*TABLE.column_names, *(f"x{n}" for n in range(100))]
    assert found["x99"].to_pylist() == [99 + n for n in range(20)]
    summed = QueryBuilder().agg(**{f"x{n}": (col("a") + n).sum() / 2 for n in range(100)})
    assert answer(stored(TABLE, rows=7), summed)["x99"].to_pylist() == [(190 + 99 * 20) / 2]


def test_a_run_ends_where_a_column_is_replaced_and_behind_one_that_is_filtered() -> None:
    many = tuple(Apply(f"x{n}", col("a") + n) for n in range(20))
    reads, replaces = Apply("y", col("x3") + 1), Apply("x3", col("a"))
    assert _kinds(together(many)) == [20]
    assert _kinds(together((*many, reads, *many))) == [21, 20]
    assert _kinds(together((*many, replaces))) == [20, 1]
    assert _kinds(together(many[:15])) == [1] * 15
    assert _kinds(together((*many, Filter(col("a") > 1)))) == [20, 0]
    assert _kinds(together((*many, Filter(col("x15") > 1)))) == [16, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("kept", [["x99"], ["x0", "x50", "a"], ["b"]])
@pytest.mark.parametrize("where", ["x99 > 105", "a > 5", "x40 >= 41 and b < 12"])
def test_columns_that_read_the_one_before_are_one_clause(kept: list[str], where: str) -> None:
    query = QueryBuilder().apply("x0", col("a"))
    for number in range(1, 100):
        query = query.apply(f"x{number}", col(f"x{number - 1}") + 1)
    assert _kinds(together(query.clauses)) == [100]
    made = {"a": range(20), "b": range(20)} | {f"x{n}": range(n, n + 20) for n in range(100)}
    expected = answer(stored(pa.table(made), rows=7), QueryBuilder().filter(where).select(*kept))
    for asked in (query.filter(where).select(*kept), query.head(20).filter(where).select(*kept)):
        assert answer(stored(TABLE, rows=7), asked).equals(expected)


def test_errors_name_the_column_and_what_was_made_before() -> None:
    columns = {f"x{n}": col("a") + n for n in range(40)}
    store = stored(TABLE, rows=7)
    with pytest.raises(ColumnNotFoundError, match="did you mean 'x_made'") as caught:
        answer(store, QueryBuilder().with_columns(**columns, x_made=col("a"), y=col("x_mad")))
    assert "x39" in caught.value.attributes["existing"]
    with pytest.raises(IntegerOverflowError) as overflow:
        answer(store, QueryBuilder().with_columns(**columns, y=col("a") + lit(2**63 - 1)))
    assert overflow.value.context["clause"].startswith("apply(column='y'")


@pytest.mark.parametrize("kept", [["x3"], ["a", "x3", "x25"], ["a"]])
def test_columns_that_nothing_reads_are_not_computed(kept: list[str]) -> None:
    columns = {f"x{n}": col("a") + lit(2**63 - 1) for n in range(40)}
    columns |= {"x3": col("a") + 3, "x25": col("b") + 25}
    found = answer(stored(TABLE, rows=7), QueryBuilder().with_columns(**columns).select(*kept))
    assert found.column_names == kept

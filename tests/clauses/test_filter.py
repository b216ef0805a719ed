"""filter against DuckDB, in both modes, and what it refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Filter, QueryBuilder
from tessel.errors import ColumnNotFoundError, ExpressionTypeError, PlanError
from tessel.expression import col
from tessel.expression.schema import TableSchema
from tests.clauses.helpers import answer, stored
from tests.oracles import (
    as_declared,
    duckdb_answer,
    nan_as_null,
    plain_dictionaries,
    rows_numbered,
    same_rows,
)
from tests.strategies.queries import query_tables

PREDICATES = [
    "i > 1",
    "i != 1 and f < 2",
    "not (i = 1)",
    "i in (1, 2, -3) or b",
    "s = 'a' or s is null",
    "i between -1 and 2",
    "b",
    "f >= 0.0",
]


@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=10)
@given(table=query_tables(), rows=st.integers(1, 9))
def test_rows_are_those_of_duckdb(predicate: str, table: pa.Table, rows: int) -> None:
    for name, kind in (("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_())):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, kind))
    if "s" not in table.column_names:
        table = table.append_column("s", pa.array(["a"] * table.num_rows, pa.string()))
    numbered = rows_numbered(table)
    ours = predicate.replace(" = ", " == ").replace("null", "missing")
    found = answer(stored(numbered, rows=rows), QueryBuilder().filter(ours))
    plain = plain_dictionaries(nan_as_null(numbered)).drop_columns(
        [n for n in ("u", "t", "d") if n in numbered.column_names]
    )
    expected = duckdb_answer(f"select * from x where {predicate} order by row", x=plain)
    kept = plain_dictionaries(found).select(plain.column_names)
    assert same_rows(kept, as_declared(expected, kept.schema))


@settings(max_examples=25)
@given(table=query_tables())
def test_both_modes_give_the_same_rows(table: pa.Table) -> None:
    store = stored(table, rows=5)
    name = table.column_names[0]
    fast = answer(store, QueryBuilder().filter(col(name).not_missing()))
    small = answer(store, QueryBuilder().filter(col(name).not_missing(), optimise="memory"))
    assert plain_dictionaries(small).schema == plain_dictionaries(fast).schema
    assert same_rows(small, fast)
    assert small.schema.equals(fast.schema)


def test_memory_mode_trims_dictionaries() -> None:
    words = pa.array([f"word {n}" for n in range(50)]).dictionary_encode()
    store = stored({"w": words, "n": pa.array(range(50))}, rows=50)
    query = QueryBuilder().filter("n < 3", optimise="memory")
    found = store.read("x", query=query).to_arrow()
    assert [len(chunk.dictionary) for chunk in found.column("w").chunks] == [3]


@pytest.mark.parametrize(("predicate", "rows"), [("true", 3), ("false", 0), ("1 > 2", 0)])
def test_constant_predicates_fold(predicate: str, rows: int) -> None:
    store = stored({"a": [1, 2, 3]})
    assert answer(store, QueryBuilder().filter(predicate)).num_rows == rows


def test_several_predicates_must_all_hold() -> None:
    store = stored({"a": [1, 2, 3], "b": [True, False, True]})
    found = answer(store, QueryBuilder().filter("a > 1", col("b")))
    assert found.column("a").to_pylist() == [3]


def test_a_predicate_that_is_no_condition_is_refused() -> None:
    schema = TableSchema(pa.schema([("a", pa.int64())]))
    with pytest.raises(ExpressionTypeError, match="a filter takes a condition, but a is int64"):
        Filter(col("a")).output_schema(schema)
    with pytest.raises(ColumnNotFoundError, match="did you mean 'a'"):
        Filter(col("A") > 1).output_schema(schema)


def test_arguments_are_checked() -> None:
    with pytest.raises(PlanError, match="filter needs a condition"):
        QueryBuilder().filter()
    with pytest.raises(PlanError, match="filter needs a condition"):
        QueryBuilder().filter("i > 1", None)
    with pytest.raises(PlanError, match="optimise is 'fast'"):
        QueryBuilder().filter("a > 1", optimise="fast")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="takes an expression, not 'a > 1'"):
        Filter("a > 1")  # type: ignore[arg-type]

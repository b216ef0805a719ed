"""The values domain against the row interpreter, and against DuckDB for a sample."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, note

from tessel.errors import IntegerOverflowError
from tessel.expression import Expression, ExpressionContext, parse
from tessel.expression.evaluate import evaluate
from tests.expression.oracle import Interpreter, PastRangeError, plain, rows_of, same
from tests.strategies import expressions as drawn


def check(expression: Expression, table: pa.Table) -> None:
    note(str(expression))
    interpreter = Interpreter(drawn.SCHEMA)
    kind = expression.result_type(drawn.SCHEMA)
    try:
        wanted = [interpreter.value(expression, row) for row in rows_of(table)]
    except PastRangeError:
        wanted = None
    try:
        got = evaluate(expression, table)
    except IntegerOverflowError:
        assert wanted is None, f"raised, but the rows are {wanted}"
        return
    assert wanted is not None, f"should have raised, but gave {got}"
    assert got.type == kind
    assert len(got) == table.num_rows
    values = [plain(scalar) for scalar in got]
    assert all(same(one, two) for one, two in zip(values, wanted, strict=True)), (values, wanted)


@given(drawn.predicates(), drawn.tables())
def test_predicates_agree_with_the_interpreter(predicate: Expression, table: pa.Table) -> None:
    check(predicate, table)


@given(drawn.numbers(), drawn.tables())
def test_numbers_agree_with_the_interpreter(expression: Expression, table: pa.Table) -> None:
    check(expression, table)


@given(drawn.texts(), drawn.tables())
def test_texts_agree_with_the_interpreter(expression: Expression, table: pa.Table) -> None:
    check(expression, table)


@given(drawn.expressions(), drawn.tables())
def test_the_result_has_the_promised_type(expression: Expression, table: pa.Table) -> None:
    if not expression.columns() <= set(drawn.SCHEMA.names):
        return
    kind = expression.result_type(drawn.SCHEMA)
    try:
        got = evaluate(expression, table)
    except IntegerOverflowError:
        return
    assert got.type == kind
    assert len(got) == table.num_rows


@given(drawn.predicates(), drawn.tables(min_rows=2))
def test_the_cut_of_a_table_does_not_matter(predicate: Expression, table: pa.Table) -> None:
    context = ExpressionContext.of(predicate)
    try:
        whole = evaluate(context, table)
    except IntegerOverflowError:
        return
    halves = [evaluate(context, table.slice(0, 1)), evaluate(context, table.slice(1))]
    assert pa.chunked_array(halves).equals(pa.chunked_array([whole]))


DUCKDB_SAMPLE = [
    "price > 100 and count < 5",
    "price != 1 or count is missing",
    "not (price <= ratio)",
    "name in ('a', 'b', null)",
    "name between 'a' and 'b'",
    "case when price > 0 then count else 0 end == 0",
    "coalesce(price, 1) >= 1",
    "name like 'a%' or starts_with(symbol, 'A')",
    "tiny % 7 == 1",
]


@given(drawn.tables())
def test_predicates_agree_with_duckdb(table: pa.Table) -> None:
    columns = ["price", "ratio", "count", "tiny", "name", "symbol"]
    plain_types = {"symbol": pa.string()}
    adapted = pa.table(
        {
            # DuckDB knows NaN as the largest number; for us it is missing
            name: pc.if_else(pc.is_nan(table[name]), None, table[name])
            if pa.types.is_floating(table[name].type)
            else table[name].cast(plain_types.get(name, table[name].type))
            for name in columns
        }
    )
    with duckdb.connect() as connection:
        connection.register("adapted", adapted)
        for text in DUCKDB_SAMPLE:
            sql = text.replace("==", "=").replace("is missing", "is null")
            if "tiny %" in sql:
                # SQL's remainder takes the sign of the dividend
                sql = "((tiny % 7) + 7) % 7 = 1"
            wanted = connection.sql(f"select {sql} as answer from adapted").to_arrow_table()
            got = evaluate(parse(text), table)
            assert got.to_pylist() == wanted["answer"].to_pylist(), text

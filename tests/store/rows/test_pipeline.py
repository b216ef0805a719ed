"""RowPipeline: on arrival the same answers as the expressions have on columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import (
    ColumnNotFoundError,
    ExpressionTypeError,
    IntegerOverflowError,
    InvalidInputError,
)
from tessel.expression import col, parse
from tessel.expression.evaluate import evaluate
from tessel.store.rows import RowPipeline, Rows, RowSchema
from tests.store.rows.test_columns import whole

SCHEMA = pa.schema(
    [
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("time", pa.timestamp("us")),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "symbol": st.none() | st.sampled_from(["A", "B", "", "Ä"]),
        "price": st.none() | st.floats(-200, 200) | st.just(float("nan")),
        "quantity": st.none() | st.integers(-5, 5),
        "time": st.none() | st.integers(0, 10**15),
    }
)
CONDITIONS = [
    None,
    "price > 100",
    "not (price > 100)",
    "symbol == 'A' or quantity < 0",
    "symbol in ('A', 'B') and price is not null",
    "quantity * 2 >= price",
    "time > '1975-01-01'",
    "true",
    "false",
]
PROJECTIONS = [
    None,
    {"symbol": "symbol", "notional": "price * quantity"},
    {"one": "1", "price": "price + 1", "symbol": "symbol"},
    {"quantity": "quantity"},
]


def table_of(rows: list[dict[str, object]]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    columns["time"] = pa.array(columns["time"], pa.int64()).view(pa.timestamp("us"))
    return pa.table(columns, schema=SCHEMA)


@given(
    st.lists(ROW, max_size=30),
    st.sampled_from(CONDITIONS),
    st.sampled_from(PROJECTIONS),
)
def test_the_answers_are_those_of_columns(rows, where, select):
    table = table_of(rows)
    schema = RowSchema.from_arrow(SCHEMA)
    found = RowPipeline(schema, where=where, select=select).run(Rows.from_batch(schema, table))
    if where is not None:
        table = table.filter(evaluate(parse(where), table))
    chosen = select or {name: name for name in SCHEMA.names}
    columns = {name: evaluate(parse(text), table) for name, text in chosen.items()}
    assert bits(found) == bits(whole(pa.table(columns)))


def bits(batch: pa.RecordBatch) -> dict[str, list[object]]:
    """Return values of which a NaN equals itself."""
    return {
        name: column.view(pa.int64()).to_pylist()
        if pa.types.is_floating(column.type)
        else column.to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    } | {"": [str(batch.schema)]}


def test_a_pipeline_takes_bytes_and_expressions():
    schema = RowSchema.from_arrow(SCHEMA)
    rows = [
        {"symbol": "A", "price": 101.0, "quantity": 2, "time": 0},
        {"symbol": "B", "price": 99.0, "quantity": 3, "time": 0},
    ]
    pipeline = RowPipeline(
        schema, where=col("price") > 100, select={"n": col("price") * col("quantity")}
    )
    data = Rows.from_batch(schema, table_of(rows)).to_bytes()
    assert pipeline.run(data).to_pydict() == {"n": [202.0]}
    assert pipeline.output_schema == pa.schema([("n", pa.float64())])


def test_only_what_the_condition_reads_becomes_columns_for_all_rows(monkeypatch):
    schema = RowSchema.from_arrow(SCHEMA)
    rows = [{"symbol": "A", "price": float(at), "quantity": 2, "time": 0} for at in range(10)]
    read: list[tuple[str, int]] = []
    column = Rows.column

    def counted(self: Rows, name: str) -> pa.Array:
        read.append((name, len(self)))
        return column(self, name)

    monkeypatch.setattr(Rows, "column", counted)
    pipeline = RowPipeline(schema, where="round(price, 0) >= 8", select={"symbol": "symbol"})
    assert pipeline.run(Rows.from_batch(schema, table_of(rows))).num_rows == 2
    assert read == [("price", 10), ("symbol", 2)]
    read.clear()
    pipeline = RowPipeline(schema, where="price >= 8", select={"symbol": "symbol"})
    assert pipeline.run(Rows.from_batch(schema, table_of(rows))).num_rows == 2
    assert read == [("symbol", 2)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"where": "prize > 1"}, ColumnNotFoundError, "did you mean 'price'"),
        ({"where": "price + 1"}, ExpressionTypeError, "this one is double"),
        ({"where": "symbol > 1"}, ExpressionTypeError, "symbol"),
        ({"select": {"x": "nothing"}}, ColumnNotFoundError, "no column 'nothing'"),
        ({"select": {}}, InvalidInputError, "names no column"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_when_it_is_made(options, error, message):
    with pytest.raises(error, match=message):
        RowPipeline(RowSchema.from_arrow(SCHEMA), **options)


def test_a_row_without_a_result_raises():
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64())]))
    pipeline = RowPipeline(schema, select={"twice": "a * 2"})
    rows = Rows.from_batch(schema, pa.table({"a": [2**62]}))
    with pytest.raises(IntegerOverflowError):
        pipeline.run(rows)

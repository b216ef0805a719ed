"""Result types, from operand types alone; and what is refused, with its message."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tessel.errors import (
    ColumnNotFoundError,
    ExpressionError,
    ExpressionTypeError,
    InvalidInputError,
)
from tessel.expression import Expression, TableSchema, coalesce, col, lit, min_of, parse, when

TYPES = {
    **{f"i{w}": getattr(pa, f"int{w}")() for w in (8, 16, 32, 64)},
    **{f"u{w}": getattr(pa, f"uint{w}")() for w in (8, 16, 32, 64)},
    "f32": pa.float32(),
    "f64": pa.float64(),
    "s": pa.string(),
    "d": pa.dictionary(pa.int8(), pa.string()),
    "b": pa.bool_(),
    "naive": pa.timestamp("us"),
    "utc": pa.timestamp("ns", "UTC"),
    "paris": pa.timestamp("s", "Europe/Paris"),
    "day": pa.date32(),
    "wait": pa.duration("ms"),
    "m": pa.decimal128(10, 2),
    "l": pa.list_(pa.int64()),
    "g": pa.struct([("a", pa.int64())]),
}
SCHEMA = TableSchema(pa.schema(TYPES))


RESULTS = [
    ("i8 + i8", "int16"),
    ("i8 * u8", "int16"),
    ("i16 + u8", "int32"),
    ("i32 + i8", "int64"),
    ("i64 * i64", "int64"),
    ("u8 + u16", "uint32"),
    ("u32 + u32", "uint64"),
    ("u64 + u64", "uint64"),
    ("u8 - u8", "int16"),
    ("u64 - u64", "int64"),
    ("u64 + i8", "int64"),
    ("u32 + 1", "uint64"),
    ("u8 + 1", "uint16"),
    ("u8 + -1", "int16"),
    ("i8 + 200", "int32"),
    ("1 + 1", "int16"),
    ("i8 // i64", "int64"),
    ("u8 // u8", "uint8"),
    ("i16 % 3", "int16"),
    ("i8 / i8", "float64"),
    ("f32 / f32", "float64"),
    ("i8 ** 2", "float64"),
    ("f32 + f32", "float32"),
    ("f32 * 0.5", "float32"),
    ("f32 * 1e300", "float64"),
    ("f32 + i16", "float32"),
    ("f32 + i32", "float64"),
    ("f32 + f64", "float64"),
    ("i64 + 0.5", "float64"),
    ("-u8", "int16"),
    ("abs(u8)", "uint8"),
    ("abs(i32)", "int64"),
    ("-f32", "float32"),
    ("naive - naive", "duration[us]"),
    ("utc - paris", "duration[ns]"),
    ("naive + wait", "timestamp[us]"),
    ("wait + paris", "timestamp[ms, Europe/Paris]"),
    ("wait / wait", "float64"),
    ("wait // 2", "duration[ms]"),
    ("m + m", "decimal128(11, 2)"),
    ("m * m", "decimal128(21, 4)"),
    ("m + i64", "decimal128(23, 2)"),
    ("m + f64", "float64"),
    ("m / m", "float64"),
    ("coalesce(i8, 1000)", "int16"),
    ("coalesce(i64, 0.5)", "float64"),
    ("coalesce(u8, u32)", "uint32"),
    ("coalesce(d, 'x')", "text"),
    ("case when b then i8 else null end", "int8"),
    ("case when b then naive else null end", "timestamp[us]"),
    ("min_of(i8, f32)", "float32"),
    ("null", "null"),
    ("i64 == u64", "bool"),
    ("paris < '2024-01-01T00:00:00+02:00'", "bool"),
    ("naive > '2024-01-01'", "bool"),
    ("paris == utc", "bool"),
    ("d == 'x'", "bool"),
    ("length(s)", "int32"),
]


@pytest.mark.parametrize(("text", "wanted"), RESULTS, ids=[text for text, _ in RESULTS])
def test_result_type(text: str, wanted: str) -> None:
    assert parse(f"cast({text}, '{wanted}')").result_type(SCHEMA) == parse(text).result_type(SCHEMA)


def test_a_column_keeps_its_dictionary() -> None:
    assert col("d").result_type(SCHEMA) == TYPES["d"]


REFUSED = [
    "s > 5",
    "s + s",
    "i8 + s",
    "b > 1",
    "b + 1",
    "naive > 5",
    "naive == utc",
    "naive - utc",
    "naive > '2024-01-01T00:00:00Z'",
    "naive > 'yesterday'",
    "day == '2024-01-01T10:00'",
    "day == naive",
    "naive + naive",
    "naive + 1",
    "i8 and b",
    "not s",
    "s in ('a', 1)",
    "i8 in (1, 'a')",
    "m > f64",
    "l == l",
    "length(i8)",
    "lower(i8)",
    "year(i8)",
    "hour(day)",
    "floor(day, '1h')",
    "floor(paris, '1500ms')",
    "coalesce(i8, s)",
    "coalesce(i64, u64)",
    "case when i8 then 1 else 2 end",
    "case when b then 1 else 'x' end",
    "abs(s)",
    "cast(s, 'duration[us]') + b",
    "cast(b, 'timestamp[us]')",
    "min_of(l, l)",
    "field(s, 'a')",
    "i8 matches 'a'",
]


@pytest.mark.parametrize("text", REFUSED)
def test_misuse_is_refused_with_operands_types_and_a_way_out(text: str) -> None:
    with pytest.raises(ExpressionTypeError) as caught:
        parse(text).result_type(SCHEMA)
    assert caught.value.hint
    assert caught.value.attributes["operands"]
    assert caught.value.attributes["types"]


def test_the_message_of_a_misuse() -> None:
    with pytest.raises(ExpressionTypeError) as caught:
        (col("s") > 5).result_type(SCHEMA)
    assert str(caught.value) == (
        "[expression-type] cannot compare: s (text) and 5 (int8)\n"
        "  compare with text, '5', or cast: s as .cast('float64')"
    )


def test_unknown_columns_raise_with_the_nearest_name() -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        (col("pariss") == 1).result_type(SCHEMA)
    assert caught.value.attributes["nearest"] == "paris"


def test_unknown_columns_of_a_text_show_the_place() -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        parse("i8 > 1\nand `pariss` > 2").result_type(SCHEMA)
    assert caught.value.detail == "and `pariss` > 2\n    ^^^^^^"


def test_unknown_fields_raise_with_the_nearest_name() -> None:
    with pytest.raises(ColumnNotFoundError):
        col("g").field("b").result_type(SCHEMA)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lit(2**64),
        lambda: lit([1]),
        lambda: lit(object()),
        lambda: lit("\ud800"),
        lambda: col(5),  # type: ignore[arg-type]
        lambda: col("a").is_in("abc"),
        lambda: col("a").is_in([col("b")]),
        lambda: col("a").is_in(5),  # type: ignore[arg-type]
        lambda: col("a").matches("("),
        lambda: col("a").cast("int65"),
        lambda: col("a").cast("timestamp[us, Mars/Olympus]"),
        lambda: col("a").cast(5),  # type: ignore[arg-type]
        lambda: round(col("a"), -1),
        lambda: col("a").floor("soon"),
        lambda: col("a").floor("0s"),
        lambda: col("a").slice(-1),
        lambda: col("a").replace("", "x"),
        lambda: coalesce(),
        lambda: min_of(),
        lambda: parse(5),  # type: ignore[arg-type]
    ],
)
def test_what_means_nothing_is_refused_when_made(make: object) -> None:
    with pytest.raises((ExpressionError, InvalidInputError)):
        make()  # type: ignore[operator]


def test_every_branch_counts_for_the_type() -> None:
    chosen: Expression = when(col("b")).then(1).when(col("b")).then(col("u8")).otherwise(0.5)
    assert chosen.result_type(SCHEMA) == pa.float64()

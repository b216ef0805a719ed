"""One row per operator: how it is written, its type, its values. A new operator adds a row."""

# ruff: noqa: E501  (a table reads best one row a line)

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tessel.expression import (
    Expression,
    ExpressionContext,
    TableSchema,
    all_operators,
    coalesce,
    col,
    lit,
    max_of,
    min_of,
    parse,
    when,
)
from tessel.expression.evaluate import evaluate
from tessel.expression.node import post_order
from tessel.expression.operators.membership import Lookup

NAN = float("nan")
TABLE = pa.table(
    {
        "i": pa.array([7, -7, None], pa.int64()),
        "j": pa.array([2, 0, 2], pa.int64()),
        "tiny": pa.array([-128, 127, None], pa.int8()),
        "u": pa.array([1, 2**64 - 1, None], pa.uint64()),
        "x": pa.array([1.5, NAN, 2.5]),
        "s": pa.array(["ab", "é ", None]),
        "d": pa.array(["ab", "cd", None]).dictionary_encode(),
        "p": pa.array([True, False, None]),
        "q": pa.array([None, True, False]),
        "t": pa.array([0, 1_357_000_000_123_456, None], pa.timestamp("us")),
        "z": pa.array([0, 1_357_000_000, None], pa.timestamp("s", "America/New_York")),
        "day": pa.array([0, 15_706, None], pa.int32()).cast(pa.date32()),
        "m": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(5, 2)),
        "w": pa.array([1500, -1, None], pa.duration("ms")),
        "g": pa.array([{"a": 1}, {"a": None}, None], pa.struct([("a", pa.int64())])),
    }
)
SCHEMA = TableSchema(TABLE.schema)


@dataclass(frozen=True)
class Row:
    expression: Expression
    text: str
    label: str
    type: pa.DataType
    values: list[Any]


i, j, tiny, u, x, s, d = (col(name) for name in ("i", "j", "tiny", "u", "x", "s", "d"))
p, q, t, z, day, m, w = (col(name) for name in ("p", "q", "t", "z", "day", "m", "w"))
B, I32, I64, F = pa.bool_(), pa.int32(), pa.int64(), pa.float64()


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


LOOKUP = Lookup.of_columns(i, pa.array([7, 8]), pa.array(["seven", "eight"]))
ROWS = [
    Row(i + j, "i + j", '(Column["i"] + Column["j"])', I64, [9, -7, None]),
    Row(tiny + 1, "tiny + 1", '(Column["tiny"] + Int64(1))', pa.int16(), [-127, 128, None]),
    Row(i - j, "i - j", '(Column["i"] - Column["j"])', I64, [5, -7, None]),
    Row(u - u, "u - u", '(Column["u"] - Column["u"])', I64, [0, 0, None]),
    Row(i * j, "i * j", '(Column["i"] * Column["j"])', I64, [14, 0, None]),
    Row(i / j, "i / j", '(Column["i"] / Column["j"])', F, [3.5, float("-inf"), None]),
    Row(i // j, "i // j", '(Column["i"] // Column["j"])', I64, [3, None, None]),
    Row(-i // 2, "-i // 2", '(NEGATIVE(Column["i"]) // Int64(2))', I64, [-4, 3, None]),
    Row(i % -4, "i % -4", '(Column["i"] % Int64(-4))', I64, [-1, -3, None]),
    Row(j**2, "j ** 2", '(Column["j"] ** Int64(2))', F, [4.0, 0.0, 4.0]),
    Row(-tiny, "-tiny", 'NEGATIVE(Column["tiny"])', pa.int16(), [128, -127, None]),
    Row(abs(tiny), "abs(tiny)", 'ABS(Column["tiny"])', pa.int16(), [128, 127, None]),
    Row(x.ceil(), "ceil(x)", 'CEIL(Column["x"])', F, [2.0, NAN, 3.0]),
    Row(tiny.ceil(), "ceil(tiny)", 'CEIL(Column["tiny"])', pa.int8(), [-128, 127, None]),
    Row(x.floor(), "floor_number(x)", 'FLOOR_NUMBER(Column["x"])', F, [1.0, NAN, 2.0]),
    Row(m.ceil(), "ceil(m)", 'CEIL(Column["m"])', pa.decimal128(5, 2), [Decimal("2.00"), Decimal("-2.00"), None]),
    Row(m.floor(), "floor_number(m)", 'FLOOR_NUMBER(Column["m"])', pa.decimal128(5, 2), [Decimal("1.00"), Decimal("-3.00"), None]),
    Row(round(x), "round(x, 0)", 'ROUND(Column["x"], 0)', F, [2.0, NAN, 2.0]),
    Row(i == 7, "i == 7", '(Column["i"] EQ Int64(7))', B, [True, False, None]),
    Row(x != 1.5, "x != 1.5", '(Column["x"] NE Float64(1.5))', B, [False, None, True]),
    Row(u < -1, "u < -1", '(Column["u"] LT Int64(-1))', B, [False, False, None]),
    Row(x <= 2, "x <= 2", '(Column["x"] LE Int64(2))', B, [True, None, False]),
    Row(u > i, "u > i", '(Column["u"] GT Column["i"])', B, [False, True, None]),
    Row(d >= "b", "d >= 'b'", '(Column["d"] GE Text("b"))', B, [False, True, None]),
    Row(p & q, "p and q", '(Column["p"] AND Column["q"])', B, [None, False, False]),
    Row(p | q, "p or q", '(Column["p"] OR Column["q"])', B, [True, True, None]),
    Row(p ^ q, "p ^ q", '(Column["p"] XOR Column["q"])', B, [None, True, None]),
    Row(~p, "not p", 'NOT(Column["p"])', B, [False, True, None]),
    Row(
        LOOKUP,
        f"lookup(i, '{LOOKUP.table}')",
        'LOOKUP(Column["i"], 2 keys)',
        pa.string(),
        ["seven", None, None],
    ),
    Row(
        i.is_in([7, None]),
        "i in (7, null)",
        '(Column["i"] IN (Int64(7), Null(null)))',
        B,
        [True, None, None],
    ),
    Row(x.is_missing(), "x is missing", 'IS_MISSING(Column["x"])', B, [False, True, False]),
    Row(
        when(i > 0).then(i).otherwise(x),
        "case when i > 0 then i else x end",
        'CASE(WHEN (Column["i"] GT Int64(0)) THEN Column["i"] ELSE Column["x"])',
        F,
        [7.0, NAN, 2.5],
    ),
    Row(coalesce(x, i), "coalesce(x, i)", 'COALESCE(Column["x"], Column["i"])', F, [1.5, -7, 2.5]),
    Row(i.cast("text"), "cast(i, 'text')", "CAST(Column[\"i\"], 'text')", pa.string(), ["7", "-7", None]),
    Row(col("g").field("a"), "field(g, 'a')", "FIELD(Column[\"g\"], 'a')", I64, [1, None, None]),
    Row(min_of(i, x), "min_of(i, x)", 'MIN_OF(Column["i"], Column["x"])', F, [1.5, -7.0, 2.5]),
    Row(max_of(i, 0), "max_of(i, 0)", 'MAX_OF(Column["i"], Int64(0))', I64, [7, 0, 0]),
    Row(i.clip(low=0), "clip_low(i, 0)", 'CLIP_LOW(Column["i"], Int64(0))', I64, [7, 0, None]),
    Row(i.clip(high=0), "clip_high(i, 0)", 'CLIP_HIGH(Column["i"], Int64(0))', I64, [0, -7, None]),
    Row(j.log(), "log(j)", 'LOG(Column["j"])', F, [0.6931471805599453, float("-inf"), 0.6931471805599453]),
    Row(j.exp(), "exp(j)", 'EXP(Column["j"])', F, [7.38905609893065, 1.0, 7.38905609893065]),
    Row(x.sqrt(), "sqrt(x)", 'SQRT(Column["x"])', F, [1.224744871391589, NAN, 1.5811388300841898]),
    Row(s.matches("^a"), "s matches '^a'", "MATCHES(Column[\"s\"], '^a')", B, [True, False, None]),
    Row(s.like("_b"), "s like '_b'", "LIKE(Column[\"s\"], '_b')", B, [True, False, None]),
    Row(s.starts_with("é"), "starts_with(s, 'é')", "STARTS_WITH(Column[\"s\"], 'é')", B, [False, True, None]),
    Row(d.ends_with("d"), "ends_with(d, 'd')", "ENDS_WITH(Column[\"d\"], 'd')", B, [False, True, None]),
    Row(s.contains("b"), "contains(s, 'b')", "CONTAINS(Column[\"s\"], 'b')", B, [True, False, None]),
    Row(s.upper(), "upper(s)", 'UPPER(Column["s"])', pa.string(), ["AB", "É ", None]),
    Row(s.upper().lower(), "lower(upper(s))", 'LOWER(UPPER(Column["s"]))', pa.string(), ["ab", "é ", None]),
    Row(s.strip(), "strip(s)", 'STRIP(Column["s"])', pa.string(), ["ab", "é", None]),
    Row(d.length(), "length(d)", 'LENGTH(Column["d"])', I32, [2, 2, None]),
    Row(s.replace("b", "'"), "replace(s, 'b', '''')", "REPLACE(Column[\"s\"], 'b', '''')", pa.string(), ["a'", "é ", None]),
    Row(s.slice(1), "slice(s, 1, null)", 'SLICE(Column["s"], 1, null)', pa.string(), ["b", " ", None]),
    Row(s.concat("-", d), "concat(s, '-', d)", 'CONCAT(Column["s"], Text("-"), Column["d"])', pa.string(), ["ab-ab", "é -cd", None]),
    Row(z.year(), "year(z)", 'YEAR(Column["z"])', I32, [1969, 2012, None]),
    Row(z.month(), "month(z)", 'MONTH(Column["z"])', I32, [12, 12, None]),
    Row(t.day(), "day(t)", 'DAY(Column["t"])', I32, [1, 1, None]),
    Row(t.weekday(), "weekday(t)", 'WEEKDAY(Column["t"])', I32, [3, 1, None]),
    Row(z.hour(), "hour(z)", 'HOUR(Column["z"])', I32, [19, 19, None]),
    Row(t.minute(), "minute(t)", 'MINUTE(Column["t"])', I32, [0, 26, None]),
    Row(t.second(), "second(t)", 'SECOND(Column["t"])', I32, [0, 40, None]),
    Row(z.date(), "date(z)", 'DATE(Column["z"])', pa.date32(), [dt.date(1969, 12, 31), dt.date(2012, 12, 31), None]),
    Row(t.floor("1d"), "floor(t, '1d')", "FLOOR(Column[\"t\"], '1d')", pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2013, 1, 1), None]),
    Row(z.floor("1d"), "floor(z, '1d')", "FLOOR(Column[\"z\"], '1d')", pa.timestamp("s", "America/New_York"), [utc(1969, 12, 31, 5), utc(2012, 12, 31, 5), None]),
    Row(t - lit("2013-01-01").cast("timestamp[us]"), "t - cast('2013-01-01', 'timestamp[us]')", "(Column[\"t\"] - CAST(Text(\"2013-01-01\"), 'timestamp[us]'))", pa.duration("us"), [dt.timedelta(days=-15706), dt.timedelta(seconds=1600, microseconds=123456), None]),
    Row(t + w, "t + w", '(Column["t"] + Column["w"])', pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 1, 500_000), dt.datetime(2013, 1, 1, 0, 26, 40, 122_456), None]),
    Row(day - day, "day - day", '(Column["day"] - Column["day"])', pa.duration("s"), [dt.timedelta(0), dt.timedelta(0), None]),
    Row(w * 2, "w * 2", '(Column["w"] * Int64(2))', pa.duration("ms"), [dt.timedelta(seconds=3), dt.timedelta(milliseconds=-2), None]),
    Row(m + m, "m + m", '(Column["m"] + Column["m"])', pa.decimal128(6, 2), [Decimal("3.00"), Decimal("-4.50"), None]),
    Row(m * 2, "m * 2", '(Column["m"] * Int64(2))', pa.decimal128(7, 2), [Decimal("3.00"), Decimal("-4.50"), None]),
    Row(m > 1.49, "m > 1.49", '(Column["m"] GT Float64(1.49))', B, [True, False, None]),
    Row(t > "2013-01-01", "t > '2013-01-01'", '(Column["t"] GT Text("2013-01-01"))', B, [False, True, None]),
    Row(z == "1969-12-31 19:00", "z == '1969-12-31 19:00'", '(Column["z"] EQ Text("1969-12-31 19:00"))', B, [True, False, None]),
    Row(z < "1970-01-01T00:00:00.5Z", "z < '1970-01-01T00:00:00.5Z'", '(Column["z"] LT Text("1970-01-01T00:00:00.5Z"))', B, [True, False, None]),
    Row(day == "2013-01-01", "day == '2013-01-01'", '(Column["day"] EQ Text("2013-01-01"))', B, [False, True, None]),
]  # fmt: skip


def close(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and wanted != wanted:
        return bool(got != got)
    return bool(got == wanted)


@pytest.mark.parametrize("row", ROWS, ids=[row.text for row in ROWS])
def test_row(row: Row) -> None:
    assert str(row.expression) == row.text
    assert parse(row.text).equals(row.expression)
    assert ExpressionContext.of(row.expression).display_name() == row.label
    assert Expression.from_json(row.expression.to_json()).equals(row.expression)
    assert row.expression.result_type(SCHEMA) == row.type
    got = evaluate(row.expression, TABLE)
    assert got.type == row.type
    assert all(close(one, two) for one, two in zip(got.to_pylist(), row.values, strict=True)), got


def test_every_operator_has_a_row() -> None:
    shown = {node.name for row in ROWS for node in post_order(row.expression)}
    # Aggregates have no value in a row: they are tested where they stand, in agg.
    assert shown | {"aggregate"} == set(all_operators())


@pytest.mark.parametrize("row", ROWS, ids=[row.text for row in ROWS])
def test_no_rows_give_an_empty_result_of_the_type(row: Row) -> None:
    assert evaluate(row.expression, TABLE.slice(0, 0)).equals(pa.array([], row.type))


@pytest.mark.parametrize("row", ROWS, ids=[row.text for row in ROWS])
def test_columns_of_nothing_but_nulls(row: Row) -> None:
    nulls = pa.table([pa.nulls(2, kind) for kind in TABLE.schema.types], schema=TABLE.schema)
    got = evaluate(row.expression, nulls)
    assert got.type == row.type
    if row.expression.name not in ("is_missing", "max_of", "or", "and"):
        assert got.null_count == 2

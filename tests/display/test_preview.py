"""Previews of tables: shape, types, index, missing values, head and tail."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.display import Table, render_text
from tessel.display.preview import preview
from tessel.errors import InvalidInputError

SHORT = """\
2 rows × 3 columns
┌──────────────────────────────┬────────────────────┬────────┐
│ time                         │ carrier            │  delay │
│ timestamp[s, tz=UTC] (index) │ dictionary<string> │ double │
├──────────────────────────────┼────────────────────┼────────┤
│ 1970-01-01 00:00:00Z         │ UA                 │    1.5 │
│ 1970-01-01 01:00:00Z         │ null               │   null │
└──────────────────────────────┴────────────────────┴────────┘"""


def test_a_short_table_is_shown_whole():
    table = pa.table(
        {
            "time": pa.array([0, 3600], pa.timestamp("s", "UTC")),
            "carrier": pa.array(["UA", None]).dictionary_encode(),
            "delay": [1.5, None],
        }
    )
    assert render_text(preview(table, index="time")) == SHORT


def test_of_a_long_table_both_ends_are_shown():
    shown = preview(pa.table({"n": range(1000)}), 5)
    assert shown == Table(
        "1,000 rows × 1 column",
        ("n\nint64",),
        ((0,), (1,), (2,), ("…",), (998,), (999,)),
        ("995 rows not shown",),
    )


@given(st.integers(0, 30), st.integers(1, 12), st.integers(1, 9))
def test_what_is_shown_is_the_head_and_the_tail(count: int, most: int, chunk: int):
    values = list(range(count))
    chunks = [values[at : at + chunk] for at in range(0, count, chunk)]
    rows = [
        row[0] for row in preview(pa.table({"n": pa.chunked_array(chunks, pa.int64())}), most).rows
    ]
    if count <= most:
        assert rows == values
    else:
        assert len(rows) == most + 1
        at = rows.index("…")
        assert rows[:at] == values[:at]
        assert rows[at + 1 :] == values[count - (most - at) :]


CASES = [
    ("null", pa.nulls(1), [None]),
    ("bool", pa.array([True, None]), [True, None]),
    ("uint64", pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
    ("float", pa.array([0.1, None]), [0.1, None]),
    ("decimal", pa.array([Decimal("1.50")]), [Decimal("1.50")]),
    ("string", pa.array(["", None, "null"]), ["", None, "null"]),
    ("binary", pa.array([b"\x00a"]), ["0061"]),
    ("date", pa.array([datetime.date(2020, 2, 29)]), ["2020-02-29"]),
    (
        "nanoseconds",
        pa.array([1, None], pa.timestamp("ns")),
        ["1970-01-01 00:00:00.000000001", None],
    ),
    (
        "whole seconds",
        pa.array([0, 10**9], pa.timestamp("ns")),
        ["1970-01-01 00:00:00", "1970-01-01 00:00:01"],
    ),
    (
        "zoned",
        pa.array([0], pa.timestamp("us", "America/New_York")),
        ["1969-12-31 19:00:00-0500"],
    ),
    ("time", pa.array([1], pa.time64("us")), ["00:00:00.000001"]),
    ("year 12000", pa.array([316516204800], pa.timestamp("s")), ["12000-01-01 00:00:00"]),
    ("date of year 12000", pa.array([3663382, None], pa.date32()), ["12000-01-01", None]),
    ("date before year 1", pa.array([-800000 * 86_400_000], pa.date64()), ["-0221-09-04"]),
    ("duration", pa.array([5, None], pa.duration("ms")), ["5 ms", None]),
    ("dictionary", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    (
        "list",
        pa.array([[1, None], None, list(range(9))]),
        ["[1, null]", None, "[0, 1, 2, 3, 4, 5, 6, 7, …]"],
    ),
    (
        "struct",
        pa.array([{"a": 1, "b": None}, None]),
        ["{a: 1, b: null}", None],
    ),
    (
        "list of nanoseconds",
        pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        ["[1970-01-01 00:00:00.000000001]"],
    ),
    ("map", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), ["[{key: k, value: 1}]"]),
]


@pytest.mark.parametrize(("column", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_values_of_every_type(column, expected):
    assert preview(pa.table({"x": column})).rows == tuple((value,) for value in expected)


def test_extension_types_show_what_they_store():
    stored = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', None]))
    assert preview(pa.table({"x": stored})).rows == (('{"a": 1}',), (None,))


def test_no_rows_no_columns():
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert preview(empty) == Table("0 rows × 1 column", ("a\nint64",))
    assert preview(pa.table({"a": range(30)}).select([])).title == "30 rows × 0 columns"


def test_at_least_one_row():
    with pytest.raises(InvalidInputError):
        preview(pa.table({"a": [1]}), 0)

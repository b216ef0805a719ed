"""EventRow: a row read where it lies."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tessel.errors import ColumnNotFoundError, InvalidInputError, SchemaMismatchError
from tessel.store.rows import RowArena, Rows, RowSchema
from tests.store.rows.tables import FIXED, VARIABLE, tables

BOUNDS = {
    "i8": (pa.int8(), -(2**7), 2**7 - 1),
    "i16": (pa.int16(), -(2**15), 2**15 - 1),
    "i32": (pa.int32(), -(2**31), 2**31 - 1),
    "i64": (pa.int64(), -(2**63), 2**63 - 1),
    "u8": (pa.uint8(), 0, 2**8 - 1),
    "u16": (pa.uint16(), 0, 2**16 - 1),
    "u32": (pa.uint32(), 0, 2**32 - 1),
    "u64": (pa.uint64(), 0, 2**64 - 1),
}


def rows_of(table: pa.Table) -> Rows:
    return Rows.from_batch(RowSchema.from_arrow(table.schema), table)


@pytest.mark.parametrize("getter", BOUNDS)
def test_integers_at_their_bounds(getter):
    kind, least, most = BOUNDS[getter]
    rows = rows_of(pa.table({"x": pa.array([least, most, None], kind)}))
    assert [getattr(row, f"get_{getter}")("x") for row in rows] == [least, most, None]
    assert [row.get("x") for row in rows] == [least, most, None]


def test_floats_keep_every_bit():
    values = np.array([0.0, -0.0, np.inf, -np.inf, 5e-324, np.nan])
    rows = rows_of(pa.table({"d": values, "f": values.astype(np.float32)}))
    assert np.array([r.get_f64("d") for r in rows]).tobytes() == values.tobytes()
    singles = np.array([r.get_f32("f") for r in rows], np.float32)
    assert singles.tobytes() == values.astype(np.float32).tobytes()


def test_bools_are_bools():
    rows = rows_of(pa.table({"b": [True, False, None]}))
    assert [row.get_bool("b") for row in rows] == [True, False, None]
    assert rows[0].get("b") is True


def test_text_of_any_length_and_script():
    texts = ["", "a", "Grüße", "日本語", "🦀" * 1000, "\0", None]
    rows = rows_of(pa.table({"s": texts, "t": texts[::-1]}))
    assert [row.get_str("s") for row in rows] == texts
    assert [row.get_str("t") for row in rows] == texts[::-1]


def test_bytes_of_any_length():
    values = [b"", b"\xff\xfe", bytes(1000), None]
    rows = rows_of(pa.table({"s": pa.array(values, pa.large_binary())}))
    assert [row.get_bytes("s") for row in rows] == values


def test_nulls_are_told_from_zeros():
    rows = rows_of(pa.table({"a": pa.array([0, None]), "s": ["", None]}))
    assert [(row.is_null("a"), row.is_null("s")) for row in rows] == [(False, False), (True, True)]
    assert rows[1].to_dict() == {"a": None, "s": None}


def test_a_null_in_every_place_of_a_wide_row():
    names = [f"f{at}" for at in range(19)]
    for missing in names:
        table = pa.table({n: pa.array([None if n == missing else 7], pa.int8()) for n in names})
        (row,) = rows_of(table)
        assert [name for name in names if row.is_null(name)] == [missing]


def test_timestamps_as_numbers_datetimes_and_without_loss():
    kind = pa.timestamp("ns", "Europe/Berlin")
    instant = 1_700_000_000_123_456_789
    (row,) = rows_of(pa.table({"t": pa.array([instant], kind)}))
    assert row.get_i64("t") == instant
    assert row.get("t") == np.datetime64(instant, "ns")
    assert row.get_datetime("t") == dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC)


def test_timestamps_before_1970_and_without_a_zone():
    for unit in ("s", "ms", "us", "ns"):
        moment = dt.datetime(1901, 12, 13, 20, 45, 52)
        (row,) = rows_of(pa.table({"t": pa.array([moment], pa.timestamp(unit))}))
        assert row.get_datetime("t") == moment


def test_dates_times_and_durations():
    table = pa.table(
        {
            "d": pa.array([dt.date(1969, 12, 31)], pa.date32()),
            "m": pa.array([dt.date(2024, 2, 29)], pa.date64()),
            "t": pa.array([dt.time(23, 59, 59, 999000)], pa.time32("ms")),
            "n": pa.array([12_345], pa.int64()).view(pa.time64("ns")),
            "p": pa.array([-5], pa.duration("ms")),
        }
    )
    (row,) = rows_of(table)
    assert row.to_dict() == {
        "d": np.datetime64("1969-12-31"),
        "m": np.datetime64("2024-02-29", "ms"),
        "t": np.timedelta64(86_399_999, "ms"),
        "n": np.timedelta64(12_345, "ns"),
        "p": np.timedelta64(-5, "ms"),
    }


def test_a_zeroed_row_holds_zeros_and_no_null():
    schema = RowSchema.from_arrow(pa.schema([(str(k), k) for k in [*FIXED, *VARIABLE]]))
    arena = RowArena(schema, row_capacity=1)
    arena.new_row()
    (row,) = arena.rows()
    assert not any(row.is_null(name) for name in schema.names)
    assert row.get("int64") == 0
    assert row.get("string") == ""
    assert row.get("bool") is False


def test_a_getter_of_another_type_is_refused():
    (row,) = rows_of(pa.table({"x": [1], "s": ["a"]}))
    with pytest.raises(SchemaMismatchError, match="use get_i64"):
        row.get_i32("x")
    with pytest.raises(SchemaMismatchError, match="use get_str"):
        row.get_bytes("s")
    with pytest.raises(SchemaMismatchError, match="get_datetime was asked"):
        row.get_datetime("x")


def test_a_time_that_no_datetime_holds_is_said_to_be_one():
    (row,) = rows_of(pa.table({"t": pa.array([2**62]).view(pa.timestamp("s"))}))
    assert row.get("t").astype(np.int64) == 2**62
    with pytest.raises(InvalidInputError, match="outside the years 1 to 9999"):
        row.get_datetime("t")


def test_unknown_fields_and_rows_are_refused():
    rows = rows_of(pa.table({"price": [1]}))
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        rows[0].get("prices")
    with pytest.raises(IndexError, match="row 1 of 1"):
        rows[1]
    assert rows[-1] == rows[0]


@given(tables())
def test_views_of_columns_and_of_rows_agree(table):
    rows = rows_of(table)
    for field in rows.schema.fields:
        assert rows.nulls(field.name).tolist() == [row.is_null(field.name) for row in rows]
        if not field.is_variable and len(rows):
            view = rows.field(field.name)
            assert not view.flags.writeable
            assert view.strides == (rows.schema.fixed_size,)
            assert np.shares_memory(view, rows.records)


@given(tables())
def test_slices_are_rows(table):
    rows = rows_of(table)
    for part in (slice(1, None), slice(None, -1), slice(None, None, 2), slice(5, 2)):
        assert list(rows[part]) == list(rows)[part]
        chosen = pa.array(range(len(rows))[part], pa.int64())
        assert rows[part].to_batch().equals(rows.to_batch().take(chosen))

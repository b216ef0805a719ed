"""RowBuffer: rows appended one by one or as bytes, taken as columns."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError, RowFormatError, SchemaMismatchError
from tessel.store.rows import RowBuffer, Rows, RowSchema
from tests.store.rows.tables import tables
from tests.store.rows.test_columns import numbers_of, whole

MIXED = pa.schema([("a", pa.int16()), ("s", pa.string()), ("ok", pa.bool_()), ("t", pa.string())])


@given(tables(), st.booleans())
def test_rows_appended_one_by_one_become_the_table(table, in_parts):
    buffer = RowBuffer(RowSchema.from_arrow(table.schema))
    for values in numbers_of(table):
        buffer.append(*values)
    assert len(buffer) == len(table)
    if in_parts:
        parts = [rows.to_batch() for rows in buffer.take()]
        assert whole(pa.Table.from_batches(parts, table.schema)).equals(whole(table))
    else:
        batch = buffer.take_batch()
        batch.validate(full=True)
        assert batch.equals(whole(table))
    assert len(buffer) == buffer.nbytes == 0
    assert buffer.take_batch().num_rows == 0


@given(st.lists(tables(max_rows=3), min_size=1, max_size=4), st.data())
def test_bytes_and_rows_in_any_order(parts, data):
    schema = RowSchema.from_arrow(MIXED)
    buffer = RowBuffer(schema)
    expected = []
    one = st.tuples(
        st.none() | st.integers(-(2**15), 2**15 - 1),
        st.none() | st.text(max_size=9),
        st.none() | st.booleans(),
        st.none() | st.text(max_size=9),
    )
    for _ in parts:
        rows = data.draw(st.lists(one, max_size=4))
        table = pa.Table.from_pylist(
            [dict(zip(MIXED.names, row, strict=True)) for row in rows], MIXED
        )
        if data.draw(st.booleans()):
            assert buffer.extend_bytes(Rows.from_batch(schema, table).to_bytes()) == len(rows)
        else:
            for row in rows:
                buffer.append(*row)
        expected.append(table)
    assert buffer.take_batch().equals(whole(pa.concat_tables(expected)))


def test_more_rows_than_a_chunk_holds():
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    buffer = RowBuffer(schema)
    for at in range(5000):
        buffer.append(at, str(at))
    batch = buffer.take_batch()
    assert batch.column("a").to_pylist() == list(range(5000))
    assert batch.column("s").to_pylist() == [str(at) for at in range(5000)]


def test_chunks_that_are_full_are_closed(monkeypatch):
    monkeypatch.setattr("tessel.store.rows.buffer._CHUNK_BYTES", 1 << 15)
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    buffer = RowBuffer(schema)
    for at in range(10_000):
        buffer.append(at, None if at % 7 == 0 else "x" * (at % 5))
    assert len(buffer) == 10_000
    batch = buffer.take_batch()
    assert batch.column("a").to_pylist() == list(range(10_000))
    assert batch.column("s").to_pylist() == [
        None if at % 7 == 0 else "x" * (at % 5) for at in range(10_000)
    ]


@pytest.mark.parametrize(
    "values",
    [
        (1, "a", True),
        (1, "a", True, "b", 2),
        (2**15, "a", True, "b"),
        (1, b"a", True, "b"),
        (1, "a", 1, "b"),
        (1, "a", True, "\ud800"),
        (1.5, "a", True, "b"),
    ],
    ids=str,
)
def test_a_row_that_is_wrong_leaves_the_buffer_as_it_was(values):
    buffer = RowBuffer(RowSchema.from_arrow(MIXED))
    buffer.append(1, "a", True, "b")
    size = buffer.nbytes
    with pytest.raises(InvalidInputError):
        buffer.append(*values)
    assert (len(buffer), buffer.nbytes) == (1, size)
    buffer.append(2, "c", False, "d")
    assert buffer.take_batch().to_pydict() == {
        "a": [1, 2],
        "s": ["a", "c"],
        "ok": [True, False],
        "t": ["b", "d"],
    }


def test_a_row_of_too_few_values_says_what_is_wanted():
    buffer = RowBuffer(RowSchema.from_arrow(MIXED))
    for values in ((), (1, "a", True), (1, "a", True, "b", "c")):
        with pytest.raises(InvalidInputError, match=f"a row of {len(values)} values, and .* 4 f"):
            buffer.append(*values)


def test_datetimes_take_the_slow_way_to_the_same_rows():
    schema = RowSchema.from_arrow(pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.int8())]))
    buffer = RowBuffer(schema)
    moment = dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)
    buffer.append(moment, 1)
    buffer.append(int(moment.timestamp()) * 1_000_000, 1)
    first, second = buffer.take_batch().column("t").to_pylist()
    assert first == second == moment


def test_rows_of_a_foreign_struct():
    schema = RowSchema.from_struct(
        pa.schema([("price", pa.int64()), ("venue", pa.binary(4))]),
        {"price": 12, "venue": 2},
        row_size=24,
        byte_order="big",
    )
    buffer = RowBuffer(schema)
    buffer.append(-7, b"XLON")
    with pytest.raises(InvalidInputError, match="cannot be null"):
        buffer.append(None, b"XLON")
    with pytest.raises(InvalidInputError, match="takes no"):
        buffer.append(1, b"abc")
    (rows,) = buffer.take()
    data = rows.to_bytes()
    assert data == bytes(2) + b"XLON" + bytes(6) + (-7).to_bytes(8, "big", signed=True) + bytes(4)


def test_bytes_of_other_rows_are_refused_whole():
    schema = RowSchema.from_arrow(MIXED)
    other = RowSchema.from_arrow(pa.schema([("a", pa.int16())]))
    ones = Rows.from_batch(other, pa.table({"a": pa.array([1], pa.int16())}))
    buffer = RowBuffer(schema)
    with pytest.raises(RowFormatError, match="rows of the schema"):
        buffer.extend_bytes(ones.to_bytes())
    with pytest.raises(SchemaMismatchError, match="in a buffer of"):
        buffer.extend(ones)
    with pytest.raises(SchemaMismatchError, match="RowArena"):
        RowBuffer(RowSchema.from_arrow(MIXED, "aligned"))
    assert len(buffer) == 0


def test_bytes_that_come_in_are_not_copied():
    schema = RowSchema.from_arrow(MIXED)
    table = pa.table({"a": [1], "s": ["x"], "ok": [True], "t": ["y"]}).cast(MIXED)
    data = Rows.from_batch(schema, table).to_bytes()
    buffer = RowBuffer(schema)
    buffer.extend_bytes(data)
    (rows,) = buffer.take()
    assert np.shares_memory(rows.records, np.frombuffer(data, np.uint8))

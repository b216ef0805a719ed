"""Arrow → rows → Arrow, and the bytes between them, against a plain reader."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import RowFormatError, SchemaMismatchError, UnsupportedTypeError
from tessel.store.rows import RowArena, RowBuffer, Rows, RowSchema
from tests.store.rows.reference import plain, read_aligned, read_packed
from tests.store.rows.tables import column_of, tables


def whole(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch, also where it has no rows."""
    return pa.RecordBatch.from_arrays(
        [c.combine_chunks() if c.num_chunks else pa.array([], c.type) for c in table.columns],
        schema=table.schema,
    )


@given(tables())
def test_a_table_comes_back_as_it_was(table):
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    back = rows.to_batch()
    back.validate(full=True)
    assert back.equals(whole(table))


@given(tables())
def test_the_bytes_are_what_the_specification_says(table):
    schema = RowSchema.from_arrow(table.schema)
    data = Rows.from_batch(schema, table).to_bytes()
    assert read_packed(table.schema, data) == plain(table)
    assert Rows.from_bytes(schema, data).to_batch().equals(whole(table))
    assert Rows.from_bytes(schema, data).to_bytes() == data


@given(tables(variable=False))
def test_aligned_rows_of_fixed_fields(table):
    schema = RowSchema.from_arrow(table.schema, "aligned")
    data = Rows.from_batch(schema, table).to_bytes()
    assert read_aligned(table.schema, data) == plain(table)
    assert Rows.from_bytes(schema, data).to_batch().equals(whole(table))


@given(tables(max_rows=6))
def test_aligned_rows_with_text_written_row_by_row(table):
    schema = RowSchema.from_arrow(table.schema, "aligned")
    arena = RowArena(schema, row_capacity=8, var_capacity=2000)
    for values in numbers_of(table):
        row = arena.new_row()
        for name, value in zip(schema.names, values, strict=True):
            row.set(name, value)
    data = arena.rows().to_bytes()
    assert read_aligned(table.schema, data) == plain(table)
    assert arena.rows().to_batch().equals(whole(table))
    assert Rows.from_bytes(schema, data).to_batch().equals(whole(table))


def numbers_of(table: pa.Table) -> list[list[object]]:
    """Return the rows of a table with temporal values as their numbers."""
    columns = []
    for column in table.columns:
        if pa.types.is_temporal(column.type):
            integer = pa.int32() if column.type.bit_width == 32 else pa.int64()
            column = column.combine_chunks().view(integer)
        columns.append(column.to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]


@given(tables(), st.integers(0, 3), st.integers(0, 3))
def test_parts_of_longer_columns(table, start, length):
    part = table.slice(start, length)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), part)
    assert rows.to_batch().equals(whole(part.take(pa.array(range(len(part)), pa.int64()))))


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_struct_of_somebody_else(order):
    native = np.dtype([("kind", "u1"), ("venue", "S4"), ("price", "i8"), ("size", "u4")])
    packets = np.zeros(100, native.newbyteorder("<" if order == "little" else ">"))
    packets["venue"], packets["price"], packets["size"] = b"XLON", np.arange(100) * -7, 2**32 - 1
    schema = RowSchema.from_struct(
        pa.schema([("price", pa.int64()), ("size", pa.uint32()), ("venue", pa.binary(4))]),
        {"price": 5, "size": 13, "venue": 1},
        row_size=native.itemsize,
        byte_order=order,
    )
    rows = Rows.from_bytes(schema, packets.tobytes())
    assert rows.to_batch().to_pydict() == {
        "price": (np.arange(100) * -7).tolist(),
        "size": [2**32 - 1] * 100,
        "venue": [b"XLON"] * 100,
    }
    assert rows[3].to_dict() == {"price": -21, "size": 2**32 - 1, "venue": b"XLON"}


def test_what_is_read_from_bytes_shares_their_memory():
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    data = Rows.from_batch(schema, pa.table({"a": [1, 2], "s": ["x", "yy"]})).to_bytes()
    rows = Rows.from_bytes(schema, data)
    memory = np.frombuffer(data, np.uint8)
    assert np.shares_memory(rows.field("a"), memory)
    assert np.shares_memory(rows.heap, memory)


def test_text_that_lies_in_order_is_not_copied():
    schema = RowSchema.from_arrow(pa.schema([("s", pa.string()), ("t", pa.string())]))
    rows = Rows.from_batch(schema, pa.table({"s": ["a", "", None, "bc"], "t": ["x"] * 4}))
    for name in ("s", "t"):
        data = np.frombuffer(rows.column(name).buffers()[2], np.uint8)
        assert np.shares_memory(data, rows.heap)


def test_a_fixed_column_costs_one_copy():
    count = 100_000
    columns = {f"f{at}": column_of(pa.int64(), list(range(count))) for at in range(4)}
    rows = Rows.from_batch(RowSchema.from_arrow(pa.table(columns).schema), pa.table(columns))
    tracemalloc.start()
    try:
        batch = rows.to_batch()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert batch.nbytes == 4 * count * 8
    # numpy tells tracemalloc of what it allocates; the bit of nulls is looked at in one more byte
    # a row, and freed again.
    assert peak < batch.nbytes + 2 * count


def test_memory_of_rows_that_are_used_again_is_not_in_the_batch():
    schema = RowSchema.from_struct(pa.schema([("a", pa.int64())]), {"a": 0}, 8)
    buffer = RowBuffer(schema)
    buffer.append(1)
    batch = buffer.take_batch()
    buffer.append(2)
    assert batch.to_pydict() == {"a": [1]}


def test_batches_of_other_columns_are_refused():
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="the batch does not"):
        Rows.from_batch(schema, pa.table({"b": [1]}))
    with pytest.raises(SchemaMismatchError, match="has one of type double"):
        Rows.from_batch(schema, pa.table({"a": [1.0]}))
    struct = RowSchema.from_struct(pa.schema([("a", pa.int64())]), {"a": 0}, 8)
    with pytest.raises(SchemaMismatchError, match="has nulls"):
        Rows.from_batch(struct, pa.table({"a": pa.array([None], pa.int64())}))
    aligned = RowSchema.from_arrow(pa.schema([("s", pa.string())]), "aligned")
    with pytest.raises(UnsupportedTypeError, match="RowArena"):
        Rows.from_batch(aligned, pa.table({"s": ["a"]}))


def test_text_past_two_gibibytes_is_refused_before_it_is_made():
    schema = RowSchema.from_arrow(pa.schema([("s", pa.string())]))
    heap = np.zeros(2**20, np.uint8)
    records = np.zeros(2049, schema.dtype)
    records["s"] = (0, 2**20)
    with pytest.raises(RowFormatError, match="large_string"):
        Rows(schema, records, heap).column("s")

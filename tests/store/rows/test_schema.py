"""RowSchema: where fields lie, in the three layouts, and what no row can hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    InvalidInputError,
    UnsupportedTypeError,
)
from tessel.store.rows import Layout, RowSchema
from tests.store.rows.tables import tables

TRADES = pa.schema(
    [
        ("time", pa.timestamp("ns")),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int32()),
        ("is_buy", pa.bool_()),
    ]
)


def offsets(schema: RowSchema) -> dict[str, int]:
    return {field.name: field.offset for field in schema.fields}


def test_packed_fields_follow_each_other_after_the_bitmap():
    schema = RowSchema.from_arrow(TRADES)
    assert offsets(schema) == {"time": 1, "symbol": 9, "price": 17, "volume": 25, "is_buy": 29}
    assert schema.fixed_size == 30
    assert (schema.null_bitmap_offset, schema.null_bitmap_size) == (0, 1)
    assert schema.layout is Layout.PACKED


def test_aligned_fields_lie_where_a_compiler_puts_them():
    schema = RowSchema.from_arrow(TRADES, "aligned")
    assert offsets(schema) == {"time": 16, "symbol": 24, "price": 32, "volume": 40, "is_buy": 44}
    assert schema.fixed_size == 48
    assert (schema.null_bitmap_offset, schema.null_bitmap_size) == (8, 8)


def test_an_aligned_field_is_moved_to_a_multiple_of_its_size():
    schema = RowSchema.from_arrow(
        pa.schema([("a", pa.int8()), ("b", pa.int64()), ("c", pa.int16()), ("d", pa.int32())]),
        "aligned",
    )
    assert offsets(schema) == {"a": 16, "b": 24, "c": 32, "d": 36}
    assert schema.fixed_size == 40


def test_the_bitmap_has_a_bit_a_field():
    for fields, size in ((1, 1), (8, 1), (9, 2), (64, 8), (65, 9)):
        schema = RowSchema.from_arrow(pa.schema([(f"f{at}", pa.int8()) for at in range(fields)]))
        assert schema.null_bitmap_size == size
        assert schema.fixed_size == size + fields
        assert [field.null_bit for field in schema.fields] == list(range(fields))


def test_all_fixed_says_whether_there_is_text():
    assert not RowSchema.from_arrow(TRADES).all_fixed
    assert RowSchema.from_arrow(TRADES.remove(1)).all_fixed
    assert not RowSchema.from_arrow(pa.schema([("b", pa.large_binary())])).all_fixed


def test_the_number_of_a_schema_follows_from_names_and_types():
    schema = RowSchema.from_arrow(TRADES)
    assert schema.schema_id == 0x46609E61
    assert schema.schema_id == RowSchema.from_arrow(TRADES, "aligned").schema_id
    assert schema.schema_id == RowSchema.from_arrow(TRADES.with_metadata({"a": "b"})).schema_id
    others = [
        TRADES.set(2, pa.field("Price", pa.float64())),
        TRADES.set(2, pa.field("price", pa.float32())),
        pa.schema(list(TRADES)[::-1]),
    ]
    numbers = {RowSchema.from_arrow(other).schema_id for other in others}
    assert len(numbers | {schema.schema_id}) == 4


@given(tables())
def test_fields_never_overlap(table):
    for layout in ("packed", "aligned"):
        schema = RowSchema.from_arrow(table.schema, layout)
        used = np.zeros(schema.fixed_size, np.int64)
        used[schema.null_bitmap_offset :][: schema.null_bitmap_size] += 1
        for field in schema.fields:
            used[field.offset : field.offset + field.size] += 1
            if layout == "aligned":
                assert field.offset % field.type.alignment == 0
        assert used.max() == 1
        assert schema.dtype.itemsize == schema.fixed_size
        if layout == "packed":
            assert used.min() == 1
        else:
            assert schema.fixed_size % 8 == 0


def test_a_struct_of_somebody_else_keeps_its_places():
    schema = RowSchema.from_struct(
        pa.schema([("price", pa.int64()), ("venue", pa.binary(4))]),
        {"price": 12, "venue": 2},
        row_size=24,
        byte_order="big",
    )
    assert offsets(schema) == {"price": 12, "venue": 2}
    assert (schema.fixed_size, schema.null_bitmap_size) == (24, 0)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.decimal128(10, 2),
        pa.float16(),
        pa.null(),
        pa.string_view(),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name(kind):
    with pytest.raises(UnsupportedTypeError, match="'x' is "):
        RowSchema.from_arrow(pa.schema([("x", kind)]))


def test_schemas_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="needs a field"):
        RowSchema.from_arrow(pa.schema([]))
    with pytest.raises(DuplicateColumnError, match="'a'"):
        RowSchema.from_arrow(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    with pytest.raises(InvalidInputError, match="no row layout 'loose'"):
        RowSchema.from_arrow(TRADES, "loose")


@pytest.mark.parametrize(
    ("offsets", "size", "message"),
    [
        ({"a": 1}, 8, "lies at 1 in a struct of 8"),
        ({}, 8, "lies at None"),
        ({"a": -1}, 16, "lies at -1"),
        ({"a": 0, "b": 8}, 16, "no column 'b'"),
        ({"a": 0}, 0, "struct of 0 bytes"),
    ],
)
def test_structs_whose_fields_lie_outside_are_refused(offsets, size, message):
    with pytest.raises((InvalidInputError, ColumnNotFoundError), match=message):
        RowSchema.from_struct(pa.schema([("a", pa.int64())]), offsets, size)


def test_text_in_a_struct_has_a_fixed_width():
    with pytest.raises(UnsupportedTypeError, match="no fixed size"):
        RowSchema.from_struct(pa.schema([("a", pa.string())]), {"a": 0}, 16)


def test_an_unknown_field_names_the_nearest():
    schema = RowSchema.from_arrow(TRADES)
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        schema.field("prise")
    with pytest.raises(ColumnNotFoundError, match="no field 5"):
        schema.field(5)
    assert schema.field(-1).name == "is_buy"

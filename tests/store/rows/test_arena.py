"""RowArena and MutableEventRow: rows filled field by field in memory that is used again."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import ColumnNotFoundError, InvalidInputError, RowSpaceError
from tessel.store.rows import RowArena, Rows, RowSchema

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("x", pa.float32()), ("b", pa.binary())])
LAYOUTS = pytest.mark.parametrize("layout", ["packed", "aligned"])


def arena_of(layout: str, *, rows: int = 4, text: int = 16) -> RowArena:
    schema = RowSchema.from_arrow(SCHEMA, layout)
    return RowArena(schema, row_capacity=rows, var_capacity=text)


@LAYOUTS
def test_every_setter_is_read_by_its_getter(layout):
    fields = {
        "bool": (pa.bool_(), True), "i8": (pa.int8(), -8), "i16": (pa.int16(), -16),
        "i32": (pa.int32(), -32), "i64": (pa.int64(), -64), "u8": (pa.uint8(), 8),
        "u16": (pa.uint16(), 16), "u32": (pa.uint32(), 32), "u64": (pa.uint64(), 2**64 - 1),
        "f32": (pa.float32(), 0.5), "f64": (pa.float64(), 0.1), "str": (pa.string(), "ä"),
        "bytes": (pa.binary(), b"\xff"),
    }  # fmt: skip
    schema = RowSchema.from_arrow(pa.schema([(n, kind) for n, (kind, _) in fields.items()]), layout)
    row = RowArena(schema, var_capacity=16).new_row()
    for name, (_, value) in fields.items():
        getattr(row, f"set_{name}")(name, value)
    for name, (_, value) in fields.items():
        assert getattr(row.view(), f"get_{name}")(name) == value


@LAYOUTS
def test_null_is_set_and_cleared_again(layout):
    row = arena_of(layout).new_row()
    for _ in range(3):
        row.set_null("a")
        row.set_null("s")
        assert (row.view().get("a"), row.view().get("s")) == (None, None)
        row.set_i64("a", 7)
        row.set_str("s", "t")
        assert (row.view().get("a"), row.view().get("s")) == (7, "t")
    row.set("a", None)
    assert row.view().is_null("a")
    assert not row.view().is_null("x")


@LAYOUTS
def test_text_set_twice_is_the_last(layout):
    row = arena_of(layout).new_row()
    row.set_str("s", "one")
    row.set_bytes("b", b"2")
    row.set_str("s", "three")
    assert row.view().to_dict() == {"a": 0, "s": "three", "x": 0.0, "b": b"2"}


@LAYOUTS
def test_no_room_for_text_leaves_the_row_as_it_was(layout):
    arena = arena_of(layout)
    row = arena.new_row()
    row.set_str("s", "0123456789")
    row.set_null("b")
    with pytest.raises(RowSpaceError, match="11 bytes of text, and 6 are left"):
        row.set_bytes("b", b"x" * 11)
    assert row.view().to_dict() == {"a": 0, "s": "0123456789", "x": 0.0, "b": None}
    row.set_bytes("b", b"x" * 6)
    assert row.view().get("b") == b"x" * 6


def test_packed_rows_share_a_heap_and_aligned_ones_have_their_own():
    packed, aligned = arena_of("packed"), arena_of("aligned")
    for arena in (packed, aligned):
        arena.new_row().set_str("s", "x" * 16)
    with pytest.raises(RowSpaceError, match="0 are left in the heap"):
        packed.new_row().set_str("s", "y")
    aligned.new_row().set_str("s", "y" * 16)


@LAYOUTS
def test_no_more_rows_than_fit(layout):
    arena = arena_of(layout)
    for at in range(4):
        arena.new_row().set_i64("a", at)
    with pytest.raises(RowSpaceError, match="all 4 rows"):
        arena.new_row()
    assert [row.get("a") for row in arena.rows()] == [0, 1, 2, 3]


@LAYOUTS
def test_reset_uses_the_memory_again_zeroed(layout):
    arena = arena_of(layout)
    memory = arena._memory
    row = arena.new_row()
    row.set_i64("a", 5)
    row.set_null("x")
    row.set_str("s", "x" * 16)
    kept = arena.rows().to_batch()
    arena.reset()
    assert len(arena) == 0
    with pytest.raises(InvalidInputError, match="after the arena was reset"):
        row.set_i64("a", 6)
    new = arena.new_row()
    assert new.view().to_dict() == {"a": 0, "s": "", "x": 0.0, "b": b""}
    new.set_str("s", "y" * 16)
    assert arena._memory is memory
    assert kept.to_pylist() == [{"a": 5, "s": "x" * 16, "x": None, "b": b""}]


@LAYOUTS
def test_what_was_written_is_the_wire_form(layout):
    arena = arena_of(layout)
    for at in range(3):
        row = arena.new_row()
        row.set_i64("a", at)
        row.set_str("s", "s" * at)
    rows = Rows.from_bytes(arena.schema, arena.rows().to_bytes())
    assert list(rows) == list(arena.rows())
    assert np.shares_memory(arena.rows().heap, arena._heap if layout == "packed" else arena._memory)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128), (pa.uint8(), -1), (pa.int64(), 2**63), (pa.int64(), 1.5),
        (pa.int64(), True), (pa.int64(), "1"), (pa.bool_(), 1), (pa.float64(), "1"),
        (pa.float32(), 1e300), (pa.string(), b"a"), (pa.string(), "\ud800"), (pa.binary(), "a"),
        (pa.timestamp("s"), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (pa.timestamp("us"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1)),
        (pa.timestamp("ns"), dt.datetime(9999, 1, 1)),
        (pa.timestamp("ms"), np.datetime64(1, "us")),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_other_types_are_refused_and_change_nothing(kind, value):
    schema = RowSchema.from_arrow(pa.schema([("x", kind)]))
    arena = RowArena(schema, var_capacity=16)
    row = arena.new_row()
    before = arena.rows().to_bytes()
    with pytest.raises(InvalidInputError, match=r"field 'x' of type .* takes no"):
        row.set("x", value)
    assert arena.rows().to_bytes() == before


def test_temporal_values_of_python_and_numpy():
    kinds = {
        "t": (pa.timestamp("us", "Europe/Berlin"), dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)),
        "n": (pa.timestamp("ns"), np.datetime64("2024-07-01T12:00:00.000000001")),
        "d": (pa.date32(), dt.date(2024, 2, 29)),
        "p": (pa.duration("ms"), dt.timedelta(seconds=-1)),
        "c": (pa.time64("us"), dt.time(1, 2, 3, 4)),
    }
    schema = RowSchema.from_arrow(pa.schema([(name, kind) for name, (kind, _) in kinds.items()]))
    arena = RowArena(schema)
    row = arena.new_row()
    for name, (_, value) in kinds.items():
        row.set(name, value)
    expected = pa.table({name: pa.array([value], kind) for name, (kind, value) in kinds.items()})
    assert pa.Table.from_batches([arena.rows().to_batch()]).equals(expected)


def test_setters_of_another_type_and_unknown_fields_are_refused():
    row = arena_of("packed").new_row()
    with pytest.raises(InvalidInputError, match="use set_i64"):
        row.set_f64("a", 1.0)
    with pytest.raises(ColumnNotFoundError, match="no column 'z'"):
        row.set("z", 1)
    struct = RowSchema.from_struct(pa.schema([("a", pa.int64())]), {"a": 0}, 8)
    with pytest.raises(InvalidInputError, match="cannot be null"):
        RowArena(struct).new_row().set_null("a")
    with pytest.raises(InvalidInputError, match="at least one row"):
        RowArena(struct, row_capacity=0)

"""A flipped bit in a file of packed rows: what headers tell is told before a row is given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tessel.errors import RowFormatError
from tessel.store.rows import FileTail, Rows, RowSchema
from tessel.store.rows.wire import BATCH_HEADER

FIXED = RowSchema.from_arrow(
    pa.schema([("number", pa.int64()), ("price", pa.float64()), ("size", pa.int64())])
)
TEXT = RowSchema.from_arrow(pa.schema([("number", pa.int64()), ("name", pa.string())]))


def batch(schema: RowSchema, numbers: range) -> bytes:
    columns = {
        "number": pa.array(numbers, pa.int64()),
        "price": pa.array([float(n) for n in numbers], pa.float64()),
        "size": pa.array([7 for _ in numbers], pa.int64()),
        "name": pa.array([f"n{n:03}" for n in numbers], pa.string()),
    }
    names = schema.arrow.names
    table = pa.RecordBatch.from_pydict({n: columns[n] for n in names}, schema=schema.arrow)
    return Rows.from_batch(schema, table).to_bytes()


def take(tail: FileTail, found: list[int]) -> None:
    for rows in tail.read():
        found += [row.get("number") for row in rows]


@pytest.mark.parametrize("schema", [FIXED, TEXT])
def test_a_flip_in_a_header_is_an_error_and_no_row_of_its_batch_is_given(schema, tmp_path):
    """Nor of the batch before, where it may have been that one's length which was damaged."""
    parts = [batch(schema, range(at, at + 4)) for at in range(0, 16, 4)]
    content, path, start = b"".join(parts), tmp_path / "rows", 0
    for number, part in enumerate(parts):
        for bit in range(8 * BATCH_HEADER.size):
            damaged = bytearray(content)
            damaged[start + bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            found: list[int] = []
            with pytest.raises(RowFormatError):
                take(FileTail(path, schema), found)
            assert found == list(range(len(found))), bit
            assert 4 * (number - 1) <= len(found) <= 4 * number, bit
        start += len(part)


def test_a_length_that_swallows_the_next_batches_exactly_is_an_error(tmp_path):
    """16 bytes of text and a batch of 64 bytes: one bit makes the text reach to its end."""
    first, second = batch(TEXT, range(4)), batch(TEXT, range(4, 6))
    heap = BATCH_HEADER.unpack_from(first)[6]
    path = tmp_path / "rows"
    header = (*BATCH_HEADER.unpack_from(first)[:6], heap + len(second))
    path.write_bytes(BATCH_HEADER.pack(*header) + first[BATCH_HEADER.size :] + second)
    with pytest.raises(RowFormatError, match="other batches"):
        list(FileTail(path, TEXT).read())


def test_bytes_like_a_header_within_a_text_are_text(tmp_path):
    schema = RowSchema.from_arrow(pa.schema([("inner", pa.binary())]))
    inner = Rows.from_batch(
        schema, pa.RecordBatch.from_pydict({"inner": [b"x"]}, schema=schema.arrow)
    ).to_bytes()
    values = [inner, b"behind"]
    outer = Rows.from_batch(
        schema, pa.RecordBatch.from_pydict({"inner": values}, schema=schema.arrow)
    ).to_bytes()
    path = tmp_path / "rows"
    path.write_bytes(outer * 2)
    found = [row.get("inner") for rows in FileTail(path, schema).read() for row in rows]
    assert found == values * 2

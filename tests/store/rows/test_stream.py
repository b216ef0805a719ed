"""RowStream and the checks of bytes from outside: cut anywhere, damaged anywhere."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError, RowFormatError
from tessel.store.rows import RowArena, Rows, RowSchema, RowStream
from tests.store.rows.tables import tables
from tests.store.rows.test_columns import numbers_of, whole

TABLE = pa.table(
    {
        "a": pa.array([1, None, 3, 4], pa.int32()),
        "s": ["x", "yy", None, "Grüße"],
        "b": pa.array([b"1", b"", None, b"\xff"], pa.binary()),
    }
)


def wire(table: pa.Table, layout: str) -> tuple[RowSchema, list[bytes]]:
    """Return a table as messages: batches of up to two rows, or aligned rows one by one."""
    schema = RowSchema.from_arrow(table.schema, layout)
    if layout == "packed":
        parts = [table.slice(at, 2) for at in range(0, len(table), 2)]
        return schema, [Rows.from_batch(schema, part).to_bytes() for part in parts]
    messages = []
    for values in numbers_of(table):
        size = sum(len(v) * 4 for v in values if isinstance(v, str | bytes))
        arena = RowArena(schema, row_capacity=1, var_capacity=size)
        row = arena.new_row()
        for name, value in zip(schema.names, values, strict=True):
            row.set(name, value)
        messages.append(arena.rows().to_bytes())
    return schema, messages


@given(tables(max_rows=7), st.sampled_from(["packed", "aligned"]), st.data())
def test_a_stream_cut_anywhere_gives_the_rows(table, layout, data):
    schema, messages = wire(table, layout)
    content = b"".join(messages)
    stream = RowStream(schema)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=12)))
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += stream.feed(content[start:stop])
        assert stream.position + stream.held_bytes == stop
    stream.close()
    batches = [rows.to_batch() for rows in found]
    assert whole(pa.Table.from_batches(batches, table.schema)).equals(whole(table))


@pytest.mark.parametrize("layout", ["packed", "aligned"])
def test_half_a_row_is_kept_and_reported_at_the_end(layout):
    schema, (*before, last) = wire(TABLE, layout)
    for cut in range(1, len(last)):
        stream = RowStream(schema)
        rows = sum(len(each) for each in stream.feed(b"".join(before) + last[:cut]))
        assert rows == len(before) * (2 if layout == "packed" else 1)
        with pytest.raises(RowFormatError, match=f"ends with {cut} bytes that are no whole row"):
            stream.close()


@pytest.mark.parametrize("layout", ["packed", "aligned"])
def test_bytes_that_are_cut_are_no_rows(layout):
    schema, messages = wire(TABLE, layout)
    content = messages[0] if layout == "packed" else b"".join(messages)
    whole_ends = {0} if layout == "packed" else set()
    at = 0
    for message in messages if layout == "aligned" else []:
        whole_ends.add(at)
        at += len(message)
    for cut in range(len(content)):
        if cut in whole_ends and layout == "aligned":
            assert len(Rows.from_bytes(schema, content[:cut])) == sorted(whole_ends).index(cut)
            continue
        with pytest.raises(RowFormatError):
            Rows.from_bytes(schema, content[:cut])


@pytest.mark.parametrize("layout", ["packed", "aligned"])
def test_damaged_bytes_are_rows_or_a_typed_error(layout):
    """Any flipped bit is refused, or changes values only: never memory outside, never a crash."""
    schema, messages = wire(TABLE, layout)
    content = messages[0] if layout == "packed" else b"".join(messages)
    refused = 0
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            rows = Rows.from_bytes(schema, bytes(damaged))
        except RowFormatError:
            refused += 1
            continue
        rows.to_batch().validate(full=True)
        assert [row.get_i32(0) for row in rows] == rows.column(0).to_pylist()
        assert [row.get_str(1) for row in rows] == rows.column(1).to_pylist()
        assert [row.get_bytes(2) for row in rows] == rows.column(2).to_pylist()
    assert refused > len(content)


def all_of(stream: RowStream, content: bytes) -> list[Rows]:
    """Return the rows of a stream that ends after some bytes."""
    rows = stream.feed(content)
    stream.close()
    return rows


def test_forged_lengths_allocate_nothing():
    schema, messages = wire(TABLE, "packed")
    for at, width in ((12, 4), (16, 8), (24, 8)):
        for forged in (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1):
            damaged = bytearray(messages[0])
            damaged[at : at + width] = (forged % 2 ** (8 * width)).to_bytes(width, "little")
            with pytest.raises(RowFormatError):
                Rows.from_bytes(schema, bytes(damaged))
            with pytest.raises(RowFormatError):
                all_of(RowStream(schema), bytes(damaged))


def test_random_bytes_are_refused():
    source = random.Random(7)
    schema = RowSchema.from_arrow(TABLE.schema)
    for size in (0, 1, 31, 32, 33, 1000):
        with pytest.raises(RowFormatError):
            Rows.from_bytes(schema, source.randbytes(size))


def test_text_that_is_not_utf8_is_refused():
    schema, messages = wire(pa.table({"s": ["ab"]}), "packed")
    with pytest.raises(RowFormatError, match="'s' holds text that is not UTF-8"):
        Rows.from_bytes(schema, messages[0].replace(b"ab", b"\xffb"))


def test_the_rows_before_an_error_are_given_and_the_error_stays():
    schema, messages = wire(TABLE, "packed")
    stream = RowStream(schema)
    rubbish = b"rubbish, longer than a header is...."
    found = stream.feed(messages[0] + messages[0] + rubbish)
    assert [len(rows) for rows in found] == [2]  # the second may end too early, for all we know
    assert stream.position == len(messages[0])
    for _ in range(2):
        with pytest.raises(RowFormatError, match="what follows is none"):
            stream.feed(messages[1])
    with pytest.raises(RowFormatError, match="what follows is none"):
        stream.close()
    stream = RowStream(schema)
    assert [len(rows) for rows in stream.feed(messages[0])] == [2]
    with pytest.raises(RowFormatError, match="begins with"):
        stream.feed(rubbish)


def test_batches_longer_than_wanted_are_not_waited_for():
    schema, messages = wire(TABLE, "packed")
    stream = RowStream(schema, max_batch_bytes=40)
    with pytest.raises(RowFormatError, match="40 are waited for"):
        stream.feed(messages[0][:32])
    aligned, messages = wire(TABLE, "aligned")
    stream = RowStream(aligned, max_batch_bytes=40)
    with pytest.raises(RowFormatError, match="40 are waited for"):
        stream.feed(messages[0][:20])
    with pytest.raises(InvalidInputError):
        RowStream(schema, max_batch_bytes=0)

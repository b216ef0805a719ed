"""Parts as bytes: every type survives, and nothing damaged is believed."""

from __future__ import annotations

import json
import random
import struct

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.piece import RowRange, TimeRange
from tessel.errors import CorruptStoreError
from tessel.spark_exec.blobs import PartFacts, decode, encode
from tests.spark_exec.arrow_tables import tables, ticks

PLAIN = PartFacts(RowRange(0, 3))

ordered_pairs = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted)
facts = st.builds(
    PartFacts,
    row_range=ordered_pairs.map(lambda pair: RowRange(*pair)),
    time_range=st.none()
    | st.tuples(st.integers(-(2**63), 0), st.integers(0, 2**63 - 1)).map(lambda p: TimeRange(*p)),
    symbol=st.integers(0, 9),
    fetches=st.integers(0, 9),
    index=st.none() | st.text(max_size=5),
    bucket=st.none() | st.integers(0, 9),
    components=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=2).map(tuple),
)


def sealed(stream: bytes) -> bytes:
    """Return a stream with a right checksum, as a forger would."""
    return stream + struct.pack("<4sI", b"TSLP", google_crc32c.value(stream))


@given(table=tables(), known=facts)
def test_every_table_and_every_fact_survives(table: pa.Table, known: PartFacts) -> None:
    part = decode(encode(table, known, piece=2, pieces=5))
    assert part.table.schema.equals(table.schema, check_metadata=True)
    assert part.table.equals(table)
    assert (part.facts, part.piece, part.pieces) == (known, 2, 5)


def test_a_blob_is_a_stream_that_any_reader_opens() -> None:
    table = ticks(5_000, seed=1)
    blob = encode(table, PLAIN)
    assert len(blob) < table.nbytes, "large blobs are compressed"
    with pa.ipc.open_stream(blob) as reader:
        read = reader.read_all()
    assert read.equals(table)
    envelope = json.loads(read.schema.metadata[b"tessel.part"])
    assert envelope["facts"]["row_range"] == [0, 3]
    assert envelope["rows"] == 5_000


def test_special_floats_survive_bit_for_bit() -> None:
    bits = [0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000]
    table = pa.table({"x": pa.array(bits, pa.uint64()).view(pa.float64())})
    again = decode(encode(table, PLAIN)).table
    assert again.column("x").chunk(0).view(pa.uint64()).to_pylist() == bits


@given(data=st.data())
def test_any_cut_is_refused(data: st.DataObject) -> None:
    blob = encode(ticks(20, seed=2), PLAIN)
    length = data.draw(st.integers(0, len(blob) - 1))
    with pytest.raises(CorruptStoreError, match="damaged"):
        decode(blob[:length])


@given(data=st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    blob = bytearray(encode(ticks(20, seed=3), PLAIN))
    place = data.draw(st.integers(0, len(blob) - 1))
    blob[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptStoreError, match="damaged"):
        decode(bytes(blob))


@pytest.mark.parametrize("rows", [20, 3_000], ids=["plain", "compressed"])
def test_a_forged_stream_is_a_table_or_a_typed_error(rows: int) -> None:
    stream = encode(ticks(rows, seed=4), PLAIN)[:-8]
    source = random.Random(5)
    refused = 0
    for _ in range(400):
        forged = bytearray(stream)
        for _ in range(source.randint(1, 4)):
            forged[source.randrange(min(len(forged), 4_000))] = source.randrange(256)
        try:
            table = decode(sealed(bytes(forged))).table
            table.take(list(range(table.num_rows))).validate(full=True)
        except CorruptStoreError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    "change",
    [
        {"row_range": [5, 2]},
        {"row_range": [-1, 2]},
        {"row_range": ["0", 2]},
        {"row_range": [0, True]},
        {"row_range": [0]},
        {"time_range": [2, 1]},
        {"time_range": 7},
        {"symbol": [0]},
        {"symbol": -1},
        {"components": ["a"]},
        {"components": [["a", 1]]},
        {"fetches": -1},
        {"fetches": 1.5},
        {"index": 3},
        {"bucket": "0"},
        {"bucket": -1},
    ],
    ids=str,
)
def test_forged_facts_are_refused(change: dict[str, object]) -> None:
    good = PartFacts(RowRange(0, 3), TimeRange(1, 2), 0, 1, "time", 5).to_json()
    assert PartFacts.from_json(good).to_json() == good
    with pytest.raises(CorruptStoreError, match="facts are not valid"):
        PartFacts.from_json({**good, **change})


@pytest.mark.parametrize("data", [None, [], "x", {}, {"row_range": [0, 1]}], ids=str)
def test_facts_of_another_shape_are_refused(data: object) -> None:
    with pytest.raises(CorruptStoreError):
        PartFacts.from_json(data)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"tessel.part": "no json"},
        {"tessel.part": "[]"},
        {"tessel.part": "[" * 100_000},
        {"tessel.part": json.dumps({"facts": PLAIN.to_json(), "rows": 4, "piece": 0, "pieces": 1})},
        {"tessel.part": json.dumps({"facts": PLAIN.to_json(), "rows": 3, "piece": 1, "pieces": 1})},
    ],
    ids=["none", "text", "list", "deep", "rows", "piece"],
)
def test_a_forged_envelope_is_refused(metadata: dict[str, str]) -> None:
    table = pa.table({"x": [1, 2, 3]}).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptStoreError, match="damaged"):
        decode(sealed(sink.getvalue().to_pybytes()))

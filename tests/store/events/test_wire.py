"""Requests of events: what arrives is what was sent, and hostile bytes are refused by name."""

from __future__ import annotations

import random
import struct

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError, TesselError, UnsupportedTypeError
from tessel.store.events import Cell, EventBatch, LiveStore, Row, id_bytes, wire
from tests.store.events.histories import History

LIMIT = 1 << 20
ENTRY = struct.Struct("<BII")
IDS = pa.array([bytes(15) + b"\1"], pa.binary(16))


def arrow_batch(**columns: pa.Array) -> pa.RecordBatch:
    """Return a batch of one event with some columns replaced, or added as components."""
    fields = {
        "event_id": (IDS, {"tessel.kind": "event_id"}),
        "f": (
            pa.array([1]),
            {"tessel.kind": "timeline", "tessel.timeline": "sequence"},
        ),
        "num_instances": (pa.array([1], pa.uint32()), {"tessel.kind": "num_instances"}),
        "x": (pa.array([1.0]), {"tessel.kind": "component"}),
    }
    for name, array in columns.items():
        metadata = fields[name][1] if name in fields else {"tessel.kind": "component"}
        fields[name] = (array, metadata)
    schema = pa.schema(
        [pa.field(name, array.type, metadata=m) for name, (array, m) in fields.items()],
        {"tessel.kind": "events", "tessel.entity": "a"},
    )
    return pa.RecordBatch.from_arrays([array for array, _ in fields.values()], schema=schema)


def parts(batch: pa.RecordBatch, options: object = None) -> tuple[bytes, bytes]:
    """Return schema and content of a batch as entries hold them."""
    schema = batch.schema.serialize().to_pybytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return schema, sink.getvalue().to_pybytes()[len(schema) :]


def plain(*entries: tuple[int, int, bytes]) -> bytes:
    return b"".join(ENTRY.pack(kind, number, len(c)) + c for kind, number, c in entries)


def read(content: bytes, limit: int = LIMIT) -> list[EventBatch]:
    """Return the events of a request, as the server reads it."""
    stored = pa.Codec("zstd").compress(content, asbytes=True)
    decoder = wire.Decoder(limit)
    decoder.check_lengths(len(stored), len(content))
    return decoder.batches(stored, len(content), google_crc32c.value(content))


def history_batches(seed: int) -> list[EventBatch]:
    history = History(seed)
    for _ in range(10):
        history.step()
    return history.store.batches()


def taken(requests: list[bytes], decoder: wire.Decoder) -> LiveStore:
    store = LiveStore()
    for request in requests:
        stored, length, checksum, _ = wire.REQUEST.unpack_from(request)
        assert stored == len(request) - wire.REQUEST.size
        decoder.check_lengths(stored, length)
        store.insert(decoder.batches(request[wire.REQUEST.size :], length, checksum))
    return store


@pytest.mark.parametrize("limit", [4000, LIMIT])
@pytest.mark.parametrize("seed", range(4))
def test_requests_hold_what_was_sent(seed, limit):
    given = history_batches(seed)
    requests = wire.Encoder(limit).requests(given, 0)
    assert (len(requests) == 1) == (limit == LIMIT)
    history = History(seed)
    for _ in range(10):
        history.step()
    history.move_to(taken(requests, wire.Decoder(limit)))
    history.compare()


def test_a_batch_is_split_into_parts_of_all_its_events():
    ids = pa.array([bytes(15) + bytes([at]) for at in range(7)], pa.binary(16))
    ones = pa.array([1] * 7, pa.uint32())
    given = arrow_batch(
        event_id=ids, f=pa.array(range(7)), num_instances=ones, x=pa.array(range(7))
    )
    batch = EventBatch.from_arrow(given)
    for parts in (1, 2, 3, 7, 8, 2**40):
        found = [each.to_arrow() for each in batch.split(parts)]
        assert len(found) == min(parts, 7)
        assert max(map(len, found)) - min(map(len, found)) <= 1
        assert pa.concat_batches(found) == batch.to_arrow()
    for parts in (0, -(2**63) - 1):
        with pytest.raises(InvalidInputError, match=f"at least one part, not {parts}"):
            batch.split(parts)


def test_dictionaries_are_sent_with_their_values():
    cells = [
        Cell.from_arrow("x", pa.array(["a", "b", "a"]).dictionary_encode()),
        Cell.from_arrow("y", pa.array([{"k": 1}], pa.struct({"k": pa.int8()}))),
    ]
    row = Row(id_bytes(1, 1), "a", {"f": 1}, 3, cells)
    sender, encoder, decoder = LiveStore(), wire.Encoder(LIMIT), wire.Decoder(LIMIT)
    sender.insert(row)
    store = taken(encoder.requests(sender.batches(), 0), decoder)
    found = store.latest_at("f", 1, "a")
    assert [found["x"].cell, found["y"].cell] == cells


def test_the_batch_that_the_cases_below_spoil_is_a_good_one():
    schema, content = parts(arrow_batch())
    (batch,) = read(plain((0, 0, schema), (1, 0, content)))
    assert (batch.shape.entity, len(batch)) == ("a", 1)


def spoiled() -> dict[str, bytes]:
    schema, content = parts(arrow_batch())
    good = plain((0, 0, schema), (1, 0, content))
    packed = parts(arrow_batch(), pa.ipc.IpcWriteOptions(compression="zstd"))
    zeros = pa.array(["x" * 100_000])
    bomb = parts(arrow_batch(y=zeros), pa.ipc.IpcWriteOptions(compression="lz4"))
    cases = {
        "half an entry": good[:-1],
        "half a header": good + b"\0",
        "no schema": plain((1, 0, content)),
        "a later schema": plain((0, 1, schema)),
        "another kind": plain((0, 0, schema), (2, 0, content)),
        "an entry past the end": ENTRY.pack(0, 0, 2**32 - 1),
        "a schema that is a batch": plain((0, 0, content), (1, 0, content)),
        "a schema that is noise": plain((0, 0, b"noise" * 9), (1, 0, content)),
        "no content": plain((0, 0, schema), (1, 0, b"")),
        "two batches": plain((0, 0, schema), (1, 0, content[:-8] + content)),
        "bytes behind": plain((0, 0, schema), (1, 0, content + b"more" * 4)),
        "a schema as content": plain((0, 0, schema), (1, 0, schema)),
        "content cut off": plain((0, 0, schema), (1, 0, content[:-20])),
        "compressed by zstd": plain((0, 0, packed[0]), (1, 0, packed[1])),
        "a bomb": plain((0, 0, bomb[0]), (1, 0, bomb[1])),
        "another schema": plain((0, 0, parts(arrow_batch(y=pa.array(["a"])))[0]), (1, 0, content)),
    }
    batches = {
        "no id": arrow_batch(event_id=pa.array([None], pa.binary(16))),
        "an id of 8 bytes": arrow_batch(event_id=pa.array([b"12345678"], pa.binary(8))),
        "a null time": arrow_batch(f=pa.array([None], pa.int64())),
        "a time that is none": arrow_batch(f=pa.array([1.5])),
        "counts that are none": arrow_batch(num_instances=pa.array([-1])),
        "three values for one": arrow_batch(x=pa.array([[1, 2, 3]], pa.large_list(pa.int8()))),
        "a null value": arrow_batch(x=pa.array([None], pa.float64())),
        "a reserved name": arrow_batch(**{"tessel.mine": pa.array([1])}),
        "a name with a slash": arrow_batch(**{"a/b": pa.array([1])}),
        "no component": arrow_batch().select(["event_id", "f", "num_instances"]),
        "no metadata": arrow_batch().replace_schema_metadata(None),
        "no path": arrow_batch().replace_schema_metadata(
            {"tessel.kind": "events", "tessel.entity": "a//b"}
        ),
        "bytes that are no text": arrow_batch(
            y=pa.Array.from_buffers(
                pa.string(), 1,
                [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")],
            )
        ),
    }  # fmt: skip
    for name, batch in batches.items():
        schema, content = parts(batch)
        cases[name] = plain((0, 0, schema), (1, 0, content))
    schema, content = parts(arrow_batch(y=pa.array(["abcdefg"])))
    past = content.replace(struct.pack("<2i", 0, 7), struct.pack("<2i", 0, 1 << 30))
    assert past != content
    cases["offsets past the end"] = plain((0, 0, schema), (1, 0, past))
    return cases


@pytest.mark.parametrize("name", list(spoiled()))
def test_what_is_no_request_is_refused(name):
    with pytest.raises(InvalidInputError):
        read(spoiled()[name])


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.struct([]),
        pa.list_(pa.null()),
        pa.list_(pa.int8(), 0),
        pa.binary(0),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.list_view(pa.int8()),
        pa.large_list(pa.int8()),
    ],
    ids=str,
)
def test_types_of_no_width_are_refused_here_and_from_afar(kind):
    """A column of them could claim any number of values without a byte."""
    empty = pa.array([], kind)
    if pa.types.is_run_end_encoded(kind):
        # `pa.array` of this type gives plain values before Arrow 24.
        runs = pa.RunEndEncodedArray.from_arrays
        empty = runs(pa.array([], pa.int32()), pa.array([], pa.int8()))
        cells: pa.Array = runs(pa.array([1], pa.int32()), pa.array([1], pa.int8()))
    elif pa.types.is_large_list(kind):
        cells = pa.array([[[1]]], pa.large_list(kind))
    else:
        values = pa.nulls(1, kind)
        cells = pa.LargeListArray.from_arrays(pa.array([0, 1], pa.int64()), values)
    with pytest.raises(UnsupportedTypeError):
        Cell.from_arrow("x", empty)
    schema, content = parts(arrow_batch(x=cells))
    with pytest.raises(UnsupportedTypeError):
        read(plain((0, 0, schema), (1, 0, content)))


def test_lengths_are_refused_before_anything_is_allocated():
    decoder = wire.Decoder(LIMIT)
    for stored, length in [(2**32 - 1, 10), (10, 2**32 - 1), (LIMIT + 1, LIMIT + 1)]:
        with pytest.raises(InvalidInputError, match="are taken"):
            decoder.check_lengths(stored, length)
    stored = pa.Codec("zstd").compress(bytes(LIMIT), asbytes=True)
    assert len(stored) < 200
    for claimed in (10, LIMIT - 1, LIMIT):
        with pytest.raises(InvalidInputError, match=r"unpack to|checksum"):
            decoder.batches(stored, claimed, 0)
    with pytest.raises(InvalidInputError, match="checksum is another"):
        decoder.batches(pa.Codec("zstd").compress(b"abc", asbytes=True), 3, 0)


def test_schemas_without_end_are_refused(monkeypatch):
    schema, _ = parts(arrow_batch())
    monkeypatch.setattr(wire, "MOST_SCHEMA_BYTES", 5 * len(schema) - LIMIT)
    assert read(plain(*((0, number, schema) for number in range(5)))) == []
    with pytest.raises(InvalidInputError, match="too many bytes"):
        read(plain(*((0, number, schema) for number in range(6))))


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_are_refused_or_mean_something(seed):
    """Behind a true checksum, as a hostile sender can make it: no crash, and the store is sound."""
    pick = random.Random(seed)
    entries = b"".join(
        entry for batch in history_batches(seed)[:6] for entry in wire.Encoder(LIMIT).entries(batch)
    )
    refused = 0
    for _ in range(300):
        content = bytearray(entries)
        for _ in range(pick.choice([1, 1, 2, 8])):
            at = pick.randrange(len(content))
            content[at] ^= 1 << pick.randrange(8)
        store = LiveStore()
        try:
            store.insert(read(bytes(content)))
            store.check()
            for timeline in store.timelines():
                for entity in store.entities():
                    store.table(timeline, entity, fill="latest_at")
        except TesselError:
            refused += 1
    assert refused > 100


def test_replies_are_checked_as_well():
    def answer(data: bytes) -> int:
        class Connection:
            left = data

            def recv(self, count: int) -> bytes:
                part, self.left = self.left[:count], self.left[count:]
                return part

        return wire.receive_reply(Connection(), 7)  # type: ignore[arg-type]

    assert answer(wire.reply(7, 3)) == 3
    with pytest.raises(InvalidInputError, match="nothing") as raised:
        answer(wire.error_reply(7, InvalidInputError("nothing of it", hint="h", at=1)))
    assert (raised.value.hint, raised.value.attributes) == ("h", {"at": 1})
    long = InvalidInputError("m" * 10, hint="h" * (2 << 20))
    with pytest.raises(InvalidInputError, match="mmm"):
        answer(wire.error_reply(7, long))
    for wrong in (
        wire.reply(6, 3),
        b"",
        wire.REPLY.pack(9, 7, 2) + b"{}",
        wire.REPLY.pack(0, 7, 2) + b"{}",
        wire.REPLY.pack(0, 7, 2) + b"{{",
        wire.REPLY.pack(0, 7, 2**32 - 1),
        wire.REPLY.pack(1, 7, 2) + b"[]",
    ):
        with pytest.raises(ConnectionError):
            answer(wrong)

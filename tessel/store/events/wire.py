"""What producers and a live store say to each other over a socket; all of it checked on arrival.

A connection begins with a greeting from the producer: ``TSLEVS`` and the version (``u2``). The
store answers the same and the most bytes that a request may have (``u4``). Then requests go one
way and replies the other, one for each request, in order; all numbers are little endian.

A request is a header (:data:`REQUEST`: stored length ``u4``, plain length ``u4``, CRC-32C of the
plain bytes ``u4``, sequence ``u8``) and a zstd frame. The plain bytes are entries: kind ``u1``,
number ``u4``, length ``u4``, content. An entry of kind 0 declares the schema of that number, once a
connection; one of kind 1 holds a batch of it. Schema and batch are messages of an Arrow IPC stream
(batches behind the dictionaries that they need), without compression of their own.

A reply is a header (:data:`REPLY`: kind ``u1``, sequence ``u8``, length ``u4``) and JSON: of kind 0
how many events were new, of kind 1 the error, after which nothing of the request was taken.

No length is believed: nothing is allocated for more bytes than arrived, or than the limit.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa

from tessel.errors import FormatVersionError, InvalidInputError, TesselError
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Shape

Address = tuple[str, int] | str | Path

_MAGIC = b"TSLEVS"
_VERSION = 1
GREETING = _MAGIC + _VERSION.to_bytes(2, "little")
LIMIT = struct.Struct("<I")
REQUEST = struct.Struct("<IIIQ")
REPLY = struct.Struct("<BQI")
_ENTRY = struct.Struct("<BII")
_SCHEMA, _BATCH = 0, 1
_TAKEN, _REFUSED = 0, 1
_READ_BYTES = 1 << 20
_MOST_REPLY_BYTES = 1 << 20
MOST_SCHEMA_BYTES = 64 << 20
"""Of all schemas of a connection; a producer of more shapes connects anew."""
_FASTEST = 1


class Encoder:
    """Makes the requests of one connection.

    Parameters
    ----------
    most_bytes
        What a request may have, as the store said.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._numbers: dict[Shape, int] = {}
        self.schema_bytes = 0

    def entries(self, batch: EventBatch) -> list[bytes]:
        """Return a batch as entries, its schema before it where it was not sent yet.

        Raises InvalidInputError for one event that is larger than a request may be.
        """
        arrow = batch.to_arrow()
        schema = arrow.schema.serialize().to_pybytes()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, arrow.schema) as writer:
            writer.write_batch(arrow)
        content = memoryview(sink.getvalue())[len(schema) :]
        if len(schema) + len(content) + 2 * _ENTRY.size > self._most_bytes:
            return self._halves(batch, len(schema) + len(content))
        number = self._numbers.get(batch.shape)
        made = []
        if number is None:
            number = self._numbers[batch.shape] = len(self._numbers)
            self.schema_bytes += len(schema)
            made.append(_ENTRY.pack(_SCHEMA, number, len(schema)) + schema)
        made.append(_ENTRY.pack(_BATCH, number, len(content)) + content)
        return made

    def _halves(self, batch: EventBatch, size: int) -> list[bytes]:
        if len(batch) == 1:
            raise InvalidInputError(
                f"an event of {size} bytes, and the live store takes {self._most_bytes}",
                hint="serve with larger max_request_bytes, or log a reference to the data",
                entity=batch.shape.entity,
            )
        return [entry for part in batch.split(2) for entry in self.entries(part)]

    def requests(self, batches: Sequence[EventBatch], sequence: int) -> list[bytes]:
        """Return the requests that hold some batches, as few as the limit allows."""
        groups: list[list[bytes]] = []
        room = 0
        for batch in batches:
            for entry in self.entries(batch):
                if len(entry) > room:
                    groups.append([])
                    room = self._most_bytes
                groups[-1].append(entry)
                room -= len(entry)
        return [_request(b"".join(group), sequence + at) for at, group in enumerate(groups)]


def _request(plain: bytes, sequence: int) -> bytes:
    stored = pa.Codec("zstd", compression_level=_FASTEST).compress(plain, asbytes=True)
    checksum = google_crc32c.value(plain)
    return b"".join((REQUEST.pack(len(stored), len(plain), checksum, sequence), stored))


class Decoder:
    """Reads the requests of one connection."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._schemas: list[bytes] = []
        self._schema_bytes = 0

    def check_lengths(self, stored: int, plain: int) -> None:
        """Refuse a request that is larger than requests may be."""
        most_stored = self._most_bytes + self._most_bytes // 64 + 1024  # of what cannot be packed
        if plain > self._most_bytes or stored > most_stored:
            raise InvalidInputError(
                f"a request of {max(stored, plain)} bytes, and {self._most_bytes} are taken",
                hint="send fewer events in a request",
            )

    def batches(self, stored: bytes, plain_length: int, checksum: int) -> list[EventBatch]:
        """Return the events of a request.

        Raises InvalidInputError for bytes that are no events, whatever is wrong with them.
        """
        try:
            codec = pa.Codec("zstd")
            plain = codec.decompress(stored, decompressed_size=plain_length, asbytes=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _hostile(f"it does not unpack to {plain_length} bytes") from error
        if google_crc32c.value(plain) != checksum:
            raise _hostile("its checksum is another")
        found, at = [], 0
        while at < len(plain):
            if at + _ENTRY.size > len(plain):
                raise _hostile("it ends in the middle of an entry")
            kind, number, length = _ENTRY.unpack_from(plain, at)
            at += _ENTRY.size
            if length > len(plain) - at:
                raise _hostile("an entry is longer than the request")
            content = plain[at : at + length]
            at += length
            if kind == _SCHEMA:
                self._declare(number, content)
            elif kind == _BATCH and number < len(self._schemas):
                found.append(_batch(self._schemas[number], content))
            else:
                raise _hostile(f"it has an entry of kind {kind} for the schema {number}")
        return found

    def _declare(self, number: int, content: bytes) -> None:
        if number != len(self._schemas):
            raise _hostile(f"it declares the schema {number} after {len(self._schemas)}")
        self._schema_bytes += len(content)
        if self._schema_bytes > MOST_SCHEMA_BYTES + self._most_bytes:
            raise _hostile("its schemas have too many bytes; connect anew")
        self._schemas.append(content)


def _batch(schema: bytes, content: bytes) -> EventBatch:
    try:
        _check_messages(schema, content)
        (batch,) = pa.ipc.open_stream(schema + content)
        return EventBatch.from_arrow(batch)
    except TesselError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, struct.error) as error:
        raise _hostile(f"a batch cannot be read: {error}") from error


def _check_messages(schema: bytes, content: bytes) -> None:
    """Refuse messages that Arrow would unpack: their lengths would be believed."""
    if pa.ipc.read_message(schema).type != "schema":
        raise _hostile("a schema is another message")
    source = pa.BufferReader(content)
    while source.tell() < len(content):
        try:
            message = pa.ipc.read_message(source)
        except EOFError:  # the mark that ends a stream
            break
        if message.type not in ("dictionary", "record batch"):
            raise _hostile(f"a batch is a message of type {message.type!r}")
        if _is_compressed(message.metadata.to_pybytes()):
            raise _hostile("a batch is compressed by itself")
    if source.tell() != len(content):
        raise _hostile("bytes follow the end of a batch")


_HEADER_TYPE_FIELD, _HEADER_FIELD = 1, 2  # of the table Message in Arrow's Message.fbs
_DICTIONARY_BATCH = 2
_DATA_FIELD = 1  # of DictionaryBatch
_COMPRESSION_FIELD = 3  # of RecordBatch


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the flat buffer of a message, which Arrow verified, says so."""
    message = struct.unpack_from("<I", metadata, 0)[0]
    kind_at = _field(metadata, message, _HEADER_TYPE_FIELD)
    batch = _table(metadata, message, _HEADER_FIELD)
    if kind_at is not None and metadata[kind_at] == _DICTIONARY_BATCH:
        batch = _table(metadata, batch, _DATA_FIELD)
    return _field(metadata, batch, _COMPRESSION_FIELD) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table lies (see FlatBuffers, "Tables"); None where it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset: int = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _table(data: bytes, table: int, number: int) -> int:
    at = _field(data, table, number)
    if at is None:
        raise _hostile("a message has no content")
    return at + int(struct.unpack_from("<I", data, at)[0])


def _hostile(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"this is no request of events: {what}", hint="send events with a SocketSink"
    )


# --- sockets --------------------------------------------------------------------------------------


def check_address(address: Address) -> Address:
    """Return an address on this machine, or raise.

    Raises InvalidInputError for an address that other machines can reach: nobody is asked who he
    is.
    """
    if isinstance(address, str | Path):
        return address
    if (
        not isinstance(address, tuple)
        or len(address) != 2
        or not isinstance(address[0], str)
        or type(address[1]) is not int
        or not 0 <= address[1] < 1 << 16
    ):
        raise InvalidInputError(
            f"{address!r} is no address", hint='give ("127.0.0.1", 9000), or a path'
        )
    if address[0] != "localhost" and not _is_loopback(address[0]):
        raise InvalidInputError(
            f"{address[0]!r} can be reached from other machines, and producers are not asked who "
            "they are",
            hint='use "127.0.0.1", and a tunnel from elsewhere',
        )
    return address


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def receive(connection: socket.socket, count: int) -> bytes:
    """Return that many bytes of a connection; memory grows as they arrive.

    Raises ConnectionError where the other side has gone before.
    """
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), _READ_BYTES))
        if not part:
            raise ConnectionError(f"the other side went away {count - len(data)} bytes too early")
        data += part
    return bytes(data)


def check_greeting(greeting: bytes) -> None:
    """Refuse what does not speak to a live store, or another version of it."""
    if greeting[: len(_MAGIC)] != _MAGIC:
        raise InvalidInputError(
            f"a connection that begins with {greeting!r} is no producer of events",
            hint="send events with a SocketSink",
        )
    if greeting != GREETING:
        version = int.from_bytes(greeting[len(_MAGIC) :], "little")
        raise FormatVersionError(
            f"events of version {version} arrive", hint=f"this release takes version {_VERSION}"
        )


def reply(sequence: int, new: int) -> bytes:
    """Return the reply that a request was taken."""
    content = json.dumps({"new": new}).encode()
    return REPLY.pack(_TAKEN, sequence, len(content)) + content


def error_reply(sequence: int, error: TesselError) -> bytes:
    """Return the reply that nothing of a request was taken, and why."""
    content = json.dumps(error.to_json()).encode()
    if len(content) > _MOST_REPLY_BYTES:
        short = TesselError.from_json({"kind": error.kind, "message": error.message[:1000]})
        content = json.dumps(short.to_json()).encode()
    return REPLY.pack(_REFUSED, sequence, len(content)) + content


def receive_reply(connection: socket.socket, sequence: int) -> int:
    """Return how many events of a request were new.

    Raises the TesselError that the store refused the request with; ConnectionError where the store
    is gone, or what answers is none.
    """
    kind, found, length = REPLY.unpack(receive(connection, REPLY.size))
    if kind not in (_TAKEN, _REFUSED) or length > _MOST_REPLY_BYTES:
        raise ConnectionError("what answers is no live store")
    try:
        content: Any = json.loads(receive(connection, length))
    except ValueError as error:
        raise ConnectionError("what answers is no live store") from error
    if kind == _REFUSED and isinstance(content, dict):
        raise TesselError.from_json(content)
    if found != sequence or not isinstance(content, dict) or type(content.get("new")) is not int:
        raise ConnectionError(f"an answer to request {found} came for {sequence}")
    return int(content["new"])

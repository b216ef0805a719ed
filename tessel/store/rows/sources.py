"""Where rows come from as bytes: a stream that is cut anywhere, a growing file, sockets."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Self

from tessel.errors import InvalidInputError, RowFormatError, TesselError
from tessel.store.objects.mapped import open_regular
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import Layout, RowSchema
from tessel.store.rows.wire import (
    BATCH_HEADER,
    batch_length,
    check_place,
    next_row_length,
    whole_rows,
)


class RowStream:
    """Takes bytes as they come from a socket or file, and gives the rows that are whole.

    Parameters
    ----------
    schema
        Of packed batches, or of aligned or foreign rows end to end.
    max_batch_bytes
        The longest packed batch, or aligned row, that is waited for.

    Notes
    -----
    Half a row is kept until the rest arrives, and reported by :meth:`close`. After an error nothing
    more is taken: where the next row would begin is not known.
    """

    def __init__(self, schema: RowSchema, *, max_batch_bytes: int = 256 << 20) -> None:
        if max_batch_bytes < 1:
            raise InvalidInputError(f"batches of at most {max_batch_bytes} bytes")
        self.schema = schema
        self._max_batch_bytes = max_batch_bytes
        self._held = bytearray()
        self._needed = 1
        self._position = 0
        self._failed: RowFormatError | None = None

    @property
    def position(self) -> int:
        """Bytes of the stream that have become rows."""
        return self._position

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for the rest of their row."""
        return len(self._held)

    def feed(self, data: BytesLike) -> list[Rows]:
        """Take bytes; return the rows that are whole now, in order.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema. Rows that stand before them in the same call
            are returned, and the error is raised by the next call; but not the packed batch just
            before them, which may be the damaged one.
        """
        if self._failed is not None:
            raise self._failed
        self._held += data
        if len(self._held) < self._needed:
            return []
        content = bytes(self._held)
        held, found, at = memoryview(content), list[Rows](), 0
        try:
            while length := self._next_length(held[at:]):
                if self.schema.layout is Layout.PACKED:
                    check_place(self.schema, content, at, at + length)
                found.append(Rows.from_bytes(self.schema, held[at : at + length]))
                at += length
        except RowFormatError as error:
            self._failed = error.with_context(position=str(self._position + at))
            if not found:
                raise
        del self._held[:at]
        self._position += at
        return found

    def close(self) -> None:
        """End the stream.

        Raises
        ------
        RowFormatError
            Where half a row is left, with where it begins; or the error that ended the stream.
        """
        if self._failed is not None:
            raise self._failed
        if self._held:
            raise RowFormatError(
                f"the stream ends with {len(self._held)} bytes that are no whole row",
                hint=f"the last whole row ends at byte {self._position} of the stream",
                position=self._position,
            )

    def _next_length(self, held: memoryview) -> int:
        """Return the bytes of the next batch, or of all whole rows; 0 where more is needed."""
        if self.schema.layout is Layout.PACKED:
            self._needed = BATCH_HEADER.size
            if len(held) >= BATCH_HEADER.size:
                self._needed = batch_length(self.schema, held)
            self._check_length(self._needed, "a batch")
            return self._needed if len(held) >= self._needed else 0
        length = whole_rows(self.schema, held)
        self._needed = 1 if length else next_row_length(self.schema, held)
        self._check_length(self._needed, "a row")
        return length

    def _check_length(self, length: int, what: str) -> None:
        if length > self._max_batch_bytes:
            raise RowFormatError(
                f"{what} of {length} bytes, and {self._max_batch_bytes} are waited for",
                hint="give a larger max_batch_bytes, or send smaller batches",
            )


_READ_BYTES = 1 << 20


class FileTail:
    """Reads rows from a file, and waits for more at its end.

    Parameters
    ----------
    path
        The file.
    schema
        Of the rows in it.
    position
        The byte to begin at: what :attr:`position` said when an earlier tail ended.
    poll_seconds
        How often the end is looked at.

    Examples
    --------
    >>> tail = FileTail("trades.rows", schema)
    >>> for rows in tail.follow(stop):
    ...     bridge.extend(rows)
    """

    def __init__(
        self,
        path: str | Path,
        schema: RowSchema,
        *,
        position: int = 0,
        poll_seconds: float = 0.2,
    ) -> None:
        if position < 0 or not poll_seconds > 0:
            raise InvalidInputError(
                f"a tail from byte {position} that looks every {poll_seconds} seconds"
            )
        self._path = Path(path)
        self._schema = schema
        self._position = position
        self._poll_seconds = poll_seconds

    @property
    def position(self) -> int:
        """The byte after the rows that were given last: where another tail can go on."""
        return self._position

    def read(self) -> Iterator[Rows]:
        """Give what is there now, to the end of the file.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema, or half a row at the end.
        """
        stop = threading.Event()
        stop.set()
        yield from self.follow(stop)

    def follow(self, stop: threading.Event) -> Iterator[Rows]:
        """Give rows as they are written until ``stop`` is set, and then what is there still.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema; for half a row at the end when it stops; for
            a file that became shorter than what was read of it.
        NotAStoreError
            For a pipe or a device.
        """
        stream = RowStream(self._schema)
        with open(open_regular(self._path), "rb", buffering=0) as file:
            file.seek(self._position)
            while True:
                stopped = stop.is_set()  # asked first: what was written before is read after
                while data := file.read(_READ_BYTES):
                    for rows in stream.feed(data):
                        # Not the position of the stream, which is past rows not given yet.
                        self._position += rows.nbytes
                        yield rows
                self._check_length(os.fstat(file.fileno()).st_size, file.tell())
                if stopped:
                    stream.close()
                    return
                stop.wait(self._poll_seconds)

    def _check_length(self, length: int, read: int) -> None:
        if length < read:
            raise RowFormatError(
                f"{str(self._path)!r} has {length} bytes now, and {read} of it were read",
                hint="it was cut or written anew: begin another tail at position 0",
            )


_SOCKET_BYTES = 1 << 18


class RowListener:
    """Listens on a socket and hands on the rows that senders write; an async context manager.

    Parameters
    ----------
    schema
        What every sender sends.
    deliver
        Called with rows as they become whole, those of one sender in order; awaited where it
        returns an awaitable. No more is read of a sender while its rows are being delivered, so
        that a slow consumer slows its senders down and nothing is lost.
    address
        ``("127.0.0.1", 9000)``, with port 0 for a free one; or the path of a UNIX socket.
    on_error
        Called with the error of a sender that sent something else, or half a row at its end. Its
        connection is closed; the others go on. By default such errors are raised on leaving.

    Examples
    --------
    >>> async with RowListener(schema, bridge.extend, ("127.0.0.1", 0)) as listener:
    ...     await listener.serve_until(stop)
    """

    def __init__(
        self,
        schema: RowSchema,
        deliver: Callable[[Rows], object],
        address: tuple[str, int] | str | Path,
        *,
        on_error: Callable[[TesselError], object] | None = None,
        max_batch_bytes: int = 256 << 20,
    ) -> None:
        is_path = isinstance(address, str | Path)
        if not is_path and not (isinstance(address, tuple) and len(address) == 2):
            raise InvalidInputError(
                f"{address!r} is no address", hint='give ("127.0.0.1", 9000), or a path'
            )
        self._schema = schema
        self._deliver = deliver
        self._given = address
        self._on_error = on_error
        self._max_batch_bytes = max_batch_bytes
        self._server: asyncio.Server | None = None
        self._senders: set[asyncio.Task[None]] = set()
        self._errors: list[TesselError] = []

    @property
    def address(self) -> tuple[str, int] | str:
        """Where it listens, with the port that was free."""
        if self._server is None or not self._server.sockets:
            raise InvalidInputError("the listener is not open", hint="use it with `async with`")
        name = self._server.sockets[0].getsockname()
        return name if isinstance(name, str) else (name[0], name[1])

    async def __aenter__(self) -> Self:
        if isinstance(self._given, tuple):
            self._server = await asyncio.start_server(self._connected, *self._given)
        else:
            self._server = await asyncio.start_unix_server(self._connected, os.fspath(self._given))
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        assert self._server is not None
        self._server.close()
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._server.wait_closed()
        if not isinstance(self._given, tuple):
            Path(self._given).unlink(missing_ok=True)
        if self._errors and error is None:
            raise self._errors[0]

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Take rows until the event is set, then those of the senders that are connected still."""
        await stop.wait()
        while self._senders:
            await asyncio.gather(*self._senders, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._senders.add(task)
        try:
            await self._take_all(reader)
        except TesselError as error:
            if self._on_error is None:
                self._errors.append(error)
            else:
                self._on_error(error)
        finally:
            self._senders.discard(task)
            writer.close()

    async def _take_all(self, reader: asyncio.StreamReader) -> None:
        stream = RowStream(self._schema, max_batch_bytes=self._max_batch_bytes)
        while data := await self._read(reader, stream):
            for rows in stream.feed(data):
                delivered = self._deliver(rows)
                if isinstance(delivered, Awaitable):
                    await delivered
        stream.close()

    async def _read(self, reader: asyncio.StreamReader, stream: RowStream) -> bytes:
        try:
            return await reader.read(_SOCKET_BYTES)
        except ConnectionError as error:
            raise RowFormatError(
                f"a sender broke off: {error}",
                hint=f"{stream.position} bytes of it became rows, {stream.held_bytes} did not",
            ) from error

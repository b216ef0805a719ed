"""RowListener: packed, aligned or foreign rows from TCP or UNIX sockets, many senders at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from tessel.errors import InvalidInputError, RowFormatError, TesselError
from tessel.store.rows.rows import Rows
from tessel.store.rows.schema import RowSchema
from tessel.store.rows.stream import RowStream

_READ_BYTES = 1 << 18


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
            return await reader.read(_READ_BYTES)
        except ConnectionError as error:
            raise RowFormatError(
                f"a sender broke off: {error}",
                hint=f"{stream.position} bytes of it became rows, {stream.held_bytes} did not",
            ) from error

"""EventServer: a live store that takes events from other processes of this machine.

One thread runs an event loop that hears all who connect; a connection costs no thread before it has
sent a request. Where the process has no handle left for another connection, accepting pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tessel.closing import Closing
from tessel.errors import InvalidInputError, StoreBusyError, StoreError, TesselError
from tessel.forking import after_fork
from tessel.store.events import wire
from tessel.store.events.batch import EventBatch

_logger = logging.getLogger("tessel")

_WAITING_CONNECTIONS = 128
_PAUSE_SECONDS = 0.5
_GREETING_SECONDS, _HEAR_OUT_SECONDS = 10.0, 1.0
_READ_BYTES = 1 << 20


class EventServer(Closing):
    """Takes events on a socket until it is closed; made by ``LiveStore.serve``.

    Parameters
    ----------
    insert
        What takes the events, all of a request or none.
    address, max_request_bytes, max_producers, request_seconds, on_error
        See ``LiveStore.serve``. Only its owner may use a UNIX socket; a producer learns how many
        bytes a request may have when it connects, has as many seconds to read the reply, and may be
        silent between requests; ``on_error`` is called on a thread of the server.

    Notes
    -----
    A thread a producer that has sent a request; one hears all. The next request of a producer is
    read when the one before is in the store and answered, so that a store that is slow slows its
    producers down, and no more than a request of each waits in memory.
    """

    def __init__(
        self,
        insert: Callable[[Sequence[EventBatch]], int],
        address: wire.Address,
        *,
        max_request_bytes: int = 64 << 20,
        max_producers: int = 64,
        request_seconds: float = 60.0,
        on_error: Callable[[TesselError], object] | None = None,
    ) -> None:
        if not request_seconds > 0:
            raise InvalidInputError(
                f"request_seconds is {request_seconds!r}", hint="give a positive number"
            )
        if not 1 << 10 <= max_request_bytes < 1 << 31 or max_producers < 1:
            raise InvalidInputError(
                f"a server of requests of {max_request_bytes} bytes, for {max_producers} producers",
                hint="give at least 1024 bytes, less than 2 GiB, and one producer",
            )
        self._insert = insert
        self._max_request_bytes = max_request_bytes
        self._max_producers = max_producers
        self._request_seconds = request_seconds
        self._on_error = on_error
        self._listener = _listening(wire.check_address(address))
        self._path = None if isinstance(address, tuple) else Path(address)
        self._process = os.getpid()
        self._visitors: dict[socket.socket, asyncio.Task[None]] = {}
        self._producers: dict[socket.socket, asyncio.Task[None]] = {}
        self._takers: set[int] = set()
        self._is_closed = False
        self._loop = asyncio.SelectorEventLoop()  # one that tells when somebody may be accepted
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="tessel-events", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            self._stop_listening()
            raise StoreError.for_no_thread("the server") from error
        after_fork(self, EventServer._let_go)

    @property
    def address(self) -> tuple[str, int] | str:
        """Where it listens, with the port that was free."""
        if self._path is not None:
            return str(self._path)
        name = self._listener.getsockname()
        return name[0], name[1]

    @property
    def producers(self) -> int:
        """How many are connected."""
        return len(self._producers)

    def close(self) -> None:
        """Take no more requests; those that are here are answered before this returns."""
        if self._is_closed or self._process != os.getpid():  # a child has no such threads
            return
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._stopping.set)
        if threading.get_ident() not in (self._thread.ident, *self._takers):
            self._thread.join()
        self._stop_listening()

    def _stop_listening(self) -> None:
        self._listener.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _let_go(self) -> None:
        """Close all connections in a forked child, which would keep producers waiting."""
        for connection in (self._listener, *self._visitors, *self._producers):
            connection.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self.producers} producers"
        return f"EventServer({state})"

    # --- the event loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._accept_again()
        await self._stopping.wait()
        self._loop.remove_reader(self._listener)
        for task in self._visitors.values():
            task.cancel()
        for connection in self._producers:  # what is here can be read, and then it ends
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        left = (*self._visitors.values(), *self._producers.values())
        await asyncio.gather(*left, return_exceptions=True)

    def _accept_again(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # somebody left before he was heard
            return
        except OSError as error:
            self._report(StoreError.for_no_connection(error))
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_PAUSE_SECONDS, self._accept_again)
            return
        connection.setblocking(False)
        self._receive(connection)

    def _receive(self, connection: socket.socket) -> None:
        if len(self._visitors) >= _WAITING_CONNECTIONS:
            self._visitors.pop(next(iter(self._visitors))).cancel()
            self._report(StoreError("a producer broke off: others waited behind it"))
        task = self._visitors[connection] = asyncio.create_task(self._hear(connection))
        task.add_done_callback(lambda _: connection.close())

    async def _hear(self, connection: socket.socket) -> None:
        """Serve a connection: its greeting, then request after request."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=_READ_BYTES)
        try:
            try:
                async with asyncio.timeout(_GREETING_SECONDS):
                    wire.check_greeting(await _exactly(reader, len(wire.GREETING)))
                self._admit(connection)
            except TesselError as error:
                self._report(error)  # at once: a server that closes waits for no visitor
                refusal = wire.GREETING + wire.LIMIT.pack(0) + wire.error_reply(0, error)
                await _say_last(reader, writer, refusal)
                return
            writer.write(wire.GREETING + wire.LIMIT.pack(self._max_request_bytes))
            thread = ThreadPoolExecutor(1, "tessel-producer")
            try:
                await self._take_all(reader, writer, thread)
            finally:
                thread.shutdown(wait=False, cancel_futures=True)
        except TesselError as error:
            self._report(error)
        except TimeoutError:
            greeted = connection in self._producers
            late = "a request did not come in time" if greeted else "it did not greet in time"
            self._report(StoreError(f"a producer broke off: {late}"))
        except OSError as error:
            self._report(StoreError(f"a producer broke off: {error}"))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_HEAR_OUT_SECONDS):
                    await writer.wait_closed()
            self._visitors.pop(connection, None)
            self._producers.pop(connection, None)

    def _admit(self, connection: socket.socket) -> None:
        if self.producers >= self._max_producers:
            raise StoreBusyError(
                f"{self._max_producers} producers are connected already",
                hint="let a process have one sink, or serve with more max_producers",
            )
        self._producers[connection] = self._visitors.pop(connection)

    async def _take_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, thread: Executor
    ) -> None:
        decoder = wire.Decoder(self._max_request_bytes)
        while not self._stopping.is_set():
            sequence = 0
            try:
                first = await reader.read(1)
                if not first:
                    return
                async with asyncio.timeout(self._request_seconds):
                    header = first + await _exactly(reader, wire.REQUEST.size - 1)
                    stored, plain, checksum, sequence = wire.REQUEST.unpack(header)
                    decoder.check_lengths(stored, plain)
                    content = await _exactly(reader, stored)
                unpack = partial(decoder.batches, content, plain, checksum)
                answer = await self._in_thread(thread, partial(self._taken, sequence, unpack))
            except TesselError as error:  # where the next request begins is not known
                await _say_last(reader, writer, wire.error_reply(sequence, error))
                raise
            async with asyncio.timeout(self._request_seconds):
                writer.write(answer)
                await writer.drain()

    async def _in_thread(self, thread: Executor, take: Callable[[], bytes]) -> bytes:
        try:
            taking = self._loop.run_in_executor(thread, take)
        except RuntimeError as error:
            raise StoreBusyError.for_no_thread("another producer") from error
        return await taking

    # --- the thread of a producer -----------------------------------------------------------------

    def _taken(self, sequence: int, unpack: Callable[[], Sequence[EventBatch]]) -> bytes:
        """Take the events of a request, and return the reply."""
        batches = unpack()
        self._takers.add(threading.get_ident())
        try:
            return wire.reply(sequence, self._insert(batches))
        except TesselError as error:
            found: TesselError = error
        except Exception as error:  # the producer keeps its events, whatever went wrong here
            found = StoreError(f"the live store could not take events: {error!r}")
        finally:
            self._takers.discard(threading.get_ident())
        self._report(found)
        return wire.error_reply(sequence, found)

    def _report(self, error: TesselError) -> None:
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:  # of one producer; the others are served on
                _logger.exception("on_error of an event server raised")


# --- connections ----------------------------------------------------------------------------------


async def _exactly(reader: asyncio.StreamReader, count: int) -> bytes:
    """Return so many bytes of a connection; memory grows as they arrive."""
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError as error:
        left = count - len(error.partial)
        raise ConnectionError(f"the other side went away {left} bytes too early") from error


async def _say_last(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes
) -> None:
    """Send an answer and hear the other side out: unread bytes would make it lose the answer."""
    with contextlib.suppress(OSError):  # it is gone, or goes on and on
        writer.write(answer)
        writer.write_eof()
        async with asyncio.timeout(_HEAR_OUT_SECONDS):
            while await reader.read(_READ_BYTES):
                pass


def _listening(address: wire.Address) -> socket.socket:
    try:
        listener = _tcp(address) if isinstance(address, tuple) else _unix(Path(address))
    except StoreBusyError:
        raise
    except OSError as error:
        raise StoreError(
            f"cannot listen at {address!r}: {error}", hint="choose another address"
        ) from error
    listener.setblocking(False)
    return listener


def _tcp(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=_WAITING_CONNECTIONS)


def _unix(path: Path) -> socket.socket:
    _remove_left(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(_WAITING_CONNECTIONS)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_left(path: Path) -> None:
    """Remove the socket of a process that is gone; one that answers is left alone."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise StoreBusyError(f"another process listens at {str(path)!r}", hint="choose another path")

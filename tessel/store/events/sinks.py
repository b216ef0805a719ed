"""What a recorder hands its events to, besides a live store of its own process."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tessel.closing import Closing
from tessel.errors import (
    ForkUnsafeError,
    InvalidInputError,
    NotAStoreError,
    StoreBusyError,
    StoreError,
)
from tessel.forking import after_fork
from tessel.store.events import wire
from tessel.store.events.batch import EventBatch
from tessel.store.events.event_file import Journal, opening


class FileSink(Closing):
    """Appends events to a file; close it after the recorder.

    Parameters
    ----------
    path
        The file: a new one, or one that holds events. A batch that was torn at its end is cut off.
    durable
        ``"process"``: what :meth:`insert` took survives ``kill -9``; ``"power"``: also that the
        power fails.

    Raises
    ------
    StoreBusyError
        While another process has the file open.
    NotAStoreError, FormatVersionError, CorruptStoreError
        For a file that holds something else, or damaged events.

    Examples
    --------
    >>> with FileSink("run.events") as sink, Recorder(sink) as recorder:
    ...     recorder.log("robot/arm", {"angle": 0.5}, frame=42)

    Notes
    -----
    Events are written as they come; a live store that loads the file takes each once.
    """

    def __init__(
        self, path: str | Path, *, durable: Literal["process", "power"] = "process"
    ) -> None:
        if durable not in ("process", "power"):
            raise InvalidInputError(f"durable is {durable!r}", hint='it is "process" or "power"')
        with opening(path):
            self._journal = Journal(path, sync=durable == "power")
        try:
            for _ in self._journal.replay():
                pass
        except BaseException:
            self._journal.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._journal.path

    def insert(self, events: Sequence[EventBatch], /) -> int:
        """Write events, all of them or none; return how many.

        Raises
        ------
        ForkUnsafeError
            In a forked child: the file is its parent's.
        StoreError
            Where the file cannot be written; it is as it was. DiskFullError where there is no room.
        """
        if not self._journal.is_ours:
            raise ForkUnsafeError(
                f"the file {str(self.path)!r} is written by the process that opened it",
                hint="open a FileSink of another path after the fork",
            )
        batches = [batch for batch in events if len(batch)]
        if batches:
            self._journal.append(batches)
        return sum(map(len, batches))

    def close(self) -> None:
        """Let the file go."""
        self._journal.close()


_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.01, 1.0


class SocketSink(Closing):
    """Sends events to the address that ``LiveStore.serve`` gave; close it after the recorder.

    Parameters
    ----------
    address
        As the server says it: ``("127.0.0.1", 9000)``, or the path of a UNIX socket.
    patience_seconds
        How long a store that cannot be reached is tried again.
    silence_seconds
        How long a store may take to answer; then it counts as one that cannot be reached.

    Examples
    --------
    >>> with SocketSink(server.address) as sink, Recorder(sink) as recorder:
    ...     recorder.log("robot/arm", {"angle": 0.5}, frame=42)

    Notes
    -----
    It connects when there is something to send, and anew when the connection broke. What was not
    acknowledged is sent again then: a live store takes an event once. A forked child gets a
    connection of its own.
    """

    def __init__(
        self,
        address: wire.Address,
        *,
        patience_seconds: float = 30.0,
        silence_seconds: float = 60.0,
    ) -> None:
        if not patience_seconds > 0 or not silence_seconds > 0:
            raise InvalidInputError(
                f"a patience of {patience_seconds} seconds, and {silence_seconds} of silence",
                hint="give positive numbers",
            )
        self._address = wire.check_address(address)
        self._patience_seconds = patience_seconds
        self._silence_seconds = silence_seconds
        self._renew()
        after_fork(self, SocketSink._begin_anew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._encoder = wire.Encoder(0)
        self._sequence = 0
        self.sent_bytes = 0
        """Bytes of all requests."""

    def _begin_anew(self) -> None:
        self._drop()  # of this process alone: the parent's stays open
        self._renew()

    def insert(self, events: Sequence[EventBatch], /) -> int:
        """Send events; return, when the store has them, how many were new to it.

        Raises
        ------
        InvalidInputError
            For events that the store refused. Of a request it takes all or none; what is larger
            than a request is several.
        StoreError
            Where the store cannot be reached, or could not take the events; they can be sent again.
        """
        with self._lock:
            return self._delivered([batch for batch in events if len(batch)])

    def _delivered(self, batches: Sequence[EventBatch]) -> int:
        deadline = time.monotonic() + self._patience_seconds
        wait = _FIRST_WAIT_SECONDS
        while batches:
            try:
                return self._sent(batches)
            except StoreBusyError:  # as many producers are connected as may be
                self._drop()
                if time.monotonic() + wait > deadline:
                    raise
            except (ConnectionError, FileNotFoundError, TimeoutError) as error:
                self._drop()
                if isinstance(error, StoreError):
                    raise
                if time.monotonic() + wait > deadline:
                    raise StoreError(
                        f"no live store answers at {self._address!r}: {error}",
                        hint="serve one there; what was not acknowledged can be sent again",
                    ) from error
            except BaseException:
                self._drop()  # after an error a server hangs up, or an answer is still to come
                raise
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        return 0

    def _sent(self, batches: Sequence[EventBatch]) -> int:
        connection = self._connected()
        requests = self._encoder.requests(batches, self._sequence)
        new = 0
        for request in requests:
            connection.sendall(request)
            new += wire.receive_reply(connection, self._sequence)
            self._sequence += 1
            self.sent_bytes += len(request)
        return new

    def _connected(self) -> socket.socket:
        if self._encoder.schema_bytes > wire.MOST_SCHEMA_BYTES:
            self._drop()
        if self._connection is None:
            connection = _connection(self._address, self._silence_seconds)
            try:
                connection.sendall(wire.GREETING)
                greeting = wire.receive(connection, len(wire.GREETING))
                if greeting != wire.GREETING:
                    raise NotAStoreError(
                        f"what answers at {self._address!r} is no live store of this release: "
                        f"it begins with {greeting!r}"
                    )
                (limit,) = wire.LIMIT.unpack(wire.receive(connection, wire.LIMIT.size))
                if not limit:
                    wire.receive_reply(connection, 0)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._encoder = wire.Encoder(limit)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        if "_connection" in self.__dict__:  # all that was sent over it is acknowledged
            self._drop()


def _connection(address: wire.Address, timeout_seconds: float) -> socket.socket:
    if isinstance(address, tuple):
        connection = socket.create_connection(address, timeout_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(os.fspath(address))
    except BaseException:
        connection.close()
        raise
    return connection

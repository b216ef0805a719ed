"""EventServer: a live store that takes events from other processes of this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tessel.closing import Closing
from tessel.errors import InvalidInputError, StoreBusyError, StoreError, TesselError
from tessel.forking import after_fork
from tessel.store.events import wire
from tessel.store.events.batch import EventBatch
from tessel.store.events.reception import Reception, shut

_WAITING_CONNECTIONS = 128
_HEAR_OUT_SECONDS, _HEAR_OUT_BYTES = 1.0, 1 << 20


class EventServer(Closing):
    """Takes events on a socket until it is closed; made by ``LiveStore.serve``.

    Parameters
    ----------
    insert
        What takes the events, all of a request or none.
    address
        ``("127.0.0.1", 9000)``, with port 0 for a free one; or the path of a UNIX socket, which
        only its owner may use.
    max_request_bytes
        Of one request; a producer learns it when it connects, and sends more requests.
    max_producers
        How many may be connected.
    request_seconds
        How long the rest of a request may take after its first byte, and the producer to read the
        reply. Between requests a producer may be silent for as long as it likes.
    on_error
        Called with what was refused, on the thread that serves its producer. The producer is told
        in any case.

    Notes
    -----
    A thread a producer that has greeted; one hears all others. The next request of a producer is
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
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._producers: dict[socket.socket, threading.Thread] = {}
        self._listener = _listening(check_address(address))
        self._path = None if isinstance(address, tuple) else Path(address)
        self._process = os.getpid()
        self._reception = Reception(self._listener, self._admit, self._report)
        self._thread = threading.Thread(
            target=self._reception.run, args=(self._stopped,), name="tessel-events", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            self._reception.close()
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
        if self._stopped.is_set() or self._process != os.getpid():  # a child has no such threads
            return
        self._stopped.set()
        self._thread.join()
        self._stop_listening()
        with self._lock:
            producers = dict(self._producers)
        for connection, thread in producers.items():
            shut(connection, socket.SHUT_RD)
            if thread is not threading.current_thread():
                thread.join()

    def _stop_listening(self) -> None:
        self._listener.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _let_go(self) -> None:
        """Close all connections in a forked child, which would keep producers waiting."""
        self._listener.close()
        self._reception.close()
        for connection in list(self._producers):
            connection.close()

    def __repr__(self) -> str:
        state = "closed" if self._stopped.is_set() else f"{self.producers} producers"
        return f"EventServer({state})"

    # --- inside -----------------------------------------------------------------------------------

    def _admit(self, connection: socket.socket) -> None:
        """Serve a producer that has greeted on a thread of its own."""
        if self.producers >= self._max_producers:
            raise StoreBusyError(
                f"{self._max_producers} producers are connected already",
                hint="let a process have one sink, or serve with more max_producers",
            )
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="tessel-producer", daemon=True
        )
        with self._lock:
            self._producers[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                del self._producers[connection]
            raise StoreBusyError.for_no_thread("another producer") from error

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(self._request_seconds)
                connection.sendall(wire.GREETING + wire.LIMIT.pack(self._max_request_bytes))
                self._take_all(connection)
        except TesselError as error:
            self._report(error)
        except OSError as error:
            self._report(StoreError(f"a producer broke off: {error}"))
        finally:
            with self._lock:
                self._producers.pop(connection, None)

    def _take_all(self, connection: socket.socket) -> None:
        decoder = wire.Decoder(self._max_request_bytes)
        while True:
            sequence = 0
            try:
                request = wire.receive_request(connection, decoder, self._request_seconds)
                if request is None:
                    return
                sequence, stored, plain, checksum = request
                batches = decoder.batches(stored, plain, checksum)
            except TesselError as error:  # where the next request begins is not known
                _say_last(connection, wire.error_reply(sequence, error))
                raise
            answer = self._taken(sequence, batches)
            connection.settimeout(self._request_seconds)
            connection.sendall(answer)
            if self._stopped.is_set():
                return

    def _taken(self, sequence: int, batches: Sequence[EventBatch]) -> bytes:
        """Take events, and return the reply."""
        try:
            return wire.reply(sequence, self._insert(batches))
        except TesselError as error:
            found: TesselError = error
        except Exception as error:  # the producer keeps its events, whatever went wrong here
            found = StoreError(f"the live store could not take events: {error!r}")
        self._report(found)
        return wire.error_reply(sequence, found)

    def _report(self, error: TesselError) -> None:
        if self._on_error is not None:
            self._on_error(error)


def check_address(address: wire.Address) -> wire.Address:
    """Return an address on this machine; refuse what is none.

    Raises
    ------
    InvalidInputError
        For an address that other machines can reach: nobody is asked who he is.
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


def _say_last(connection: socket.socket, answer: bytes) -> None:
    """Send an answer and hear the other side out: unread bytes would make it lose the answer."""
    connection.sendall(answer)
    shut(connection, socket.SHUT_WR)
    deadline = time.monotonic() + _HEAR_OUT_SECONDS
    connection.settimeout(_HEAR_OUT_SECONDS)
    try:
        while connection.recv(_HEAR_OUT_BYTES) and time.monotonic() < deadline:
            pass
    except OSError:  # it is gone, or goes on and on
        return

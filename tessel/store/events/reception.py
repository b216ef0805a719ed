"""Reception: one thread hears all who connect to an event server until they have greeted.

A connection costs no thread before it has said what it is, and only so many wait at a time. Where
the process has no handle left for another one, accepting pauses instead of spinning.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import field

from tessel.errors import StoreError, TesselError
from tessel.lazy import dataclass
from tessel.store.events import wire

_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.5
_GREETING_SECONDS, _HEAR_OUT_SECONDS = 10.0, 1.0
_HEARD_BYTES = 1 << 16
_MOST_WAITING = 128


@dataclass(eq=False)
class _Visitor:
    """A connection that has not greeted yet, or that was refused and is heard out."""

    connection: socket.socket
    until: float
    greeting: bytearray = field(default_factory=bytearray)
    is_refused: bool = False


class Reception:
    """Accepts connections and hands on those that greet.

    Parameters
    ----------
    listener
        A socket that listens.
    admit
        Takes over a connection that has greeted. What it raises is told to the other side.
    report
        Called with every error.
    """

    def __init__(
        self,
        listener: socket.socket,
        admit: Callable[[socket.socket], None],
        report: Callable[[TesselError], None],
    ) -> None:
        self._listener = listener
        self._admit = admit
        self._report = report
        self._visitors: dict[socket.socket, _Visitor] = {}
        self._paused_until: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self, stopped: threading.Event) -> None:
        """Receive until ``stopped`` is set."""
        try:
            while not stopped.is_set():
                for key, _ in self._selector.select(_LOOK_SECONDS):
                    visitor = self._visitors.get(key.fileobj)  # type: ignore[call-overload]
                    if key.fileobj is self._listener:
                        self._accept()
                    elif visitor is not None:
                        self._hear(visitor)
                self._look_at_the_clock()
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections that were not handed on; also in a forked child."""
        self._selector.close()  # in a child only its own handle: it must unregister nothing
        for connection in list(self._visitors):
            connection.close()
        self._visitors = {}

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # somebody left before he was heard
            return
        except OSError as error:
            self._selector.unregister(self._listener)
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            self._report(StoreError.for_no_connection(error))
            return
        connection.setblocking(False)
        if len(self._visitors) >= _MOST_WAITING:
            self._leave(next(iter(self._visitors.values())), "others waited behind it")
        self._visitors[connection] = _Visitor(connection, time.monotonic() + _GREETING_SECONDS)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, visitor: _Visitor) -> None:
        wanted = len(wire.GREETING) - len(visitor.greeting)
        try:
            data = visitor.connection.recv(_HEARD_BYTES if visitor.is_refused else wanted)
        except BlockingIOError:
            return
        except OSError as error:
            self._leave(visitor, str(error))
            return
        if not data:
            self._leave(visitor, f"it went away {wanted} bytes before the end of its greeting")
        elif not visitor.is_refused:
            visitor.greeting += data
            if len(data) == wanted:
                self._decide(visitor)

    def _decide(self, visitor: _Visitor) -> None:
        try:
            wire.check_greeting(bytes(visitor.greeting))
            self._selector.unregister(visitor.connection)
            del self._visitors[visitor.connection]
            self._admit(visitor.connection)
        except TesselError as error:
            self._refuse(visitor, error)

    def _refuse(self, visitor: _Visitor, error: TesselError) -> None:
        """Say why, and hear the other side out: unread bytes would make it lose the answer."""
        self._report(error)
        connection = visitor.connection
        try:
            connection.setblocking(False)
            connection.send(wire.GREETING + wire.LIMIT.pack(0) + wire.error_reply(0, error))
        except OSError:  # it is gone, or does not listen
            pass
        shut(connection, socket.SHUT_WR)
        if connection not in self._visitors:
            self._visitors[connection] = visitor
            self._selector.register(connection, selectors.EVENT_READ)
        visitor.is_refused = True
        visitor.until = time.monotonic() + _HEAR_OUT_SECONDS

    def _leave(self, visitor: _Visitor, why: str) -> None:
        del self._visitors[visitor.connection]
        self._selector.unregister(visitor.connection)
        visitor.connection.close()
        if not visitor.is_refused:
            self._report(StoreError(f"a producer broke off: {why}"))

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)
        for visitor in [each for each in self._visitors.values() if each.until < now]:
            self._leave(visitor, "it did not greet in time")


def shut(connection: socket.socket, how: int) -> None:
    """Shut a connection down in one direction, or both; one that is gone already is left."""
    try:
        connection.shutdown(how)
    except OSError:
        return

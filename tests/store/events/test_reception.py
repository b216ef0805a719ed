"""An event server whose process lacks threads or handles, and producers that stop half way."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tessel.errors import StoreBusyError, StoreError, TesselError
from tessel.store.events import LiveStore, Recorder, SocketSink, wire
from tessel.store.events import server as server_module
from tests.store.events.test_server import batches, one


@pytest.fixture
def threads(monkeypatch) -> Callable[[str, int], None]:
    """Return what keeps threads of some name from starting, so many times."""
    start, left = threading.Thread.start, dict[str, int]()

    def limited(thread: threading.Thread) -> None:
        if left.get(thread.name, 0) > 0:
            left[thread.name] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    return left.__setitem__


def read_to_the_end(connection: socket.socket) -> bytes:
    answer = b""
    while part := connection.recv(4096):
        answer += part
    return answer


def test_a_thread_that_cannot_start_is_told_and_the_server_hears_the_next(threads):
    errors: list[TesselError] = []
    with LiveStore() as store, store.serve(on_error=errors.append) as server:
        threads("tessel-producer_0", 3)
        with (
            SocketSink(server.address, patience_seconds=1e-9) as sink,
            pytest.raises(StoreBusyError, match="no thread can be started"),
        ):
            sink.insert(batches(one(1)))
        with SocketSink(server.address, patience_seconds=600) as sink:
            assert sink.insert(batches(one(1))) == 1
        assert [type(error) for error in errors] == [StoreBusyError] * 3
        assert server.producers <= 1


def test_a_server_whose_own_thread_cannot_start_is_an_error_and_lets_its_address_go(
    threads, tmp_path
):
    with LiveStore() as store:
        threads("tessel-events", 1)
        with pytest.raises(StoreError, match="no thread can be started for the server"):
            store.serve(tmp_path / "events.sock")
        assert not (tmp_path / "events.sock").exists()
        with store.serve(tmp_path / "events.sock") as server, SocketSink(server.address) as sink:
            assert sink.insert(batches(one(1))) == 1


def test_a_recorder_whose_thread_cannot_start_delivers_by_itself(threads):
    threads("tessel-recorder", 2)
    with LiveStore() as store, Recorder(store, max_delay_seconds=1000) as recorder:
        for at in range(3):
            recorder.log("a", {"x": float(at)}, frame=at)
            assert len(store) == min(at + 1, 2)
    assert len(store) == 3


class NoHandles:
    """A listener of a process that has no handle left for a while."""

    def __init__(self, listener: socket.socket, refusals: int) -> None:
        self.listener, self.refusals = listener, refusals
        self.asked: list[float] = []

    def accept(self) -> tuple[socket.socket, object]:
        self.asked.append(time.monotonic())
        if len(self.asked) <= self.refusals:
            raise OSError(errno.EMFILE, "Too many open files")
        return self.listener.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self.listener, name)


def test_without_handles_accepting_pauses_and_goes_on(monkeypatch):
    """While it pauses the listener is not asked at all, though somebody waits there."""
    errors: list[TesselError] = []
    real = server_module._listening
    made: list[NoHandles] = []

    def listening(address: wire.Address) -> NoHandles:
        made.append(NoHandles(real(address), 2))
        return made[0]

    monkeypatch.setattr(server_module, "_listening", listening)
    monkeypatch.setattr(server_module, "_PAUSE_SECONDS", 0.05)
    with (
        LiveStore() as store,
        store.serve(on_error=errors.append) as server,
        SocketSink(server.address) as sink,
    ):
        assert sink.insert(batches(one(1))) == 1
    assert [type(error) for error in errors] == [StoreError] * 2
    assert "open files" in str(errors[-1])
    first, second, third = made[0].asked[:3]
    assert second - first >= 0.05
    assert third - second >= 0.05


def test_visitors_that_say_nothing_cost_no_thread_and_do_not_keep_others_out():
    with LiveStore() as store, store.serve(max_producers=1) as server:
        silent = [socket.create_connection(server.address) for _ in range(150)]
        silent[0].sendall(wire.GREETING[:3])
        with SocketSink(server.address) as sink:
            assert sink.insert(batches(one(1))) == 1
        names = [thread.name for thread in threading.enumerate()]
        assert sum(name.startswith("tessel-producer") for name in names) <= 1
        for connection in silent:
            connection.close()


def test_who_does_not_greet_in_time_is_shut_out(monkeypatch):
    monkeypatch.setattr(server_module, "_GREETING_SECONDS", 0.01)
    errors: list[TesselError] = []
    with (
        LiveStore() as store,
        store.serve(on_error=errors.append) as server,
        socket.create_connection(server.address) as connection,
    ):
        connection.sendall(wire.GREETING[:5])
        assert read_to_the_end(connection) == b""
    assert "did not greet in time" in str(errors[0])


def test_half_a_request_holds_its_place_for_a_while_only():
    """Bytes that trickle in do not make the time longer that all of a request may take."""
    errors = list[TesselError]()
    request = wire.REQUEST.pack(1000, 1000, 7, 1) + bytes(1000)
    with (
        LiveStore() as store,
        store.serve(max_producers=1, request_seconds=0.2, on_error=errors.append) as server,
        socket.create_connection(server.address) as connection,
    ):
        connection.sendall(wire.GREETING)
        wire.receive(connection, len(wire.GREETING) + wire.LIMIT.size)
        time.sleep(0.3)  # before its first byte a producer may be silent
        begun, sent = time.monotonic(), 0
        connection.settimeout(0.02)
        shut_out = b"not yet"
        while shut_out:
            try:
                sent += connection.send(request[sent : sent + 1])
                shut_out = connection.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:  # a byte that came behind the end
                shut_out = b""
        assert time.monotonic() - begun >= 0.19
        assert sent < len(request)
        with SocketSink(server.address, patience_seconds=600) as sink:
            assert sink.insert(batches(one(1))) == 1
    assert any("did not come in time" in str(error) for error in errors)


def test_a_forked_child_does_not_keep_connections_open():
    with LiveStore() as store, store.serve() as server, SocketSink(server.address) as sink:
        assert sink.insert(batches(one(1))) == 1
        end, other_end = os.pipe()
        child = os.fork()
        if not child:
            os.close(other_end)
            os.read(end, 1)  # until the parent lets it go
            os._exit(0)
        server.close()
        assert sink._connection is not None
        assert sink._connection.recv(1) == b""
        os.close(other_end)
        assert os.waitpid(child, 0)[1] == 0


def test_an_on_error_that_raises_does_not_keep_others_out(caplog):
    def broken(error: TesselError) -> None:
        raise ValueError("not now")

    with LiveStore() as store, store.serve(on_error=broken) as server:
        with socket.create_connection(server.address) as connection:
            connection.sendall(b"GET / HT")
            assert b"invalid-input" in read_to_the_end(connection)
        with SocketSink(server.address) as sink:
            assert sink.insert(batches(one(1))) == 1
    assert "on_error of an event server raised" in caplog.text


def test_a_subscriber_may_close_the_server_that_its_events_came_through():
    with LiveStore() as store:
        server = store.serve()
        store.subscribe(lambda change: server.close())
        with SocketSink(server.address) as sink:
            assert sink.insert(batches(one(1))) == 1


def test_a_connection_is_kept_between_requests():
    with LiveStore() as store, store.serve() as server, SocketSink(server.address) as sink:
        assert sink.insert(batches(one(1))) == 1
        connection = sink._connection
        assert sink.insert(batches(one(2))) == 1
        assert sink._connection is connection

"""An event server whose process lacks threads or handles, and producers that stop half way."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable

import pytest

from tessel.errors import StoreBusyError, StoreError, TesselError
from tessel.store.events import LiveStore, Recorder, SocketSink, reception, wire
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
        threads("tessel-producer", 3)
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


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.was_asked = threading.Event()

    def monotonic(self) -> float:
        now = self.now
        self.was_asked.set()
        return now


class NoHandles:
    """A listener of a process that has no handle left for a while."""

    def __init__(self, listener: socket.socket, refusals: int) -> None:
        self.listener, self.refusals = listener, refusals

    def fileno(self) -> int:
        return self.listener.fileno()

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self.listener.accept()


def test_without_handles_accepting_pauses_and_goes_on(monkeypatch):
    """While it pauses the listener is not asked at all, though somebody waits there."""
    clock, errors = Clock(), list[TesselError]()
    admitted: list[socket.socket] = []
    monkeypatch.setattr(reception, "time", clock)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        desk = reception.Reception(NoHandles(listener, 2), admitted.append, errors.append)
        with socket.create_connection(listener.getsockname()) as producer:
            producer.sendall(wire.GREETING)
            for pause in range(2):
                assert desk._selector.select(None)
                desk._accept()
                assert [type(error) for error in errors] == [StoreError] * (pause + 1)
                assert "open files" in str(errors[-1])
                for _ in range(3):
                    assert desk._selector.select(0) == []
                    desk._look_at_the_clock()
                clock.now += 1.0
                desk._look_at_the_clock()
            assert desk._selector.select(None)
            desk._accept()
            ((key, _),) = desk._selector.select(None)
            desk._hear(desk._visitors[key.fileobj])
            assert len(admitted) == 1
            admitted[0].close()
        desk.close()


def test_visitors_that_say_nothing_cost_no_thread_and_do_not_keep_others_out():
    with LiveStore() as store, store.serve(max_producers=1) as server:
        silent = [socket.create_connection(server.address) for _ in range(150)]
        silent[0].sendall(wire.GREETING[:3])
        with SocketSink(server.address) as sink:
            assert sink.insert(batches(one(1))) == 1
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("tessel-producer") <= 1
        for connection in silent:
            connection.close()


def test_who_does_not_greet_in_time_is_shut_out(monkeypatch):
    monkeypatch.setattr(reception, "_GREETING_SECONDS", 0.01)
    errors: list[TesselError] = []
    with (
        LiveStore() as store,
        store.serve(on_error=errors.append) as server,
        socket.create_connection(server.address) as connection,
    ):
        connection.sendall(wire.GREETING[:5])
        assert read_to_the_end(connection) == b""
    assert "did not greet in time" in str(errors[0])


def test_half_a_request_holds_its_place_for_a_while_only(monkeypatch):
    """A byte that comes an hour late is one too late, however fast the bytes after it come."""
    clock, errors = Clock(), list[TesselError]()
    with (
        LiveStore() as store,
        store.serve(max_producers=1, request_seconds=3600, on_error=errors.append) as server,
        socket.create_connection(server.address) as connection,
    ):
        connection.sendall(wire.GREETING)
        wire.receive(connection, len(wire.GREETING) + wire.LIMIT.size)
        monkeypatch.setattr(wire, "time", clock)
        connection.sendall(b"\1")
        assert clock.was_asked.wait(600)
        clock.now += 3601
        connection.sendall(b"\1" * 5)
        shut_out = read_to_the_end(connection)
        with SocketSink(server.address, patience_seconds=600) as sink:
            assert sink.insert(batches(one(1))) == 1
    assert shut_out == b""
    assert any("broke off" in str(error) for error in errors)


class Trickle:
    """A connection whose bytes come one by one, each when its time has come."""

    def __init__(self, clock: Clock, content: bytes, waits: list[float]) -> None:
        self.clock, self.content, self.waits = clock, content, waits
        self.patience: float | None = 0.0

    def settimeout(self, seconds: float | None) -> None:
        self.patience = seconds

    def recv(self, _: int) -> bytes:
        wait = self.waits.pop(0) if self.waits else 0.0
        if self.patience is not None and wait > self.patience:
            self.clock.now += self.patience
            raise TimeoutError("timed out")
        self.clock.now += wait
        part, self.content = self.content[:1], self.content[1:]
        return part


def test_a_producer_may_be_silent_before_a_request_but_not_within_it(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(wire, "time", clock)
    request = wire.REQUEST.pack(3, 3, 7, 1) + b"abc"
    decoder = wire.Decoder(1 << 20)
    silent = Trickle(clock, request, [1e6])
    assert wire.receive_request(silent, decoder, 60.0) == (1, b"abc", 3, 7)
    for late in ([1e6, 61.0], [0.0, *[5.0] * 13]):
        begun = clock.now + late[0]
        with pytest.raises(TimeoutError):
            wire.receive_request(Trickle(clock, request, late), decoder, 60.0)
        assert clock.now - begun == 60.0


def test_a_connection_is_kept_between_requests():
    with LiveStore() as store, store.serve() as server, SocketSink(server.address) as sink:
        assert sink.insert(batches(one(1))) == 1
        connection = sink._connection
        assert sink.insert(batches(one(2))) == 1
        assert sink._connection is connection

"""LiveStore.serve and SocketSink: events of other processes, whatever becomes of them."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tessel.errors import (
    FormatVersionError,
    InvalidInputError,
    NotAStoreError,
    StoreBusyError,
    StoreError,
    TesselError,
)
from tessel.store.events import (
    Cell,
    EventBatch,
    LiveStore,
    Recorder,
    Row,
    SocketSink,
    id_bytes,
    wire,
)
from tests.store.events.histories import History


def one(number: int, entity: str = "a", value: object = 1.0) -> Row:
    cell = Cell.from_values("x", [value])
    return Row(id_bytes(1, number), entity, {"f": number}, cells=[cell])


def batches(*rows: Row) -> list[EventBatch]:
    store = LiveStore()
    store.insert(rows)
    return store.batches()


def values(store: LiveStore, entity: str) -> list[object]:
    return [x for (x,) in store.range("frame", 0, 2**62, entity).column("x").to_pylist()]


@pytest.fixture(params=["tcp", "unix"])
def address(request, tmp_path):
    return ("127.0.0.1", 0) if request.param == "tcp" else tmp_path / "events.sock"


def test_what_was_flushed_is_in_the_store(address):
    with LiveStore() as store:
        server = store.serve(address)
        with SocketSink(server.address) as sink:
            with Recorder(sink, max_delay_seconds=1000) as recorder:
                for at in range(100):
                    recorder.log("robot/arm", {"x": float(at), "n": [at] * 3}, frame=at)
                assert len(store) == 0
                recorder.flush()
                assert values(store, "robot/arm") == [float(at) for at in range(100)]
                recorder.clear("robot", recursive=True, frame=100)
            assert store.latest_at("frame", 100, "robot/arm") == {}
            assert store.latest_at("frame", 99, "robot/arm")["n"].cell.to_list() == [99] * 3
        store.check()
    if isinstance(address, Path):
        assert not address.exists()


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_arrives_whole_and_once(seed):
    history = History(seed)
    for _ in range(12):
        history.step()
    given = history.store.batches()
    with LiveStore() as store, store.serve() as server, SocketSink(server.address) as sink:
        history.random.shuffle(given)
        assert sink.insert(given) == len(history.store)
        assert sink.insert(given[: len(given) // 2]) == 0
        history.move_to(store)
        history.compare()


PRODUCER = """
import sys
from tessel.store.events import Recorder, SocketSink
host, port, name, flushes = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
recorder = Recorder(SocketSink((host, port)), max_delay_seconds=0.002)
for flush in range(flushes):
    for at in range(50):
        recorder.log(name, {"x": float(50 * flush + at)}, frame=50 * flush + at)
    recorder.flush()
    print(50 * (flush + 1), flush=True)
"""


def test_three_producers_of_which_one_is_killed():
    """Whatever was acknowledged is there, nothing is there twice, and the others do not notice."""
    with LiveStore() as store, store.serve() as server:
        started = {}
        for name, flushes in (("killed", 10**9), ("b", 20), ("c", 20)):
            arguments = [sys.executable, "-c", PRODUCER, *map(str, server.address), name]
            started[name] = subprocess.Popen(
                [*arguments, str(flushes)], stdout=subprocess.PIPE, text=True
            )
        killed = started["killed"]
        assert killed.stdout is not None
        acknowledged = 0
        while acknowledged < 500:
            acknowledged = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)
        rest, _ = killed.communicate()
        acknowledged = max([acknowledged, *map(int, rest.split())])
        for name in "bc":
            started[name].communicate()
            assert started[name].returncode == 0
        # The server answers what it has read of the one that is gone before it sees the end.
        server.close()
        for name in "bc":
            assert values(store, name) == [float(at) for at in range(1000)]
        found = values(store, "killed")
        assert len(found) >= acknowledged
        assert found == [float(at) for at in range(len(found))]
        store.check()


SERVER = """
import sys
from tessel.store.events import LiveStore
live = LiveStore(journal=sys.argv[1])
live.serve(sys.argv[2])
print(len(live), flush=True)
sys.stdin.read()
live.close()
"""


def test_a_store_that_is_killed_and_opened_again_has_everything_once(tmp_path):
    """The producer notices nothing but a pause: what was not acknowledged it sends again."""
    paths = [str(tmp_path / "journal"), str(tmp_path / "events.sock")]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SERVER, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    server = started()
    assert server.stdout is not None
    assert server.stdout.readline() == "0\n"
    enough, acknowledged = threading.Event(), 0

    def produce() -> None:
        nonlocal acknowledged
        with SocketSink(paths[1], patience_seconds=120) as sink, Recorder(sink) as recorder:
            for at in range(400):
                recorder.log("a", {"x": float(at)}, frame=at)
                if at % 10 == 9:
                    recorder.flush()
                    acknowledged = at + 1
                if at == 199:
                    enough.set()

    producer = threading.Thread(target=produce)
    producer.start()
    assert enough.wait(120)
    server.send_signal(signal.SIGKILL)
    server.communicate()
    known = acknowledged
    server = started()
    assert server.stdout is not None
    assert int(server.stdout.readline()) >= known >= 200
    producer.join()
    server.communicate()
    with LiveStore(journal=paths[0]) as store:
        assert values(store, "a") == [float(at) for at in range(400)]
        store.check()


class Proxy:
    """Stands between a sink and a server; of the first connections it swallows the reply."""

    def __init__(self, target: tuple[str, int], cut: int) -> None:
        self.target, self.cut = target, cut
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        greeting = len(wire.GREETING)
        for number in range(self.cut + 1):
            front, _ = self.listener.accept()
            with front, socket.create_connection(self.target) as back:
                back.sendall(wire.receive(front, greeting))
                front.sendall(wire.receive(back, greeting + wire.LIMIT.size))
                while header := front.recv(wire.REQUEST.size):
                    header += wire.receive(front, wire.REQUEST.size - len(header))
                    back.sendall(header + wire.receive(front, wire.REQUEST.unpack(header)[0]))
                    answer = wire.receive(back, wire.REPLY.size)
                    answer += wire.receive(back, wire.REPLY.unpack(answer)[2])
                    if number < self.cut:
                        break
                    front.sendall(answer)
        self.listener.close()


def test_what_was_not_acknowledged_is_sent_again_and_taken_once():
    with LiveStore() as store, store.serve() as server:
        proxy = Proxy(server.address, cut=2)
        with SocketSink(proxy.address) as sink:
            sent = batches(one(1), one(2), one(3, "b"))
            assert sink.insert(sent) == 0  # the store had all of them from the first time
            assert len(store) == 3
            assert sink.insert(batches(one(4))) == 1
        proxy.thread.join()
        store.check()


def carry(front: socket.socket, target: tuple[str, int], most_bytes: int) -> None:
    """Carry so many bytes between a sink and a server, in both directions, and then cut."""
    with front, socket.create_connection(target) as back:
        while most_bytes > 0:
            ready, _, _ = select.select([front, back], [], [])
            for source in ready:
                data = source.recv(min(most_bytes, 1000))
                if not data:
                    return
                most_bytes -= len(data)
                (back if source is front else front).sendall(data)


@pytest.mark.parametrize("seed", range(3))
def test_connections_that_break_anywhere_lose_nothing_and_repeat_nothing(seed):
    pick = random.Random(seed)
    cuts = [pick.choice([0, 9, 100, 400, 700, 900, 2000]) for _ in range(12)]
    history = History(seed)
    for _ in range(10):
        history.step()
    errors: list[TesselError] = []
    with LiveStore() as store, store.serve(on_error=errors.append) as server:
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            for most_bytes in [*cuts, 1 << 40]:
                connection, _ = listener.accept()
                try:
                    carry(connection, server.address, most_bytes)
                except OSError:  # one of them was quicker
                    continue

        thread = threading.Thread(target=run)
        thread.start()
        with SocketSink(listener.getsockname(), patience_seconds=120) as sink:
            for batch in history.store.batches():
                sink.insert([batch])
            sink.insert(history.store.batches())
        assert len(store) == len(history.store)
        with SocketSink(server.address) as sink:
            assert sink.insert(history.store.batches()) == 0
        store.check()
        while thread.is_alive():  # connections that nobody needed any more
            socket.create_connection(listener.getsockname()).close()
            thread.join(0.01)
        listener.close()
    assert all(isinstance(error, StoreError) for error in errors)


def test_a_store_that_comes_back_gets_what_waited(tmp_path):
    address = tmp_path / "events.sock"
    first = LiveStore(journal=tmp_path / "journal")
    first.serve(address)
    sink = SocketSink(address, patience_seconds=0.05)
    recorder = Recorder(sink, max_delay_seconds=1000)
    recorder.log("a", {"x": 1.0}, frame=1)
    recorder.flush()
    first.close()
    recorder.log("a", {"x": 2.0}, frame=2)
    for _ in range(2):
        with pytest.raises(StoreError, match="no live store answers"):
            recorder.flush()
    with LiveStore(journal=tmp_path / "journal") as second:
        second.serve(address)
        recorder.log("a", {"x": 3.0}, frame=3)
        recorder.close()
        assert values(second, "a") == [1.0, 2.0, 3.0]
    sink.close()


def test_events_that_the_store_refuses_are_refused_to_their_producer_alone():
    errors: list[TesselError] = []
    with LiveStore() as store, store.serve(on_error=errors.append) as server:
        with SocketSink(server.address) as sink:
            sink.insert(batches(one(1)))
            with pytest.raises(InvalidInputError, match="'x' of 'a' is double"):
                sink.insert(batches(one(2, value="text"), one(3, "b")))
            assert len(store) == 1  # all of a request, or none
            assert sink.insert(batches(one(3, "b"))) == 1
        assert [type(error) for error in errors] == [InvalidInputError]


def test_a_store_that_cannot_write_leaves_the_events_with_their_producer(tmp_path, monkeypatch):
    with LiveStore(journal=tmp_path / "journal") as store, store.serve() as server:
        recorder = Recorder(SocketSink(server.address), max_delay_seconds=1000)
        recorder.log("a", {"x": 1.0}, frame=1)

        def full(_: object) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(store._journal, "append", full)
            with pytest.raises(StoreError, match="no space left"):
                recorder.flush()
        recorder.close()
        assert values(store, "a") == [1.0]


def test_a_slow_store_slows_its_producers_down():
    free, inside = threading.Event(), threading.Event()
    with LiveStore() as store:

        def slow(_: object) -> None:
            inside.set()
            assert free.wait(60)

        store.subscribe(slow)
        server = store.serve()
        recorder = Recorder(SocketSink(server.address), max_delay_seconds=1000)
        recorder.log("a", {"x": 1.0}, frame=1)
        flushing = threading.Thread(target=recorder.flush)
        flushing.start()
        assert inside.wait(60)
        assert flushing.is_alive()  # the event is there, and not acknowledged
        free.set()
        flushing.join()
        recorder.close()


def test_a_shape_is_described_once():
    with LiveStore() as store, store.serve() as server, SocketSink(server.address) as sink:
        sizes = []
        for number in range(1, 4):
            before = sink.sent_bytes
            sink.insert(batches(one(number)))
            sizes.append(sink.sent_bytes - before)
        assert sizes[1] == pytest.approx(sizes[2], abs=8)
        assert sizes[0] > sizes[1] + 150
        before = sink.sent_bytes
        sink.insert(batches(*(one(number) for number in range(100, 10_100))))
        assert (sink.sent_bytes - before) / 10_000 < 40  # an id, a time, a number, as they are
        assert len(store) == 10_003


def test_what_is_larger_than_a_request_is_several():
    with LiveStore() as store, store.serve(max_request_bytes=4096) as server:
        with SocketSink(server.address) as sink:
            rows = [one(number, "ab"[number % 2]) for number in range(1, 1001)]
            assert sink.insert(batches(*rows)) == 1000
            with pytest.raises(InvalidInputError, match="the live store takes 4096"):
                sink.insert(batches(one(2000, value="x" * 5000)))
            assert sink.insert(batches(one(2001))) == 1
        store.check()


def test_no_more_producers_than_allowed():
    with (
        LiveStore() as store,
        store.serve(max_producers=1) as server,
        SocketSink(server.address) as sink,
        SocketSink(server.address, patience_seconds=0.02) as other,
    ):
        sink.insert(batches(one(1)))
        with pytest.raises(StoreBusyError, match="1 producers are connected"):
            other.insert(batches(one(2)))
        assert sink.insert(batches(one(3))) == 1
        sink.close()
        while server.producers:
            pass
        assert other.insert(batches(one(2))) == 1


def test_a_forked_child_has_a_connection_of_its_own():
    with LiveStore() as store, store.serve() as server:
        recorder = Recorder(SocketSink(server.address), max_delay_seconds=1000)
        recorder.log("a", {"x": 1.0}, frame=1)
        recorder.flush()
        recorder.log("a", {"x": 2.0}, frame=2)
        child = os.fork()
        if not child:
            recorder.log("b", {"x": 3.0}, frame=1)
            recorder.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0
        recorder.close()
        assert (values(store, "a"), values(store, "b")) == ([1.0, 2.0], [3.0])


def test_addresses_that_are_none_or_taken_are_refused(tmp_path):
    with LiveStore() as store:
        for wrong in (9000, ("127.0.0.1",), ("127.0.0.1", -1), ("127.0.0.1", True)):
            with pytest.raises(InvalidInputError, match="is no address"):
                store.serve(wrong)
            with pytest.raises(InvalidInputError, match="is no address"):
                SocketSink(wrong)
        for wide in ("0.0.0.0", "192.0.2.1", "example.org", "::"):
            with pytest.raises(InvalidInputError, match="from other machines"):
                store.serve((wide, 0))
        with pytest.raises(InvalidInputError, match="for 0 producers"):
            store.serve(max_producers=0)
        with pytest.raises(InvalidInputError, match="patience"):
            SocketSink("path", patience_seconds=0)
        server = store.serve(tmp_path / "a.sock")
        assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(StoreBusyError, match="another process listens"):
            store.serve(tmp_path / "a.sock")
        with pytest.raises(StoreError, match="cannot listen"):
            store.serve(store.serve().address)
        server.close()
        left = socket.socket(socket.AF_UNIX)  # of a process that was killed
        left.bind(str(tmp_path / "left.sock"))
        left.close()
        store.serve(tmp_path / "left.sock")
        (tmp_path / "file").write_text("mine")
        with pytest.raises(StoreError, match="cannot listen"):
            store.serve(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("greeting", "kind"),
    [
        (b"GET / HT", InvalidInputError),
        (b"TSLEVS\x09\x00", FormatVersionError),
        (b"TSL", StoreError),
        (wire.GREETING + b"\xff" * 30, InvalidInputError),
        (wire.GREETING + b"\1" * 5, StoreError),
    ],
    ids=repr,
)
def test_who_says_something_else_is_told_and_shut_out(greeting, kind):
    errors: list[TesselError] = []
    with LiveStore() as store:
        server = store.serve(on_error=errors.append)
        with socket.create_connection(server.address) as connection:
            connection.sendall(greeting)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(4096):
                answer += part
        server.close()
        assert [type(error) for error in errors] == [kind]
        if kind is not StoreError:
            assert kind.kind.encode() in answer
        assert len(store) == 0


def test_a_store_that_says_nothing_is_not_waited_for_forever():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sink = SocketSink(listener.getsockname(), patience_seconds=0.01, silence_seconds=0.05)
        with pytest.raises(StoreError, match="no live store answers"):
            sink.insert(batches(one(1)))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 no", b"TSLEVS\x09\x00" + bytes(20)], ids=repr)
def test_a_sink_that_reaches_something_else_says_so(answer):
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(answer)
            connection.recv(100)

    thread = threading.Thread(target=run)
    thread.start()
    sink = SocketSink(listener.getsockname())
    with pytest.raises(NotAStoreError, match="is no live store of this release"):
        sink.insert(batches(one(1)))
    thread.join()
    listener.close()

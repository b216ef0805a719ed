"""Forked children of processes that log: they see each store whole, and can write to their copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import settings

from tessel.cached import cached
from tessel.errors import ForkUnsafeError, InvalidInputError
from tessel.forking import _acquire_all
from tessel.store.events import Cell, EventIds, FileSink, LiveStore, Recorder, Row, id_bytes
from tessel.store.events.chunk import Chunk

_FORKS = settings.default.max_examples // 4


def in_child(work: Callable[[], None]) -> None:
    """Run work in a forked child; raise where it raises, or never ends."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def pair(ids: EventIds, at: int) -> list[Row]:
    """Events of two entities that are inserted together."""
    cell = Cell.from_values("x", [float(at)])
    return [Row(id_bytes(*ids.next()), entity, {"frame": at}, cells=[cell]) for entity in "ab"]


def values(store: LiveStore, entity: str) -> list[object]:
    found = store.range("frame", 0, 10**9, entity, ["x"])
    return [cell[0] for cell in found.column("x").to_pylist()]


def test_children_of_a_process_that_inserts_all_the_time():
    store, ids, stop = LiveStore(), EventIds(), threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            store.insert(pair(ids, written))
            written += 1
            if written % 100 == 0:
                store.drop_after("frame", -1)
                written = 0

    store.insert(pair(ids, 0))
    written = 1
    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(_FORKS):

            def child(number: int = number) -> None:
                store.check()
                before = values(store, "a")
                assert values(store, "b") == before == [float(at) for at in range(len(before))]
                assert store.insert(pair(ids, 10**6 + number)) == 2
                with Recorder(store) as recorder:
                    recorder.log("c", {"x": 1.0}, frame=1)
                assert values(store, "a") == [*before, 10.0**6 + number]
                assert values(store, "c") == [1.0]
                store.compact()
                store.check()

            in_child(child)
    finally:
        stop.set()
        thread.join()
    store.check()
    assert "c" not in store.entities()
    assert values(store, "a") == [float(at) for at in range(written)]


def test_children_of_a_process_that_logs_all_the_time():
    store, stop = LiveStore(), threading.Event()
    with Recorder(store, max_rows=20, max_delay_seconds=0.001) as recorder:
        logged = 0

        def write() -> None:
            nonlocal logged
            while not stop.is_set():
                recorder.log("a", {"x": float(logged)}, frame=logged)
                recorder.clear("b", frame=logged)
                logged += 1
                stop.wait(0.001)  # children check all that was logged: it must not outgrow them

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(_FORKS):

                def child() -> None:
                    before = len(store)
                    recorder.log("a", {"x": -1.0}, frame=-5)
                    recorder.flush()
                    assert len(store) == before + 1
                    assert store.latest_at("frame", -5, "a")["x"].cell.to_list() == [-1.0]
                    store.check()

                in_child(child)
        finally:
            stop.set()
            thread.join()
        recorder.flush()
        assert values(store, "a") == [float(at) for at in range(logged)]
    assert len(store) == 2 * logged
    store.check()


def test_a_recorder_that_was_closed_is_closed_in_a_child():
    recorder = Recorder(LiveStore())
    recorder.close()

    def child() -> None:
        with pytest.raises(InvalidInputError, match="is closed"):
            recorder.log("a", {"x": 1.0}, frame=1)

    in_child(child)


def test_a_journal_is_its_parents_and_not_held_open_by_children(tmp_path):
    path = tmp_path / "journal"
    ids = EventIds()
    store = LiveStore(journal=path)
    store.insert(pair(ids, 1))
    ready, end = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            os.close(end)
            for change in (
                lambda: store.insert(pair(ids, 2)),
                lambda: store.load(path),
                lambda: store.collect(fraction=1.0),
                lambda: store.drop_after("frame", 0),
            ):
                with pytest.raises(ForkUnsafeError, match="was forked from it"):
                    change()
            assert values(store, "a") == [1.0]
            os.read(ready, 1)  # until the parent has had the journal opened anew
            os._exit(0)
        finally:
            os._exit(1)
    os.close(ready)
    store.insert(pair(ids, 3))
    store.close()
    with LiveStore(journal=path) as again:
        assert values(again, "a") == [1.0, 3.0]
    os.close(end)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_is_its_parents(tmp_path):
    sink = FileSink(tmp_path / "events")
    recorder = Recorder(sink)

    def child() -> None:
        recorder.log("a", {"x": 1.0}, frame=1)
        with pytest.raises(ForkUnsafeError):
            recorder.flush()
        sink.close()

    in_child(child)
    recorder.close()
    sink.close()


def test_who_forks_waits_for_one_lock_at_a_time():
    """A thread that has one store and wants another gets it, whatever order they are held in."""
    first, second = threading.RLock(), threading.RLock()
    has_second, wanted = threading.Event(), threading.Event()

    def work() -> None:
        with second:
            has_second.set()
            assert wanted.wait(60)
            with first:
                pass

    thread = threading.Thread(target=work)
    thread.start()
    assert has_second.wait(60)
    wanted.set()
    _acquire_all([first, second])
    first.release()
    second.release()
    thread.join()


def test_a_child_forked_while_a_property_is_computed_computes_it_too():
    """What computes it is a thread of the parent, which the child does not have."""
    computing, go_on = threading.Event(), threading.Event()

    class Slow:
        @cached
        def answer(self) -> int:
            """Take as long as it is told to."""
            if threading.current_thread() is not threading.main_thread():
                computing.set()
                go_on.wait()
            return 42

    thread = threading.Thread(target=lambda: Slow().answer)
    thread.start()
    assert computing.wait(60)
    try:

        def child() -> None:
            slow = Slow()
            assert [slow.answer, slow.answer] == [42, 42]
            assert slow.__dict__ == {"answer": 42}

        in_child(child)
    finally:
        go_on.set()
        thread.join()
    assert Slow.answer.__doc__ == "Take as long as it is told to."
    assert [type(vars(Chunk)[name]) for name in ("bounds", "first_id", "last_id")] == [cached] * 3


FIRST_LOG = """
import os, signal, sys, threading
from tessel.store.events import LiveStore, Recorder
assert "pandas" not in sys.modules
import pyarrow
store, stop = LiveStore(), threading.Event()
with Recorder(store, max_delay_seconds=1000) as recorder:
    def write():
        pyarrow.array([1, 2.0])  # imports pandas, which the recorder does not
        while not stop.is_set():
            recorder.log("a", {"x": 1.0}, frame=1)
            stop.wait(0.001)
    thread = threading.Thread(target=write)
    thread.start()
    while "pandas" not in sys.modules:  # Arrow imports it for such a conversion
        pass
    child = os.fork()
    if not child:
        signal.alarm(60)
        recorder.log("b", {"x": 1.0}, frame=1)
        recorder.flush()
        os._exit(0 if store.entities() == ["b"] else 1)
    stop.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_forked_during_the_first_log_of_a_process_logs_too():
    done = subprocess.run([sys.executable, "-c", FIRST_LOG], capture_output=True)
    assert done.returncode == 0, done.stderr

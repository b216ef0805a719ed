"""Recorder: what is logged is there after flush, from any thread, and after the program's end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError
from tessel.store.events import Cell, EventBatch, LiveStore, Recorder


def state(store: LiveStore, entity: str, time: int = 10**9) -> dict[str, list[object]]:
    found = store.latest_at("frame", time, entity)
    return {name: each.cell.to_list() for name, each in found.items()}


def test_what_was_logged_is_there_after_flush():
    store = LiveStore()
    with Recorder(store, max_delay_seconds=1000) as recorder:
        recorder.log("robot/arm", {"angle": 0.5, "name": "left"}, frame=1)
        assert len(store) == 0
        recorder.flush()
        assert state(store, "robot/arm") == {"angle": [0.5], "name": ["left"]}
        recorder.log("robot/arm", {"angle": 0.75}, frame=2)
    assert state(store, "robot/arm") == {"angle": [0.75], "name": ["left"]}
    assert state(store, "robot/arm", 1) == {"angle": [0.5], "name": ["left"]}


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (1, [1]),
        ([1.0, 2.0], [1.0, 2.0]),
        ((True,), [True]),
        (np.arange(3, dtype=np.float32), [0.0, 1.0, 2.0]),
        (pa.array(["a", None]), ["a", None]),
        (Cell.from_values("x", [b"1"]), [b"1"]),
        (np.float64(1.5), [1.5]),
        (Cell.empty("x", pa.int8()), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_many_kinds(value, values):
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": value}, frame=1)
    assert state(store, "a") == {"x": values}


def test_values_of_one_type_in_several_forms_are_one_column():
    store = LiveStore()
    with Recorder(store) as recorder:
        for at, value in enumerate([1.0, 2, [3.0], [4.0, 5.0], np.array([6.0]), []]):
            recorder.log("a", {"x": value}, frame=at)
    found = [store.latest_at("frame", at, "a")["x"] for at in range(6)]
    assert [each.cell.to_list() for each in found] == [[1.0], [2.0], [3.0], [4.0, 5.0], [6.0], []]
    assert [each.num_instances for each in found] == [1, 1, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("components", "times", "message"),
    [
        ({"x": "text"}, {"frame": 2}, "no one type|is double"),
        ({"x": [1.0, "a"]}, {"frame": 2}, "of no one type"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0, 3.0]}, {"frame": 2}, "2 values in an event of 3"),
        ({"x": np.array([1 + 2j])}, {"frame": 2}, "of no one type"),
        ({"x": np.array([1, "a"], object)}, {"frame": 2}, "of no one type"),
        ({"x": np.array([2**60 + 1])}, {"frame": 2}, "of no one type"),
        ({"x": np.array(["2024"], "M8[s]")}, {"frame": 2}, "is no double"),
        ({"x": np.array(["5"])}, {"frame": 2}, "is no double"),
        ({"x": 1.0}, {"frame": 1.5}, "frame=1.5"),
        ({"x": 1.0}, {"frame": np.timedelta64(1, "s")}, "counts sequence"),
        ({"x": 1.0}, {}, "has a time, or is timeless"),
        ({}, {"frame": 1}, "without a component"),
        ({"x": None}, {"frame": 1}, "is None"),
        ({"tessel.clear": True}, {"frame": 1}, "reserved"),
        ({"x": 1.0}, {"frame": 2**63}, "past what 64 bits"),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_when_it_is_logged(components, times, message):
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": 1.0}, frame=1)
        with pytest.raises(InvalidInputError, match=message):
            recorder.log("a", components, **times)
    assert len(store) == 1


def test_a_recorder_without_a_sink_is_refused():
    for sink in (None, "events"):
        with pytest.raises(InvalidInputError, match="takes no events"):
            Recorder(sink)


@pytest.mark.parametrize("target", [{"keep_bytes": -1}, {"before": b""}, {"fraction": -0.5}, {}])
def test_a_target_of_a_collection_that_means_nothing_drops_nothing(target):
    store = LiveStore()
    with Recorder(store) as recorder:
        for frame in range(3):
            recorder.log("a", {"x": 1.0}, frame=frame)
    with pytest.raises(InvalidInputError, match=r"one target|no event id"):
        store.collect(**target)
    assert len(store) == 3


def test_clears_hide_what_was_before_them():
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a/b", {"x": 1.0}, frame=1)
        recorder.clear("a", frame=2)
        recorder.flush()
        assert state(store, "a/b") == {"x": [1.0]}
        recorder.clear("a", recursive=True, frame=3)
        recorder.clear("a", frame=4)  # a later flat clear does not undo it
    assert state(store, "a/b") == {}
    assert state(store, "a/b", 2) == {"x": [1.0]}


def test_timeless_data_override_what_a_timeline_holds():
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": 1.0}, timeless=True)
        recorder.log("a", {"x": 2.0}, frame=1)
    assert state(store, "a") == {"x": [1.0]}
    assert store.latest_at("frame", 5, "a")["x"].time is None


@pytest.mark.parametrize(
    "options", [{"max_rows": 10}, {"max_bytes": 500}, {"max_delay_seconds": 0.001}], ids=str
)
def test_batches_are_handed_on_without_flush(options):
    store = LiveStore()
    arrived = threading.Event()
    store.subscribe(lambda change: arrived.set())
    with Recorder(store, **{"max_delay_seconds": 1000, **options}) as recorder:
        for at in range(10):
            recorder.log("a", {"x": 1.0}, frame=at)
        assert arrived.wait(60)


def test_four_writers_and_two_readers_lose_nothing_and_see_no_half():
    """Every event says the same in two components: a reader must never see them differ."""
    store = LiveStore()
    stop = threading.Event()
    torn: list[object] = []

    def write(number: int) -> None:
        with Recorder(store, max_rows=64) as recorder:
            for at in range(3000):
                recorder.log(f"w{number}", {"x": float(at), "y": [float(at)]}, frame=at % 997)

    def read() -> None:
        while not stop.is_set():
            for entity in store.entities():
                found = store.latest_at("frame", 996, entity)
                values = {each.cell.to_list()[0] for each in found.values()}
                if len(values) > 1 or len({each.event_id for each in found.values()}) > 1:
                    torn.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in [*readers, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not torn
    assert len(store) == 12_000
    store.check()
    for number in range(4):
        values = store.range("frame", 0, 996, f"w{number}").column("x").to_pylist()
        assert sorted(value for (value,) in values) == [float(at) for at in range(3000)]


def test_an_error_of_the_sink_is_raised_by_flush_and_its_events_wait():
    class Full:
        full = True
        taken = 0

        def insert(self, events: list[EventBatch]) -> int:
            if self.full:
                raise OSError("full")
            self.taken += sum(map(len, events))
            return self.taken

    sink = Full()
    recorder = Recorder(sink, max_delay_seconds=0.001)
    recorder.log("a", {"x": 1.0}, frame=1)
    thread = recorder._thread
    assert thread is not None
    while not recorder._undelivered:
        thread.join(0.01)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            recorder.flush()
    recorder.log("a", {"x": 2.0}, frame=2)
    with pytest.raises(OSError, match="full"):
        recorder.close()
    sink.full = False
    recorder.close()
    assert sink.taken == 2
    with pytest.raises(InvalidInputError, match="is closed"):
        recorder.log("a", {"x": 1.0}, frame=1)
    with pytest.raises(InvalidInputError, match="is closed"):
        recorder.clear("a", frame=1)


def test_who_logs_past_what_may_wait_is_told_that_the_sink_fails():
    class Full:
        def insert(self, events: object) -> int:
            raise OSError("full")

    recorder = Recorder(Full(), max_delay_seconds=1000, max_rows=3)
    recorder.log("a", {"x": 1.0}, frame=1)
    recorder.log("a", {"x": 1.0}, frame=2)
    for at in range(3, 6):
        with pytest.raises(OSError, match="full"):
            recorder.log("a", {"x": 1.0}, frame=at)
    store = LiveStore()
    recorder._sink = store
    recorder.close()
    assert len(store) == 5


def test_of_several_batches_only_what_the_store_refuses_is_dropped():
    store = LiveStore()
    with Recorder(store) as other:
        other.log("b", {"x": "text"}, frame=1)
    with Recorder(store, max_delay_seconds=1000) as recorder:
        for entity in "abc":
            recorder.log(entity, {"x": 1.0}, frame=1)
        with pytest.raises(InvalidInputError, match="'x' of 'b' is string"):
            recorder.flush()
    assert [state(store, entity) for entity in "abc"] == [
        {"x": [1.0]},
        {"x": ["text"]},
        {"x": [1.0]},
    ]


@pytest.mark.parametrize("wrong", [1, "text", True])
def test_the_type_of_a_refused_event_is_forgotten(wrong: object):
    store = LiveStore()
    with Recorder(store) as other:
        other.log("a", {"x": 1.0}, frame=1)
    with Recorder(store, max_delay_seconds=1000) as recorder:
        recorder.log("a", {"x": wrong}, frame=2)
        with pytest.raises(InvalidInputError, match="'x' of 'a' is double"):
            recorder.flush()
        recorder.log("a", {"x": 2.5}, frame=3)
    assert store.range("frame", 0, 9, "a")["x"].to_pylist() == [[1.0], [2.5]]


def test_the_type_of_taken_events_outlives_a_refused_one():
    with Recorder(LiveStore(), max_delay_seconds=1000) as recorder:
        recorder.log("a", {"x": 1.0}, frame=1)
        recorder.flush()
        recorder.log("a", {"x": 2}, frame=2)  # of the type that is known
        recorder.flush()
        with pytest.raises(InvalidInputError, match="no one type"):
            recorder.log("a", {"x": "text"}, frame=3)
        recorder.log("a", {"x": 3}, frame=4)
        recorder.flush()
        assert recorder._sink.range("frame", 0, 9, "a")["x"].to_pylist() == [[1.0], [2.0], [3.0]]


PROGRAM = """
import os, sys
from tessel.store.events import LiveStore, Recorder
store = LiveStore(journal=sys.argv[1])
recorder = Recorder(store, max_delay_seconds=1000)
recorder.log("a", {"x": 1.0}, frame=1)
if len(sys.argv) > 2:
    recorder.flush()
    recorder.log("a", {"x": 2.0}, frame=2)
    os.kill(os.getpid(), 9)
"""


def test_nothing_is_lost_when_the_program_ends(tmp_path):
    path = tmp_path / "journal"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True)
    assert done.returncode == 0, done.stderr
    with LiveStore(journal=path) as store:
        assert len(store) == 1


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    path = tmp_path / "journal"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path), "kill"], capture_output=True)
    assert done.returncode == -9
    with LiveStore(journal=path) as store:
        assert state(store, "a") == {"x": [1.0]}


def test_a_forked_child_logs_its_own_events_and_none_of_its_parent():
    store = LiveStore()
    recorder = Recorder(store, max_delay_seconds=1000)
    recorder.log("a", {"x": 1.0}, frame=1)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        recorder.log("a", {"x": 2.0}, frame=2)
        recorder.flush()
        os.write(write, bytes([len(store)]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"\1"
    recorder.close()
    assert state(store, "a") == {"x": [1.0]}
    os.close(read)
    os.close(write)

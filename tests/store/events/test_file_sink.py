"""FileSink: what was flushed is in the file, and a live store loads it once."""

from __future__ import annotations

import os

import pytest

from tessel.errors import (
    ForkUnsafeError,
    InvalidInputError,
    NotAStoreError,
    StoreBusyError,
    StoreError,
)
from tessel.store.events import FileSink, LiveStore, Recorder
from tests.store.events.histories import History


@pytest.mark.parametrize("durable", ["process", "power"])
def test_what_was_logged_can_be_loaded_and_taken_up(tmp_path, durable):
    path = tmp_path / "run.events"
    for start in (0, 10):
        with FileSink(path, durable=durable) as sink, Recorder(sink) as recorder:
            for at in range(start, start + 10):
                recorder.log("a", {"x": float(at)}, frame=at)
    live = LiveStore()
    assert live.load(path) == 20
    assert live.load(path) == 0
    found = live.range("frame", 0, 100, "a").column("x").to_pylist()
    assert found == [[float(at)] for at in range(20)]
    with LiveStore(journal=path) as journal:
        assert len(journal) == 20


def test_a_random_history_is_read_back(tmp_path):
    history = History(3)
    for _ in range(12):
        history.step()
    with FileSink(tmp_path / "file") as sink:
        given = history.store.batches()
        history.random.shuffle(given)
        assert sum(sink.insert([batch]) for batch in given) == len(history.store)
        sink.insert(given)  # a second time
    history.store = LiveStore()
    history.store.load(tmp_path / "file")
    history.compare()


def test_a_torn_end_is_cut_off_and_written_over(tmp_path):
    path = tmp_path / "file"
    for at in range(3):
        with FileSink(path) as sink, Recorder(sink) as recorder:
            recorder.log("a", {"x": float(at)}, frame=at)
        if at == 1:
            os.truncate(path, path.stat().st_size - 5)
    live = LiveStore()
    live.load(path)
    assert live.range("frame", 0, 9, "a").column("x").to_pylist() == [[0.0], [2.0]]


def test_a_file_has_one_writer_and_holds_events(tmp_path):
    path = tmp_path / "file"
    with FileSink(path) as sink:
        with pytest.raises(StoreBusyError):
            FileSink(path)
        child = os.fork()
        if not child:
            try:
                sink.insert([])
            except ForkUnsafeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    (tmp_path / "other").write_bytes(b"something else entirely")
    with pytest.raises(NotAStoreError):
        FileSink(tmp_path / "other")
    with pytest.raises(InvalidInputError, match="durable"):
        FileSink(path, durable="maybe")


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "events"):
        with pytest.raises(StoreError, match="cannot be opened"):
            FileSink(path)

"""Journals, dumps and saved recordings: the same answers afterwards, also of torn files."""

from __future__ import annotations

import pytest

import tessel
from tessel.errors import (
    CorruptStoreError,
    FormatVersionError,
    InvalidInputError,
    NotAStoreError,
    StoreBusyError,
    SymbolNotFoundError,
)
from tessel.store.events import Cell, LiveStore, Recorder, Row, id_bytes
from tests.store.events.histories import History


def grown(seed: int, steps: int = 15) -> History:
    history = History(seed)
    for _ in range(steps):
        history.step()
    return history


def one(number: int) -> Row:
    cell = Cell.from_values("x", [float(number)])
    return Row(id_bytes(1, number), "a", {"f": number}, cells=[cell])


@pytest.mark.parametrize("seed", range(8))
def test_a_dump_and_a_saved_recording_answer_as_before(seed, tmp_path):
    history = grown(seed)
    history.store.dump(tmp_path / "events")
    dumped = LiveStore()
    dumped.load(tmp_path / "events")
    repository = tessel.open(str(tmp_path / "store"))
    history.store.save(repository, "run")
    history.compare_columns(repository, "run")
    for store in (dumped, LiveStore.open(repository, "run")):
        history.store = store
        history.compare()
        store.save(repository, "again")
        history.compare_columns(repository, "again")
    with LiveStore.open(repository, "again") as history.store:
        history.compare()


def test_a_journal_is_taken_up_again_after_every_step(tmp_path):
    path = tmp_path / "journal"
    history = History(5)
    history.store = LiveStore(journal=path)
    for _ in range(20):
        action = history.random.choice(["log", "log", "clear", "repeat", "drop", "collect"])
        getattr(history, action)()
        history.store.close()
        history.store = LiveStore(journal=path, durable="power")
        history.compare()
    repository = tessel.open("memory://")
    history.store.save(repository, "run")
    history.compare_columns(repository, "run")
    history.store.close()


def test_a_saved_recording_is_symbols_as_any_other(tmp_path):
    store = tessel.open(str(tmp_path / "store"))
    live = LiveStore()
    with Recorder(live) as recorder:
        for at in range(10):
            recorder.log("robot/arm", {"angle": at / 2, "n": [at, at]}, frame=at)
            recorder.log("robot/base", {"speed": float(at)}, frame=at)
    live.save(store, "run")
    assert store.symbols() == ["run/robot/arm", "run/robot/base"]
    assert store.view("run/robot/arm").segment_count == 1
    query = tessel.QueryBuilder().filter("angle > 3").select("frame", "angle")
    found = store.read("run/robot/arm", query=query).to_arrow()
    assert found.to_pydict() == {"frame": [7, 8, 9], "angle": [3.5, 4.0, 4.5]}
    with pytest.raises(SymbolNotFoundError):
        LiveStore.open(store, "other")


def test_a_recording_saved_again_replaces_the_one_before(tmp_path):
    store = tessel.open(str(tmp_path / "store"))
    store.write("run/mine", {"a": [1]})
    first, second = LiveStore(), LiveStore()
    first.insert(one(1))
    first.insert(Row(id_bytes(1, 2), "b", {"f": 1}, cells=[Cell.from_values("x", [1])]))
    second.insert(one(3))
    first.save(store, "run")
    second.save(store, "run")
    assert store.symbols() == ["run/a", "run/mine"]
    assert len(LiveStore.open(store, "run")) == 1


def test_columns_that_would_have_one_name_are_refused(tmp_path):
    store = tessel.open(str(tmp_path / "store"))
    live = LiveStore()
    cell = Cell.from_values("event_id", [1])
    live.insert(Row(id_bytes(1, 1), "a", {"f": 1}, cells=[cell]))
    with pytest.raises(InvalidInputError, match="cannot have"):
        live.save(store, "run")
    assert store.symbols() == []


def test_a_torn_tail_loses_only_the_last_batch(tmp_path):
    whole = tmp_path / "whole"
    store = LiveStore(journal=whole)
    ends = []
    for number in range(1, 4):
        store.insert(one(number))
        ends.append(whole.stat().st_size)
    content = whole.read_bytes()
    near = {end + by for end in (0, *ends) for by in range(-2, 3)}
    for cut in sorted({*range(0, len(content), 5), *near} & set(range(len(content)))):
        torn = tmp_path / "torn"
        torn.write_bytes(content[:cut])
        expected = sum(end <= cut for end in ends)
        with LiveStore(journal=torn) as again:
            assert len(again) == expected
            again.insert(one(9))
        with LiveStore(journal=torn) as again:
            assert len(again) == expected + 1
    store.close()


def test_damage_before_the_end_is_an_error_and_not_silence(tmp_path):
    path = tmp_path / "journal"
    store = LiveStore(journal=path)
    store.insert(one(1))
    end = path.stat().st_size
    store.insert(one(2))
    store.close()
    content = path.read_bytes()
    for at in range(16, end, 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CorruptStoreError, match="damaged"):
            LiveStore().load(path)


def test_files_of_something_else_are_left_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"something else entirely")
    with pytest.raises(NotAStoreError):
        LiveStore(journal=path)
    assert path.read_bytes() == b"something else entirely"
    path.write_bytes(b"TSLEVT\x09\x00")
    with pytest.raises(FormatVersionError, match="version 9"):
        LiveStore().load(path)


def test_a_journal_has_one_store(tmp_path):
    path = tmp_path / "journal"
    store = LiveStore(journal=path)
    with pytest.raises(StoreBusyError, match="open in another process"):
        LiveStore(journal=path)
    store.close()
    LiveStore(journal=path).close()
    with pytest.raises(InvalidInputError, match="durable"):
        LiveStore(journal=path, durable="maybe")


def test_an_event_that_cannot_be_written_is_not_there(tmp_path, monkeypatch):
    store = LiveStore(journal=tmp_path / "journal")
    store.insert(one(1))

    def full(_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(store._journal, "append", full)
    with pytest.raises(OSError, match="no space left"):
        store.insert(one(2))
    assert len(store) == 1
    monkeypatch.undo()
    store.close()


def test_a_component_named_like_its_timeline_is_refused_and_leaves_the_journal_readable(tmp_path):
    path = tmp_path / "journal"
    cell = Cell.from_values("f", [1.0])
    with LiveStore(journal=path) as store:
        with Recorder(store) as recorder, pytest.raises(InvalidInputError, match="of one name"):
            recorder.log("a", {"frame": 1.0}, frame=1)
        with pytest.raises(InvalidInputError, match="of one name"):
            store.insert(Row(id_bytes(1, 1), "a", {"f": 1}, cells=[cell]))
        store.insert(one(1))
    with LiveStore(journal=path) as store:
        assert len(store) == 1


@pytest.mark.parametrize("name", ["f", "event_id", "num_instances", "cleared"])
def test_components_named_like_columns_of_a_table_are_named_in_the_error(name):
    store = LiveStore()
    store.insert(one(1))
    cell = Cell.from_values(name, [1.0])
    store.insert(Row(id_bytes(1, 2), "a", {"g": 1}, cells=[cell]))
    with pytest.raises(InvalidInputError, match=f"component '{name}' is named like a column"):
        store.range("f", 0, 9, "a")
    assert store.range("f", 0, 9, "a", ["x"]).num_rows == 1
    assert store.latest_at("g", 1, "a")[name].cell.to_list() == [1.0]

"""When events arrived: what is kept of it, in how many bytes, and what answers say."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel
from tessel.errors import CorruptStoreError, InvalidInputError
from tessel.store.events import (
    Cell,
    EventBatch,
    FileSink,
    LiveStore,
    Recorder,
    Row,
    SocketSink,
    id_bytes,
)
from tessel.store.events.event_file import write_events
from tessel.store.events.timeline import Runs, from_text, to_text

TIMES = st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=40).map(
    lambda times: np.array(times, np.int64)
)


def one(number: int, name: str = "x") -> Row:
    return Row(id_bytes(1, number), "a", {"f": number}, cells=[Cell.from_values(name, [1.0])])


def arrivals_of(store: LiveStore) -> list[int]:
    found = store.range("f", -(2**62), 2**62, "a", event_times=True)
    return found.column("ingestion_time").cast(pa.int64()).to_pylist()


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *times: int) -> None:
        self.times = list(times)
        monkeypatch.setattr("tessel.store.events.collection.time", self)

    def time_ns(self) -> int:
        return self.times.pop(0)


# --- as they are held -----------------------------------------------------------------------------


@given(TIMES)
def test_runs_and_codes_hold_every_time(times):
    arrivals = Runs.of(times)
    rows = np.arange(len(times))
    assert arrivals.at(rows).tolist() == times.tolist()
    assert [arrivals.one(row) for row in rows.tolist()] == times.tolist()
    assert from_text(to_text(times), len(times)).tolist() == times.tolist()
    assert (arrivals.codes is None) != (arrivals.starts is None)


@pytest.mark.parametrize(
    ("times", "most"),
    [
        (np.zeros(60_000), 16),  # one batch
        (np.arange(60_000) // 1000, 60 * 16),  # batches of one producer
        (np.arange(60_000) % 2, 60_000 + 16),  # two producers at a time
        (np.random.default_rng(1).integers(0, 600, 60_000), 2 * 60_000 + 600 * 8),
        (np.arange(60_000), 10 * 60_000),  # each row alone
    ],
    ids=["batch", "batches", "two", "many", "alone"],
)
def test_bytes_of_arrivals(times, most):
    assert 0 < Runs.of(times.astype(np.int64)).nbytes <= most


@pytest.mark.parametrize(
    "text",
    ["1", "1@", "@1", "1@2@3", "1.5@2", "0@1 2@5", "-1@1 3@2", "3@1", "2@9999999999999999999", "é"],
)
def test_a_text_that_is_none_is_refused(text):
    with pytest.raises(InvalidInputError, match="times of arrival"):
        from_text(text, 2)


# --- as the store sets them -----------------------------------------------------------------------


def test_events_of_one_batch_arrive_together_and_the_clock_never_goes_back(monkeypatch):
    Clock(monkeypatch, 50, 40, 60)
    store = LiveStore()
    store.insert([one(1), one(2, "y")])
    store.insert(one(3))
    store.insert([one(4), one(1)])
    assert arrivals_of(store) == [50, 50, 50, 60]
    store.compact()
    assert arrivals_of(store) == [50, 50, 50, 60]


def test_an_event_has_both_times():
    before = np.datetime64(time.time_ns(), "ns")
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": 1.0}, f=1)
    found = store.latest_at("f", 1, "a")["x"]
    assert found.ingestion_time is not None
    assert before <= found.log_time <= found.ingestion_time <= np.datetime64(time.time_ns(), "ns")


def test_tables_say_the_times_when_they_are_asked_to():
    store = LiveStore()
    store.insert([one(1), one(2, "log_time")])
    for call in (
        lambda **more: store.latest_at_many("f", [1], "a", "x", **more),
        lambda **more: store.range("f", 1, 1, "a", ["x"], **more),
        lambda **more: store.table("f", "a", ["x"], **more),
    ):
        short, full = call(), call(event_times=True)
        added = [name for name in full.column_names if name not in short.column_names]
        assert [name.removeprefix("x.") for name in added] == ["log_time", "ingestion_time"]
        assert full.select(short.column_names) == short
        assert {full.schema.field(name).type for name in added} == {pa.timestamp("ns", "UTC")}
    assert store.range("f", 2, 2, "a", ["log_time"]).num_rows == 1
    with pytest.raises(InvalidInputError, match="'log_time' is named like a column"):
        store.range("f", 2, 2, "a", ["log_time"], event_times=True)
    with pytest.raises(InvalidInputError, match="'log_time' is named like a column"):
        store.latest_at_many("f", [2], "a", "log_time", event_times=True)
    cell = Cell.from_values("x", [1.0])
    store.insert(Row(id_bytes(1, 3), "a", {"log_time": 1}, cells=[cell]))
    assert store.range("log_time", 1, 1, "a", ["x"]).num_rows == 1
    with pytest.raises(InvalidInputError, match="timeline 'log_time' is named like a column"):
        store.range("log_time", 1, 1, "a", ["x"], event_times=True)


# --- as they are kept -----------------------------------------------------------------------------


def kept(path: Path, store: LiveStore, way: str) -> LiveStore:
    if way == "recording":
        repository = tessel.open(str(path))
        store.save(repository, "run")
        return LiveStore.open(repository, "run")
    store.dump(path)
    if way == "journal":
        return LiveStore(journal=path)
    found = LiveStore()
    found.load(path)
    return found


@pytest.mark.parametrize("way", ["dump", "journal", "recording"])
def test_what_a_store_keeps_has_arrived_when_it_did(way, tmp_path, monkeypatch):
    Clock(monkeypatch, 100, 200, 300, 50, 250)
    store = LiveStore()
    for number in range(1, 4):
        store.insert([one(10 + number), one(number), one(20 + number, "y")])
    expected = [100, 200, 300] * 3
    assert arrivals_of(store) == expected
    again = kept(tmp_path / "kept", store, way)
    assert arrivals_of(again) == expected
    assert again.insert([one(1), one(2)]) == 0, (
        "an event that comes twice arrived when it first did"
    )
    again.close()
    monkeypatch.undo()
    assert arrivals_of(again) == expected


def test_a_journal_keeps_them_through_collections(tmp_path, monkeypatch):
    Clock(monkeypatch, *range(1, 8))
    path = tmp_path / "journal"
    with LiveStore(journal=path) as store:
        for number in range(1, 5):
            store.insert([one(number), one(10 + number)])
        store.drop_range("f", 2, 11)
        expected = arrivals_of(store)
        assert expected == [2, 3, 4, 5]  # the journal itself came first
    with LiveStore(journal=path) as store:
        assert arrivals_of(store) == expected


def test_what_is_sent_arrives_anew(tmp_path, monkeypatch):
    """By insert, over a socket, and from a file that no store wrote."""
    first = LiveStore()
    first.insert(one(1))
    (old,) = arrivals_of(first)
    second, third, fourth = LiveStore(), LiveStore(), LiveStore()
    second.insert(first.batches())
    with third.serve() as server, SocketSink(server.address) as sink:
        sink.insert(first.batches())
    path = tmp_path / "events"
    with FileSink(path) as file_sink:
        file_sink.insert([EventBatch.from_arrow(first.batches()[0].to_arrow())])
    fourth.load(path)
    for store in (second, third, fourth):
        assert arrivals_of(store)[0] > old


def test_who_sends_events_does_not_say_when_they_arrive():
    store = LiveStore()
    store.insert(one(1))
    arrow = store.batches()[0].to_arrow(arrivals=True)
    assert arrow.schema.metadata[b"tessel.ingestion_time"] == b"1@%d" % arrivals_of(store)[0]
    forged = arrow.replace_schema_metadata(
        {**arrow.schema.metadata, b"tessel.ingestion_time": b"1@5"}
    )
    other = LiveStore()
    other.insert(EventBatch.from_arrow(forged))
    assert arrivals_of(other)[0] > 5


def test_times_of_other_rows_are_damage(tmp_path):
    store = LiveStore()
    store.insert([one(1), one(2)])
    (batch,) = store.batches()
    whole = batch.to_arrow

    def spoiled(*, arrivals: bool = False) -> pa.RecordBatch:
        found = whole()
        metadata = {**found.schema.metadata, b"tessel.ingestion_time": b"3@5"}
        return found.replace_schema_metadata(metadata)

    path = tmp_path / "events"
    object.__setattr__(batch, "to_arrow", spoiled)
    write_events(path, [batch])
    with pytest.raises(CorruptStoreError, match="other rows than 2"):
        LiveStore().load(path)


def test_a_recording_has_them_as_a_column_and_refuses_another_of_the_name(tmp_path):
    repository = tessel.open(str(tmp_path))
    store = LiveStore()
    store.insert([one(1), one(2)])
    store.save(repository, "run")
    column = repository.read("run/a").to_arrow().column("ingestion_time")
    assert column.cast(pa.int64()).to_pylist() == arrivals_of(store)
    store.insert(one(3, "ingestion_time"))
    with pytest.raises(InvalidInputError, match="ingestion_time"):
        store.save(repository, "run")


# --- memory ---------------------------------------------------------------------------------------


def test_a_scalar_event_takes_at_most_26_bytes():
    store = LiveStore()
    with Recorder(store, max_delay_seconds=1000, max_rows=1000) as recorder:
        for at in range(20_000):
            recorder.log("a", {"x": 0.5}, f=at)
    store.compact()
    assert store.nbytes / len(store) <= 26

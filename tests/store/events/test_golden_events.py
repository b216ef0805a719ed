"""What earlier releases wrote of events is read as it was."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tessel
from tessel.store.events import LiveStore, Table, wire
from tests.store.events.golden import making

DIGESTS = {
    "1": "3108dfecde3849959f98d9ca4a2c8194031fa12659704f9ef14cb7fa4abe89e7",
    "1-arrivals": "c8da3c4b1888abe989d57f263791c5b7b77269e1f791c21da54f703f0c065ccd",
}


@pytest.fixture(params=DIGESTS)
def golden(request, tmp_path) -> Path:
    path = making.FOLDER / f"{request.param}.tar.xz"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[request.param]
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def from_file(folder: Path) -> LiveStore:
    store = LiveStore()
    store.load(folder / making.EVENTS)
    return store


def from_journal(folder: Path) -> LiveStore:
    return LiveStore(journal=folder / making.EVENTS)


def from_requests(folder: Path) -> LiveStore:
    data = (folder / making.REQUESTS).read_bytes()
    decoder, store, at = wire.Decoder(making.REQUEST_BYTES), LiveStore(), 0
    while at < len(data):
        stored, plain, checksum, _ = wire.REQUEST.unpack_from(data, at)
        at += wire.REQUEST.size
        store.insert(decoder.batches(data[at : at + stored], plain, checksum))
        at += stored
    return store


def from_recording(folder: Path) -> LiveStore:
    return LiveStore.open(tessel.open(str(folder / making.STORE)), "run")


def answers(store: LiveStore) -> dict[object, object]:
    found: dict[object, object] = {}
    for timeline in store.timelines():
        for entity in store.entities():
            found[timeline, entity] = store.range(timeline, -(2**62), 2**62, entity)
            for time in range(8):
                state = store.latest_at(timeline, time, entity)
                found[timeline, entity, time] = {
                    name: (each.event_id, each.time, each.cell, each.num_instances)
                    for name, each in state.items()
                }
    return found


@pytest.mark.parametrize("way", [from_file, from_journal, from_requests, from_recording])
def test_events_of_earlier_releases_are_what_they_were(golden, way):
    expected = LiveStore()
    expected.insert(Table.from_rows(making.rows()))
    store = way(golden)
    store.check()
    assert len(store) == len(making.rows())
    assert answers(store) == answers(expected)
    store.close()


def arrivals(store: LiveStore) -> set[object]:
    found = store.range("frame", 0, 9, "robot/arm", event_times=True)
    return set(found.column("ingestion_time").to_pylist())


def test_what_has_arrived_before_stays_so_and_what_has_not_arrives_now(golden, request):
    """All events of a golden store were inserted in one call."""
    before = np.datetime64("now") - np.timedelta64(1, "s")
    kept = [arrivals(way(golden)) for way in (from_file, from_recording)]
    assert [len(each) for each in kept] == [1, 1]
    is_new = [np.datetime64(each.pop().replace(tzinfo=None)) >= before for each in map(set, kept)]
    has_times = request.node.callspec.params["golden"] == "1-arrivals"
    assert is_new == [not has_times] * 2
    assert not has_times or kept[0] == kept[1]

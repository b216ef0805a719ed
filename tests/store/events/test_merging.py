"""Merged events: the same answers as without, by the list of all events as they were logged."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError
from tessel.store.events import EventBatch, LiveStore, Recorder, id_bytes
from tests.store.events.model import Event, Model

ENTITIES = ["a", "a/b", "z"]
MOST_TIME = 3


class Numbered:
    """Ids that two recorders make alike."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> tuple[int, int]:
        self.count += 1
        return 1, self.count


class Logged:
    """A recorder that merges, one that does not, and the model, all told the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = Model()
        self.plain, self.merged = LiveStore(), LiveStore()
        self.recorders = [
            Recorder(self.plain, max_delay_seconds=1000),
            Recorder(self.merged, max_delay_seconds=1000, merge_same_time=True),
        ]
        for recorder in self.recorders:
            recorder._ids = Numbered()  # type: ignore[assignment]

    def log(self) -> None:
        pick = self.random
        times = self.times()
        names = pick.sample("xyz", pick.choice([1, 1, 1, 2]))
        count = pick.choice([1, 1, 1, 2])
        cells = {
            name: [pick.random() for _ in range(pick.choice([0, 1, count, count]))]
            for name in names
        }
        entity = pick.choice(ENTITIES)
        for recorder in self.recorders:
            values = {name: self.given(name, values) for name, values in cells.items()}
            recorder.log(entity, values, **times, timeless=not times)
        event_id = id_bytes(1, self.recorders[0]._ids.count)  # type: ignore[attr-defined]
        held = max(map(len, cells.values()))
        self.model.add(Event(event_id, entity, times, held, {**cells}))

    def given(self, name: str, values: list[float]) -> object:
        return values[0] if len(values) == 1 else pa.array(values, pa.float64())

    def times(self) -> dict[str, int]:
        names = self.random.choice(
            [["frame"], ["frame"], ["frame", "tick"], ["tick", "frame"], ["tick"], []]
        )
        return {name: self.random.randint(0, MOST_TIME) for name in names}

    def clear(self) -> None:
        entity, recursive = self.random.choice(["a", *ENTITIES]), self.random.random() < 0.7
        times = self.times()
        for recorder in self.recorders:
            recorder.clear(entity, recursive=recursive, **times)
        event_id = id_bytes(1, self.recorders[0]._ids.count)  # type: ignore[attr-defined]
        mark = "recursive" if recursive else "flat"
        self.model.add(Event(event_id, entity, times, 1, {}, mark))

    def flush(self) -> None:
        for recorder in self.recorders:
            recorder.flush()

    def compare(self) -> None:
        assert len(self.plain) == len(self.model.events)
        self.merged.check()
        for timeline in self.merged.timelines():
            for entity in self.merged.entities():
                names = self.merged.components(entity)
                self.compare_states(timeline, entity, names)
                self.compare_range(timeline, entity, names)
                for fill in (None, "latest_at"):
                    mine = self.merged.table(timeline, entity, fill=fill, origins=True)
                    assert mine == self.plain.table(timeline, entity, fill=fill, origins=True)

    def compare_states(self, timeline: str, entity: str, names: list[str]) -> None:
        for time in range(-1, MOST_TIME + 1):
            found = self.merged.latest_at(timeline, time, entity)
            for name in names:
                expected = self.model.latest_at(timeline, time, entity, name)
                got = found.get(name)
                assert (got is None) == (expected is None)
                if got is not None and expected is not None:
                    shown = got.time, got.cell.to_list(), got.num_instances
                    assert shown == expected[1:]
                    kept, was = (self.model.events[e] for e in (got.event_id, expected[0]))
                    assert got.event_id >= expected[0]
                    assert (kept.entity, kept.times, kept.mark) == (was.entity, was.times, None)

    def compare_range(self, timeline: str, entity: str, names: list[str]) -> None:
        """Each component has the same values at the same times, with the clears between."""
        for name in names:
            table = self.merged.range(timeline, 0, MOST_TIME, entity, [name])
            columns = (table.column(column) for column in (timeline, "cleared", name))
            got = list(zip(*(column.to_pylist() for column in columns), strict=True))
            expected = [
                (time, cleared, cells.get(name))
                for time, _, cleared, cells in self.model.range(
                    timeline, 0, MOST_TIME, entity, [name]
                )
            ]
            assert got == expected


def run(seed: int, steps: int) -> int:
    """Run a history; return how many events fewer there are merged."""
    logged = Logged(seed)
    for _ in range(steps):
        for _ in range(logged.random.choice([1, 5, 20])):
            (logged.clear if logged.random.random() < 0.08 else logged.log)()
        logged.flush()
    logged.compare()
    return len(logged.plain) - len(logged.merged)


@pytest.mark.parametrize("seed", range(60))
def test_merged_events_answer_as_those_they_are_of(seed):
    run(seed, 4)


def test_random_histories_have_something_to_merge():
    assert sum(run(seed, 4) > 0 for seed in range(10)) > 5


@pytest.mark.slow
def test_thousands_of_histories_of_merged_events():
    for seed in range(100, 2000):
        run(seed, 4)


def logged(*events: tuple[dict[str, object], dict[str, int]]) -> LiveStore:
    store = LiveStore()
    with Recorder(store, max_delay_seconds=1000, merge_same_time=True) as recorder:
        recorder._ids = Numbered()  # type: ignore[assignment]
        for components, times in events:
            if components:
                recorder.log("a", components, **times)
            else:
                recorder.clear("a", **times)
    return store


def test_components_logged_one_by_one_are_one_event_with_the_greatest_id():
    store = logged(
        *(({name: 1.0}, {"f": at}) for at in range(100) for name in "xyz"),
    )
    assert len(store) == 100
    table = store.range("f", 7, 7, "a")
    assert table.to_pylist() == [
        {"f": 7, "event_id": id_bytes(1, 24), "num_instances": 1, "cleared": False}
        | {name: [1.0] for name in "xyz"}
    ]


def test_one_shape_after_another_is_merged_too():
    assert len(logged(*(({name: 1.0}, {"f": at}) for name in "xyz" for at in range(100)))) == 100


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([({"x": 1.0}, {"f": 1}), ({"x": 2.0}, {"f": 1})], 2),
        ([({"x": 1.0}, {"f": 1}), ({"y": 2.0}, {"f": 2})], 2),
        ([({"x": 1.0}, {"f": 1}), ({"y": 2.0}, {"f": 1, "g": 1})], 2),
        ([({"x": 1.0}, {"f": 1, "g": 1}), ({"y": 2.0}, {"g": 1, "f": 1})], 1),
        ([({"x": 1.0}, {"f": 1}), ({}, {"f": 1}), ({"y": 2.0}, {"f": 1})], 3),
        ([({"x": 1.0}, {"f": 1}), ({"y": [1.0, 2.0]}, {"f": 1})], 2),
        ([({"x": [1.0, 2.0]}, {"f": 1}), ({"y": [1.0, 2.0]}, {"f": 1})], 1),
        # x at f=1 with the id between must stay before the last one
        (
            [
                ({"x": 1.0}, {"f": 1, "g": 1}),
                ({"x": 2.0}, {"f": 1}),
                ({"y": 3.0}, {"f": 1, "g": 1}),
            ],
            3,
        ),
        ([({"x": 1.0}, {"f": 1}), ({"x": 2.0}, {"f": 1}), ({"y": 3.0}, {"f": 1})], 2),
    ],
)
def test_only_what_changes_no_answer_is_merged(events, count):
    assert len(logged(*events)) == count


@pytest.mark.parametrize("above", ["a", "a/b"])
def test_nothing_is_merged_past_a_clear_of_an_entity_above(above):
    store = LiveStore()
    with Recorder(store, max_delay_seconds=1000, merge_same_time=True) as recorder:
        recorder.log("a/b/c", {"x": 1.0}, frame=1)
        recorder.clear(above, recursive=True, frame=1)
        recorder.log("a/b/c", {"y": 1.0}, frame=1)
    assert store.latest_at("frame", 1, "a/b/c").keys() == {"y"}


def test_events_are_as_they_were_logged_by_default():
    store = LiveStore()
    with Recorder(store, max_delay_seconds=1000) as recorder:
        for name in "xy":
            recorder.log("a", {name: 1.0}, frame=1)
    assert len(store) == 2


def test_of_merged_events_only_those_that_the_store_refuses_are_dropped():
    store = LiveStore()
    with Recorder(store) as other:
        other.log("a", {"y": "text"}, frame=1)
    with Recorder(store, max_delay_seconds=1000, merge_same_time=True) as recorder:
        for name in "xyz":
            recorder.log("a", {name: 1.0}, frame=1)
        with pytest.raises(InvalidInputError, match="'y' of 'a' is string"):
            recorder.flush()
    found = store.latest_at("frame", 1, "a")
    assert {name: each.cell.to_list() for name, each in found.items()} == {
        "x": [1.0],
        "y": ["text"],
        "z": [1.0],
    }


def test_events_that_wait_after_an_error_are_handed_on_as_they_were_merged():
    """A sink whose answer was lost may have them: with another id they would be there twice."""

    class Forgetful:
        def __init__(self) -> None:
            self.store, self.full = LiveStore(), True

        def insert(self, events: list[EventBatch]) -> int:
            new = self.store.insert(events)
            if self.full:
                raise OSError("no answer")
            return new

    sink = Forgetful()
    with Recorder(sink, max_delay_seconds=1000, merge_same_time=True) as recorder:
        for name in "xyz":
            recorder.log("a", {name: 1.0}, frame=1)
            if name != "x":
                with pytest.raises(OSError, match="no answer"):
                    recorder.flush()
        sink.full = False
    assert len(sink.store) == 2
    sink.store.check()

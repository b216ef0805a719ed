"""Random histories of a live store, each step beside the model, and the comparison of both."""

from __future__ import annotations

import random
from time import time_ns

import numpy as np
import pyarrow as pa

from tessel.store import Repository
from tessel.store.events import Cell, EventBatch, LiveStore, Row, Table, id_bytes, id_parts
from tests.store.events.model import Event, Model

ENTITIES = ["a", "a/b", "a/b/c", "ab", "z"]
COMPONENTS = {"x": pa.float64(), "n": pa.int64(), "s": pa.string()}
TIMELINES = ["frame", "tick"]
MOST_TIME = 12


class History:
    """A store and its model, and the ways to change both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = LiveStore()
        self.model = Model()
        self.arrivals: dict[bytes, int] = {}
        self.lists: set[tuple[str, str]] = set()
        self.counter = 0
        self.compared = 0

    def step(self) -> str:
        """Do something; return what."""
        actions = ["log"] * 10 + ["clear"] * 2 + ["repeat", "compact", "reopen", "drop", "collect"]
        action = self.random.choice(actions)
        getattr(self, action)()
        return action

    # --- events -----------------------------------------------------------------------------------

    def event(self) -> Event:
        pick = self.random
        self.counter += pick.randint(1, 3)
        # Ids of several producers come out of order now and then.
        time_ns = 1000 + self.counter // 4 - (pick.randint(0, 20) if pick.random() < 0.2 else 0)
        event_id = id_bytes(time_ns, self.counter)
        times = {} if pick.random() < 0.1 else self.times()
        count = pick.choice([1, 1, 1, 2, 3])
        names = pick.sample(sorted(COMPONENTS), pick.choice([1, 1, 2, 3]))
        cells = {name: self.values(name, pick.choice([0, 1, count, count])) for name in names}
        return Event(event_id, pick.choice(ENTITIES), times, count, cells)

    def times(self) -> dict[str, int]:
        names = self.random.sample(TIMELINES, self.random.choice([1, 1, 2]))
        return {name: self.random.randint(0, MOST_TIME) for name in names}

    def values(self, name: str, count: int) -> list[object]:
        pick = self.random
        make = {
            "x": lambda: pick.choice([None, 0.5, -1.0, pick.random()]),
            "n": lambda: pick.randint(-3, 3),
            "s": lambda: pick.choice(["", "a", "ä", None]),
        }[name]
        return [make() for _ in range(count)]

    @staticmethod
    def row(event: Event) -> Row:
        if event.mark is not None:
            recursive = event.mark == "recursive"
            return Row.clear(event.event_id, event.entity, event.times, recursive=recursive)
        cells = [Cell.from_values(n, v, COMPONENTS[n]) for n, v in event.cells.items()]
        return Row(event.event_id, event.entity, event.times, event.count, cells)

    # --- steps ------------------------------------------------------------------------------------

    def log(self) -> None:
        events = [self.event() for _ in range(self.random.choice([1, 1, 4, 20]))]
        since = time_ns()
        assert self.store.insert(Table.from_rows(map(self.row, events))) == len(events)
        for event in events:
            self.model.add(event)
        self.lists |= self.model.lists()
        self.note_arrivals(since)

    def clear(self) -> None:
        event = self.event()
        event.cells, event.count = {}, 1
        event.mark = self.random.choice(["flat", "recursive"])
        since = time_ns()
        self.store.insert(self.row(event))
        self.model.add(event)
        self.note_arrivals(since)

    def repeat(self) -> None:
        if self.model.events:
            known = self.random.choices(list(self.model.events.values()), k=3)
            assert self.store.insert([self.row(event) for event in known]) == 0

    def compact(self) -> None:
        self.store.compact()

    def reopen(self) -> None:
        """Send everything as bytes to another store, in another order: it arrives there anew."""
        since = time_ns()
        batches = self.store.batches()
        self.random.shuffle(batches)
        other = LiveStore()
        for batch in batches:
            arrow = batch.to_arrow()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, arrow.schema) as writer:
                writer.write_batch(arrow)
            (again,) = pa.ipc.open_stream(sink.getvalue())
            other.insert(EventBatch.from_arrow(again))
        assert len(other) == len(self.store)
        self.lists = self.model.lists()  # what was let go is not sent
        self.move_to(other, since)

    def drop(self) -> None:
        timeline = self.random.choice(TIMELINES)
        if timeline not in self.store.timelines():
            return
        first = self.random.randint(0, MOST_TIME)
        last = self.random.choice([first, first + 2, 2**62])
        gone = [
            event_id
            for event_id, event in self.model.events.items()
            if first <= event.times.get(timeline, -1) <= last
        ]
        if last == 2**62:
            assert self.store.drop_after(timeline, first - 1) == len(gone)
        else:
            assert self.store.drop_range(timeline, first, last) == len(gone)
        for event_id in gone:
            del self.model.events[event_id]

    def collect(self) -> None:
        """Collect; every state from the horizon on is compared with the model before."""
        before = len(self.store)
        temporal = [e.event_id for e in self.model.events.values() if e.times]
        if self.random.random() < 0.5 or not temporal:
            done = self.store.collect(fraction=self.random.random())
        else:
            done = self.store.collect(before=self.random.choice(temporal))
        assert before - len(self.store) == done.events
        assert done.bytes_after == self.store.nbytes
        for timeline in self.store.timelines():
            horizon = done.horizons.get(timeline, -(2**62))
            self.compare_states(timeline, [t for t in range(-1, MOST_TIME + 2) if t >= horizon])
        held = self.held_arrivals().keys()
        assert held <= set(self.model.events)
        timeless = {e for e, event in self.model.events.items() if not event.times}
        assert held & timeless == self.model.timeless_states()
        self.model.events = {k: v for k, v in self.model.events.items() if k in held}

    # --- arrivals ---------------------------------------------------------------------------------

    def held_arrivals(self) -> dict[bytes, int]:
        """Return when each event that is held arrived."""
        found = {}
        for batch in self.store.batches():
            rows = np.arange(len(batch))
            ids, arrived = batch.chunk.ids(rows).tolist(), batch.chunk.arrived_at(rows).tolist()
            found.update(zip((id_bytes(*pair) for pair in ids), arrived, strict=True))
        return found

    def move_to(self, store: LiveStore, since: int = 0) -> None:
        """Go on with another store, to which all events were sent."""
        self.store, self.arrivals = store, {}
        self.note_arrivals(since)

    def note_arrivals(self, since: int) -> None:
        """Note when the events that are new came: all of them together, since then and by now."""
        held = self.held_arrivals()
        new = {held[event_id] for event_id in held.keys() - self.arrivals.keys()}
        assert all(since <= arrived <= time_ns() for arrived in new)
        self.arrivals.update({e: arrived for e, arrived in held.items() if e not in self.arrivals})

    def compare_arrivals(self) -> None:
        held = self.held_arrivals()
        assert held == {event_id: self.arrivals[event_id] for event_id in self.model.events}

    def compare_columns(self, repository: Repository, name: str) -> None:
        """A saved component is a column of values, unless an event ever had several of them."""
        for entity in self.model.entities():
            columns = repository.view(f"{name}/{entity}").schema
            for component in self.model.components(entity):
                kind = COMPONENTS[component]
                is_list = (entity, component) in self.lists
                held = columns.type_of(component)
                assert held == (pa.list_(kind) if is_list else kind), (entity, component)

    # --- comparison -------------------------------------------------------------------------------

    def compare_states(self, timeline: str, times: list[int]) -> None:
        for entity in self.store.entities():
            for time in times:
                found = self.store.latest_at(timeline, time, entity)
                for component in self.store.components(entity):
                    expected = self.model.latest_at(timeline, time, entity, component)
                    got = found.get(component)
                    shown = None if got is None else (
                        got.event_id, got.time, got.cell.to_list(), got.num_instances,
                    )  # fmt: skip
                    assert shown == expected, (timeline, time, entity, component)
                    self.compared += got is not None
                    if got is not None:
                        arrived = np.datetime64(self.arrivals[got.event_id], "ns")
                        assert got.ingestion_time == arrived

    def compare_many(self, timeline: str) -> None:
        """The states at many times, in any order and some twice, in one call."""
        times = [self.random.randint(-2, MOST_TIME + 2) for _ in range(8)]
        for entity in self.store.entities():
            names = self.store.components(entity)
            for component in self.random.sample(names, min(1, len(names))):
                table = self.store.latest_at_many(
                    timeline, times, entity, component, event_times=True
                )
                self.compare_event_times(table, table.column("event_id").to_pylist())
                table = table.drop_columns(["log_time", "ingestion_time"])
                columns = [column.to_pylist() for column in table.columns]
                assert columns[0] == times
                for time, values, at, event_id, count in zip(*columns, strict=True):
                    expected = self.model.latest_at(timeline, time, entity, component)
                    got = None if event_id is None else (event_id, at, values, count)
                    assert got == expected, (timeline, time, entity, component)
                    assert event_id is not None or (values, at, count) == (None, None, None)

    def compare_event_times(
        self, table: pa.Table, event_ids: list[bytes | None], prefix: str = ""
    ) -> None:
        """When the events of rows were logged and when they arrived; null where there is none."""
        logged, arrived = (
            table.column(f"{prefix}{name}").cast(pa.int64()).to_pylist()
            for name in ("log_time", "ingestion_time")
        )
        assert logged == [None if each is None else id_parts(each)[0] for each in event_ids]
        assert arrived == [None if each is None else self.arrivals[each] for each in event_ids]

    def compare(self) -> None:
        """Compare every answer."""
        self.store.check()
        self.compare_arrivals()
        assert len(self.store) == len(self.model.events)
        self.compare_states("nobody", [0])  # timeless data hold there, too
        for timeline in self.store.timelines():
            self.compare_states(timeline, list(range(-1, MOST_TIME + 2)))
            self.compare_many(timeline)
            for entity in self.store.entities():
                names = self.store.components(entity)
                self.compare_range(timeline, entity, names)
                self.compare_tables(timeline, entity, names)

    def compare_range(self, timeline: str, entity: str, names: list[str]) -> None:
        first = self.random.randint(-1, MOST_TIME)
        last = self.random.randint(first, MOST_TIME + 1)
        chosen = self.random.sample(names, self.random.randint(0, len(names)))
        start = self.random.random() < 0.5
        table = self.store.range(
            timeline, first, last, entity, chosen,
            include_latest_at_start=start, event_times=True,
        )  # fmt: skip
        self.compare_event_times(table, table.column("event_id").to_pylist())
        table = table.drop_columns(["log_time", "ingestion_time"])
        if start:
            table = self.after_state(table, timeline, first - 1, entity, chosen)
        columns = table.column(timeline).cast(pa.int64()), *table.columns[1:]
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        got = [
            (
                time,
                event_id,
                cleared,
                {n: v for n, v in zip(chosen, cells, strict=True) if v is not None},
            )
            for time, event_id, _, cleared, *cells in rows
        ]
        assert got == self.model.range(timeline, first, last, entity, chosen)

    def after_state(
        self, table: pa.Table, timeline: str, time: int, entity: str, names: list[str]
    ) -> pa.Table:
        """Compare the rows of a range that are the state before it; return those after them."""
        state = {n: self.model.latest_at(timeline, time, entity, n) for n in names}
        expected: dict[tuple[int, bytes], dict[str, object]] = {}
        for name, found in state.items():
            if found is not None and found[1] is not None:
                expected.setdefault((found[1], found[0]), {})[name] = found[2]
        for row, ((at, event_id), cells) in zip(
            table.slice(0, len(expected)).to_pylist(), sorted(expected.items()), strict=True
        ):
            assert (row[timeline], row["event_id"], row["cleared"]) == (at, event_id, False)
            assert {n: row[n] for n in names if row[n] is not None} == cells
        return table.slice(len(expected))

    def compare_tables(self, timeline: str, entity: str, names: list[str]) -> None:
        for fill in (False, True):
            at = None
            if self.random.random() < 0.5:
                at = [self.random.randint(-1, MOST_TIME + 1) for _ in range(5)]
            table = self.store.table(
                timeline, entity, names, at=at, fill="latest_at" if fill else None, event_times=True
            )
            self.compare_table_times(table, timeline, entity, names, fill=fill)
            times = table.column(timeline).cast(pa.int64()).to_pylist()
            cells = table.select(names).to_pylist()
            expected = self.model.table(timeline, at, entity, names, fill=fill)
            assert list(zip(times, cells, strict=True)) == expected

    def compare_table_times(
        self, table: pa.Table, timeline: str, entity: str, names: list[str], *, fill: bool
    ) -> None:
        """Each cell of a table says when its event was logged and arrived."""
        for name in names:
            event_ids = []
            cells = zip(table.column(timeline).to_pylist(), table.column(name), strict=True)
            for time_, cell in cells:
                model = self.model if fill else self.model.temporal()
                found = model.latest_at(timeline, time_, entity, name) if cell.is_valid else None
                event_ids.append(None if found is None else found[0])
            self.compare_event_times(table, event_ids, f"{name}.")

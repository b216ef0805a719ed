"""Four writers and two readers for a minute: nothing is lost, and nobody sees half an event."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tessel
from tessel.store.events import LiveStore, Recorder

_SECONDS = 60.0
_WRITERS, _READERS = 4, 2
_TIMES = 5_000
_BURST = 100


class Traffic:
    """Writers that say the same in two components of an event, and readers that compare them."""

    def __init__(self, store: LiveStore) -> None:
        self.store = store
        self.end = time.monotonic() + _SECONDS
        self.before = {name: len(self.rows(name)) for name in store.entities()}
        self.logged = [0] * _WRITERS
        self.read = [0] * _READERS
        self.wrong: list[object] = []

    def rows(self, entity: str) -> pa.Table:
        return self.store.range("frame", 0, _TIMES, entity)

    def write(self, number: int) -> None:
        pick = random.Random(number)
        with Recorder(self.store, max_rows=64, max_delay_seconds=0.005) as recorder:
            while time.monotonic() < self.end:
                for _ in range(_BURST):
                    at = self.logged[number]
                    for entity in (f"w{number}", "all"):
                        values = {"x": float(at), "y": [float(at)] * (1 + at % 2)}
                        recorder.log(entity, values, frame=pick.randrange(_TIMES))
                    self.logged[number] += 1
                if number == 0 and pick.random() < 0.05:
                    self.store.compact()
                time.sleep(0.05)

    def look(self, number: int) -> None:
        pick = random.Random(100 + number)
        seen: dict[str, int] = {}
        while time.monotonic() < self.end and not self.wrong:
            for entity in self.store.entities():
                state = self.store.latest_at("frame", pick.randrange(_TIMES), entity)
                if len({each.cell.to_list()[0] for each in state.values()}) > 1:
                    self.wrong.append(state)
                if len({each.event_id for each in state.values()}) > 1:
                    self.wrong.append(state)
                self.compare_many(entity, pick)
                first = pick.randrange(_TIMES)
                self.compare_rows(self.store.range("frame", first, first + 50, entity))
                count = len(self.rows(entity)) if pick.random() < 0.02 else seen.get(entity, 0)
                if count < seen.get(entity, 0):
                    self.wrong.append((entity, count, seen[entity]))
                seen[entity] = count
                self.read[number] += 1

    def compare_many(self, entity: str, pick: random.Random) -> None:
        times = np.array(sorted(pick.sample(range(_TIMES), 20)))
        found = self.store.latest_at_many("frame", times, entity, "x")
        at = found.column("x.frame").to_pylist()
        if any(each is not None and each > asked for each, asked in zip(at, times, strict=True)):
            self.wrong.append(found)

    def compare_rows(self, found: pa.Table) -> None:
        keys = list(zip(*(found.column(n).to_pylist() for n in ("frame", "event_id")), strict=True))
        pairs = zip(found.column("x").to_pylist(), found.column("y").to_pylist(), strict=True)
        if keys != sorted(keys) or any(x[0] != y[0] for x, y in pairs):
            self.wrong.append(found)

    def run(self) -> None:
        def guarded(work: object, number: int) -> None:
            try:
                work(number)  # type: ignore[operator]
            except BaseException as error:
                self.wrong.append(error)

        works = [(self.write, n) for n in range(_WRITERS)] + [
            (self.look, n) for n in range(_READERS)
        ]
        threads = [threading.Thread(target=guarded, args=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.wrong
        assert min(self.read) > 0
        self.store.check()
        for number, count in enumerate(self.logged):
            self.verify(f"w{number}", [count])
        self.verify("all", self.logged)
        print(f"{sum(self.logged) * 2} events logged, {self.read} times questions about an entity")

    def verify(self, entity: str, counts: list[int]) -> None:
        found = self.rows(entity).column("x").combine_chunks().flatten().to_numpy()
        expected = [float(at) for count in counts for at in range(count)]
        assert len(found) == len(expected) + self.before.get(entity, 0)
        kept = np.sort(found[found >= 0])  # those of a recording are below
        assert np.array_equal(kept, np.sort(np.array(expected)))


def opened(folder: Path) -> LiveStore:
    """Return a recording with events of the same entities, of which little is kept in memory."""
    recorded = LiveStore()
    with Recorder(recorded) as recorder:
        for at in range(20_000):
            values = {"x": -1.0 - at, "y": [-1.0 - at]}
            recorder.log(["w0", "all"][at % 2], values, frame=at % _TIMES)
    repository = tessel.open(str(folder / "store"))
    recorded.save(repository, "run")
    return LiveStore.open(repository, "run", cell_budget_bytes=100_000)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "journal", "recording"])
def test_four_writers_and_two_readers_for_a_minute(kind, tmp_path):
    path = tmp_path / "journal"
    make = {
        "memory": LiveStore,
        "journal": lambda: LiveStore(journal=path),
        "recording": lambda: opened(tmp_path),
    }[kind]
    with make() as store:
        Traffic(store).run()
        count = len(store)
    if kind == "journal":
        with LiveStore(journal=path) as again:
            assert len(again) == count
            again.check()

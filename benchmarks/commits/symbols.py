"""One small symbol made, written or appended to, in a store of ever more of them."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

from benchmarks.commits.measure import fsync_time
from benchmarks.commits.small import check
from benchmarks.commits.stores import CommitStore, StoreKind
from benchmarks.commits.stores.base import rows
from tessel.display import Table

CHANGE_MS, CHANGE_KB, WORST_MS, APART = 6, 30, 100, 1.3
_AT_ONCE = 10_000
_ACTS = ("create", "write", "append")


def measure(kind: StoreKind, folder: Path, symbols: int, repeat: int) -> list[tuple[object, ...]]:
    """Make symbols of one row, then change one at a time, so often in each of three ways."""
    store = kind.open(folder / f"symbols-{kind.name}{symbols}", create=True)
    names = [f"s{number:07}" for number in range(symbols)]
    started = time.process_time()
    for start in range(0, symbols, _AT_ONCE):
        store.commit(dict.fromkeys(names[start : start + _AT_ONCE], rows(0, 1)), new=True)
    made = time.process_time() - started
    chance = random.Random(symbols)
    return [(*_changes(kind, store, act, names, repeat, chance), round(made, 1)) for act in _ACTS]


def _changes(
    kind: StoreKind,
    store: CommitStore,
    act: str,
    names: list[str],
    repeat: int,
    chance: random.Random,
) -> tuple[object, ...]:
    beyond, processor = [], []
    _, before = store.written()
    later = _ACTS.index(act) * repeat
    for number in range(later + 1, later + repeat + 1):
        name = f"n{chance.random()}" if act == "create" else chance.choice(names)
        with fsync_time() as synced:
            start, used = time.perf_counter(), time.process_time()
            store.commit({name: rows(number, 1)}, new=act != "append")
            used, took = time.process_time() - used, time.perf_counter() - start
            processor.append((used - synced.processor) * 1e3)
            beyond.append((took - synced.seconds) * 1e3)
    _, after = store.written()
    found = store.read(name)
    check(kind, name, found.slice(found.num_rows - 1), rows(later + repeat, 1))
    return (
        kind.name,
        len(names),
        act,
        round(statistics.median(processor), 2),
        round(statistics.median(beyond), 2),
        round(max(processor), 1),
        round(max(beyond), 1),
        round((after - before) / repeat),
    )


def table(lines: list[tuple[object, ...]], notes: list[str]) -> Table:
    """Return the lines of all stores."""
    columns = (
        "store",
        "symbols",
        "one",
        "CPU ms",
        "ms",
        "worst CPU ms",
        "worst ms",
        "bytes",
        "CPU s to make all",
    )
    aim = (
        f"aims for tessel: {CHANGE_MS} ms, {CHANGE_KB} KB, at most {APART} times apart, "
        f"none above {WORST_MS} ms"
    )
    told = (
        "times are medians beyond fsync, and the worst; only fsyncs of Python are known, those of "
        "others are in their times"
    )
    return Table(
        "one small symbol as the store gets more", columns, tuple(lines), (aim, told, *notes)
    )

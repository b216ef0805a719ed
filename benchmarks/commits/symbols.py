"""One small symbol made, written or appended to, in a store of ever more of them."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.commits.measure import fsync_time
from benchmarks.commits.small import check
from benchmarks.commits.stores import CommitStore, StoreKind
from benchmarks.commits.stores.base import rows
from tessel.display import Table

CHANGE_MS, CHANGE_KB, WORST_MS, APART = 6, 30, 100, 1.3
_MEMORY = Path("/dev/shm")
_ACTS = ("create", "write", "append")
_COLUMNS = (
    "store",
    "symbols",
    "one",
    "changes",
    "CPU ms",
    "ms",
    "worst CPU ms",
    "worst ms",
    "bytes",
    "CPU s to make all",
)


def measure(kind: StoreKind, folder: Path, symbols: int, repeat: int) -> list[tuple[object, ...]]:
    """Make symbols of one row, then change one at a time, so often in each of three ways."""
    place = folder / f"symbols-{kind.name}{symbols}"
    names = [f"s{number:07}" for number in range(symbols)]
    used = time.process_time()
    # In memory where there is such a place: what is measured is what comes after.
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else folder) as made:
        kind.open(Path(made) / "store", create=True).fill(names, rows(0, 1))
        used = time.process_time() - used
        shutil.copytree(Path(made) / "store", place)
    store = kind.open(place, create=False)
    chance = random.Random(symbols)
    lines = []
    _, size = store.written()
    for number, act in enumerate(_ACTS):
        times = _changes(kind, store, act, names, 1 + number * repeat, repeat, chance)
        _, after = store.written()
        each = round((after - size) / repeat)
        lines.append((kind.name, symbols, act, repeat, *times, each, round(used, 1)))
        size = after
    shutil.rmtree(place)
    return lines


def _changes(
    kind: StoreKind,
    store: CommitStore,
    act: str,
    names: list[str],
    first: int,
    repeat: int,
    chance: random.Random,
) -> tuple[float, ...]:
    """Return medians and worst of the processor's time and the clock's, beyond fsync."""
    beyond, processor = [], []
    for number in range(first, first + repeat):
        name = f"n{chance.random()}" if act == "create" else chance.choice(names)
        table = rows(number, 1)
        with fsync_time() as synced:
            start, used = time.perf_counter(), time.process_time()
            store.commit({name: table}, new=act != "append")
            used, took = time.process_time() - used, time.perf_counter() - start
        processor.append((used - synced.processor) * 1e3)
        beyond.append((took - synced.seconds) * 1e3)
    found = store.read(name)
    check(kind, name, found.slice(found.num_rows - 1), table)
    medians = (round(statistics.median(each), 2) for each in (processor, beyond))
    return (*medians, round(max(processor), 1), round(max(beyond), 1))


def table(lines: list[tuple[object, ...]], notes: list[str]) -> Table:
    """Return the lines of all stores."""
    aim = (
        f"aims for tessel: {CHANGE_MS} ms, {CHANGE_KB} KB, at most {APART} times apart, "
        f"none above {WORST_MS} ms"
    )
    told = (
        "times are medians beyond fsync, and the worst; only fsyncs of Python are known, those of "
        "others are in their times (with --folder /dev/shm they cost nobody anything)"
    )
    fewer = "others are changed less often where one change takes long, so their worst is of fewer"
    kinds = dict.fromkeys((line[0], line[2]) for line in lines)
    apart = [
        _apart(*kind, [line for line in lines if (line[0], line[2]) == kind]) for kind in kinds
    ]
    title = "one small symbol as the store gets more"
    return Table(title, _COLUMNS, tuple(lines), (aim, told, fewer, *apart, *notes))


def _apart(name: object, act: object, lines: list[tuple[object, ...]]) -> str:
    """Say how far apart the sizes of a store are."""
    told = []
    for column in ("CPU ms", "ms", "bytes"):
        found = [float(str(line[_COLUMNS.index(column)])) for line in lines]
        told.append(f"{column} {max(found) / max(min(found), 0.01):.2f}")
    return f"{name}, {act}, times apart: {', '.join(told)}"

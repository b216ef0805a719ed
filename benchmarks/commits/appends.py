"""One append of one row to a store of ever more segments: its time, its objects, its bytes."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.commits.measure import Puts, fsync_time
from benchmarks.commits.simulated import simulate, simulate_symbols
from benchmarks.commits.small import check
from benchmarks.commits.stores import StoreKind
from benchmarks.commits.stores.base import rows
from tessel.display import Table
from tessel.store.repository import Repository

APPEND_MS = 5
_FOLDED = 18
"""So many appends go through a folding of tails."""


def timed(folder: Path, sizes: list[int], repeat: int) -> Table:
    """Measure appends to simulated stores: a session that knows the symbol, and a cold one.

    The stores are made first and written back; then the sizes take turns, because what the machine
    does beside moves an fsync by more than anything that is measured here.
    """
    places = {size: folder / f"segments{size}" for size in sizes}
    for size, place in places.items():
        simulate(_opened(place), "big", size)
    os.sync()
    following = {size: size for size in sizes}
    found: dict[tuple[int, bool], list[tuple[float, float, float]]] = {}
    for _ in range(repeat):
        for size, place in places.items():
            for cold in (True, False):
                taken = _append_once(place, following[size], cold=cold)
                following[size] += 1
                found.setdefault((size, cold), []).append(taken)
    lines = []
    for (size, cold), taken_each in sorted(found.items()):
        medians = [
            round(statistics.median(each) * 1e3, 2) for each in zip(*taken_each, strict=True)
        ]
        lines.append((size, "cold" if cold else "cached", *medians))
    return Table(
        "one append: tessel",
        ("segments", "session", "ms", "ms beyond fsync", "CPU ms"),
        tuple(lines),
        notes=(
            f"aim: at most {APPEND_MS} ms beyond fsync; the biggest at most twice the smallest",
            "medians; cold opens the store and finds the symbol within the time; on a busy machine "
            "only the time of the processor can be compared",
        ),
    )


def _append_once(place: Path, time_index: int, *, cold: bool) -> tuple[float, float, float]:
    """Return the seconds that an append takes, those beyond fsync, and those of the processor."""
    repository = _opened(place)
    if not cold:
        repository.view("big")
    more = pa.table({"t": pa.array([time_index], pa.int64())})
    with fsync_time() as synced:
        start, processor = time.perf_counter(), time.process_time()
        repository.append("big", more)
        whole = time.perf_counter() - start
        used = time.process_time() - processor - synced.processor
        return whole, whole - synced.seconds, used


def _opened(place: Path) -> Repository:
    return Repository.open(str(place))


def growth(folder: Path, sizes: list[int], kinds: list[StoreKind], most_real: int) -> Table:
    """Return objects and bytes of an append as the number of segments grows.

    Ours are simulated; those of the others are real, up to ``most_real``.
    """
    lines: list[tuple[object, ...]] = []
    for size in sizes:
        repository = _opened(folder / f"growth{size}")
        simulate(repository, "big", size)
        lines.append(("tessel", size, *_of_appends(repository, "big", size)))
    for kind in kinds:
        if kind.name != "tessel":
            lines += [_real_growth(kind, folder, each) for each in sizes if each <= most_real]
    return Table(
        "an append of one row as a symbol grows",
        ("store", "segments", "objects", "bytes", f"most bytes of {_FOLDED}"),
        tuple(lines),
        notes=("medians; the most are with a folding of tails",),
    )


def growth_of_symbols(folder: Path, sizes: list[int]) -> Table:
    """Return objects and bytes of an append to one symbol as the number of symbols grows."""
    lines = []
    for size in sizes:
        repository = _opened(folder / f"symbols{size}")
        simulate_symbols(repository, size)
        name = f"s{size // 2:07}"
        repository.append(name, pa.table({"t": pa.array([0], pa.int64())}))
        lines.append(("tessel", size, *_of_appends(repository, name, 1)))
    return Table(
        "an append of one row as the store gets more symbols",
        ("store", "symbols", "objects", "bytes", f"most bytes of {_FOLDED}"),
        tuple(lines),
    )


def _of_appends(repository: Repository, symbol: str, first: int) -> tuple[object, ...]:
    objects, sizes = [], []
    for number in range(_FOLDED):
        puts = Puts(repository.objects)
        repository.append(symbol, pa.table({"t": pa.array([first + number], pa.int64())}))
        puts.restore()
        objects.append(len(puts.listed))
        sizes.append(puts.bytes)
    return round(statistics.median(objects)), round(statistics.median(sizes)), max(sizes)


def _real_growth(kind: StoreKind, folder: Path, size: int) -> tuple[object, ...]:
    store = kind.open(folder / f"growth-{kind.name}{size}", create=True)
    store.commit({"big": rows(0, size)}, new=True)
    objects, sizes = [], []
    for number in range(_FOLDED):
        before = store.written()
        store.commit({"big": rows(size + number, 1)}, new=False)
        after = store.written()
        objects.append(after[0] - before[0])
        sizes.append(after[1] - before[1])
    check(kind, "big", store.read("big"), rows(0, size + _FOLDED))
    middle = (round(statistics.median(each)) for each in (objects, sizes))
    return (kind.name, size, *middle, max(sizes))

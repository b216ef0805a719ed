"""What commits cost, beside Icechunk where it is installed: ``python -m benchmarks.commits``.

Many small symbols touched in one commit; one append to a store of ever more segments, cached and
cold, with the time in fsync apart; objects and bytes of a commit as a store grows. Stores of many
segments are *simulated*: their manifests are real, the segments they name do not exist, and nobody
reads them. Everything is on a local disk, with fsync on; medians.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.display import Table, render_text
from tessel.expression.schema import TableSchema
from tessel.store.history import ManifestEntry, Replacement, SymbolState
from tessel.store.manifest.format import SEGMENTS_SCHEMA, encode_manifest
from tessel.store.names import manifest_name, new_id
from tessel.store.objects import LocalObjects, ObjectStore
from tessel.store.repository import Repository

MANIFEST_SEGMENTS = 1_000_000
TOUCHED_SECONDS = 0.1
APPEND_SECONDS = 0.005


# --- a place that measures --------------------------------------------------------------------


class Puts:
    """What was put at a place, and when."""

    def __init__(self, objects: ObjectStore) -> None:
        self._put = objects.put_if_absent
        self.listed: list[tuple[str, int, float]] = []
        objects.put_if_absent = self._watched  # type: ignore[method-assign]

    def _watched(self, name: str, data: bytes | pa.Buffer) -> bool:
        self.listed.append((name, len(memoryview(data)), time.perf_counter()))
        return self._put(name, data)

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.listed)

    def first(self, kind: str) -> float:
        """Return when the first object of a kind was begun."""
        return min(at for name, _, at in self.listed if name.startswith(kind))


@contextmanager
def fsync_time() -> Iterator[list[float]]:
    """Gather how long each fsync takes."""
    found: list[float] = []
    real = os.fsync

    def watched(descriptor: Any) -> None:
        start = time.perf_counter()
        real(descriptor)
        found.append(time.perf_counter() - start)

    os.fsync = watched
    try:
        yield found
    finally:
        os.fsync = real


# --- simulated stores -------------------------------------------------------------------------


def simulate(repository: Repository, symbol: str, segments: int) -> None:
    """Make a symbol of so many segments of one row each, which nobody can read."""
    schema = TableSchema(pa.schema([("t", pa.int64())]), "t")
    identity = secrets.randbits(63)
    extents = []
    for start in range(0, segments, MANIFEST_SEGMENTS):
        count = min(MANIFEST_SEGMENTS, segments - start)
        name = manifest_name(new_id())
        data, reference = encode_manifest(name, _segments(identity, start, count), {})
        repository.objects.put_if_absent(name, data)
        extents.append(
            ManifestEntry(reference, count, count, start, start + count - 1, set="default")
        )
    state = SymbolState(identity, schema, {"t": 0}, 1, segments, tuple(extents))
    repository.history.commit(repository.at(None), [Replacement(symbol, state)], "simulate")


def _segments(symbol: int, start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    ones = np.ones(count, dtype=np.int64)
    place = new_id()
    columns = {
        "symbol": np.full(count, symbol, dtype=np.uint64),
        "row_count": ones,
        "row_offset": ones * 0,
        "column_from": ones * 0,
        "column_to": ones,
        "object": pa.array([place] * count, pa.binary(16)),
        "offset": numbers * 512,
        "length": ones * 512,
        "checksum": (numbers % 2**32).astype(np.uint32),
        "metadata_start": ones * 256,
        "first_time": numbers,
        "last_time": numbers,
        "begins": np.ones(count, dtype=bool),
    }
    return pa.table([pa.array(columns[n]) for n in SEGMENTS_SCHEMA.names], schema=SEGMENTS_SCHEMA)


# --- tessel -----------------------------------------------------------------------------------


def touch(repository: Repository, symbols: int, rounds: int) -> list[tuple[Any, ...]]:
    """Write many small symbols in one commit, then append to all of them, again and again."""
    small = pa.table({"t": pa.array([1, 2], pa.int64()), "x": [0.5, 1.5]})
    lines = []
    for number in range(rounds + 1):
        puts = Puts(repository.objects)
        start = time.perf_counter()
        with repository.transaction() as changes:
            for symbol in range(symbols):
                if number:
                    more = pa.table({"t": pa.array([2 + number], pa.int64()), "x": [2.5]})
                    changes.append(f"s{symbol:06}", more)
                else:
                    changes.write(f"s{symbol:06}", small, index="t")
            staged = time.perf_counter()
        end = time.perf_counter()
        first = puts.first("man/")
        lines.append(
            (
                "append" if number else "write",
                len(puts.listed),
                puts.bytes,
                round((staged - start) * 1e3),
                round((first - staged) * 1e3, 1),
                round((end - first) * 1e3, 1),
            )
        )
    return lines


def append_once(place: Path, symbol: str, time_index: int, *, cold: bool) -> tuple[float, float]:
    """Return the seconds that an append takes, and those of them in fsync."""
    repository = Repository(LocalObjects(place), "id", read_only=False)
    if not cold:
        repository.view(symbol)
    rows = pa.table({"t": pa.array([time_index], pa.int64())})
    with fsync_time() as synced:
        start = time.perf_counter()
        repository.append(symbol, rows)
        return time.perf_counter() - start, sum(synced)


def appends(folder: Path, segments: int, repeat: int) -> list[tuple[Any, ...]]:
    """Measure appends to a simulated store."""
    place = folder / f"segments{segments}"
    objects = LocalObjects(place)
    simulate(Repository(objects, "id", read_only=False), "big", segments)
    lines = []
    for at, cold in enumerate((True, False)):
        first = segments + at * repeat
        found = [append_once(place, "big", first + n, cold=cold) for n in range(repeat)]
        total = statistics.median(whole for whole, _ in found)
        beyond = statistics.median(whole - synced for whole, synced in found)
        lines.append(
            (segments, "cold" if cold else "cached", round(total * 1e3, 2), round(beyond * 1e3, 2))
        )
    return lines


def growth(folder: Path, sizes: list[int]) -> list[tuple[Any, ...]]:
    """Return objects and bytes of one append, as the number of segments grows."""
    lines = []
    for segments in sizes:
        objects = LocalObjects(folder / f"growth{segments}")
        repository = Repository(objects, "id", read_only=False)
        simulate(repository, "big", segments)
        most = 0
        for number in range(18):  # through a folding of tails
            puts = Puts(objects)
            rows = pa.table({"t": pa.array([segments + number], pa.int64())})
            repository.append("big", rows)
            most = max(most, puts.bytes)
        lines.append((segments, len(puts.listed), puts.bytes, most))
    return lines


# --- icechunk ---------------------------------------------------------------------------------


def icechunk_lines(folder: Path, symbols: int, repeat: int) -> list[tuple[Any, ...]]:
    """Do with Icechunk what comes nearest: arrays of one chunk for symbols, a chunk for a row."""
    import icechunk
    import zarr

    storage = icechunk.local_filesystem_storage(str(folder / "icechunk"))
    repository = icechunk.Repository.create(storage)
    lines = []

    def commit(what: str, change: Callable[[Any], None]) -> None:
        before = _files(folder / "icechunk")
        session = repository.writable_session("main")
        start = time.perf_counter()
        change(zarr.open_group(session.store, mode="a"))
        staged = time.perf_counter()
        session.commit(what)
        end = time.perf_counter()
        after = _files(folder / "icechunk")
        size = sum(after[name] for name in after.keys() - before.keys())
        lines.append(
            (
                what,
                len(after.keys() - before.keys()),
                size,
                round((staged - start) * 1e3),
                None,
                round((end - staged) * 1e3, 1),
            )
        )

    def write(group: Any) -> None:
        for symbol in range(symbols):
            group.create_array(f"s{symbol:06}", data=np.array([0.5, 1.5]), chunks=(2,))

    def touch_all(group: Any) -> None:
        for symbol in range(symbols):
            array = group[f"s{symbol:06}"]
            array.resize((array.shape[0] + 2,))
            array[-2:] = 2.5

    commit("write", write)
    for _ in range(repeat):
        commit("append", touch_all)
    return lines


def _files(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


# --- all together -----------------------------------------------------------------------------

_TOUCH_COLUMNS = (
    "commit",
    "objects",
    "bytes",
    "staging ms",
    "encoding manifests ms",
    "first manifest byte to acknowledgement ms",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--symbols", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--segments", type=int, nargs="*", default=[100_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="where the stores are made; by default /tmp")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        folder = Path(made)
        load = " ".join(f"{each:.1f}" for each in os.getloadavg())
        print(f"load of the machine: {load}; {os.cpu_count()} CPUs\n")
        repository = Repository(LocalObjects(folder / "small"), "id", read_only=False)
        lines = touch(repository, arguments.symbols, arguments.rounds)
        aim = f"aims: at most 10 objects, {TOUCHED_SECONDS * 1e3:.0f} ms"
        title = f"{arguments.symbols} small symbols in one commit: tessel"
        print(render_text(Table(title, _TOUCH_COLUMNS, tuple(lines), notes=(aim,))))
        if find_spec("icechunk") and find_spec("zarr"):
            lines = icechunk_lines(folder, arguments.symbols, arguments.rounds)
            note = "the last column is all of commit(), encoding included"
            title = f"{arguments.symbols} small arrays in one commit: icechunk"
            print(render_text(Table(title, _TOUCH_COLUMNS, tuple(lines), notes=(note,))))
        else:
            print("icechunk and zarr are not installed: no figures of theirs\n")
        found = [
            each for size in arguments.segments for each in appends(folder, size, arguments.repeat)
        ]
        print(
            render_text(
                Table(
                    "one append: tessel",
                    ("segments", "session", "ms", "ms beyond fsync"),
                    tuple(found),
                    notes=(f"aim: at most {APPEND_SECONDS * 1e3:.0f} ms beyond fsync; 10 M ≤ 2 x",),
                )
            )
        )
        sizes = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
        sizes = [size for size in sizes if size <= max(arguments.segments)]
        print(
            render_text(
                Table(
                    "an append as the store grows: tessel",
                    ("segments", "objects", "bytes", "bytes with a folding of tails"),
                    tuple(growth(folder, sizes)),
                )
            )
        )


if __name__ == "__main__":
    main()

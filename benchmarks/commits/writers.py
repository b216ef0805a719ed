"""Many processes that commit to one store at the same time, each to a symbol of its own."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

from benchmarks.commits.stores import StoreKind, kind_named
from benchmarks.commits.stores.base import rows
from tessel.display import Table


def measure(kind: StoreKind, folder: Path, writers: int, commits: int) -> tuple[object, ...]:
    """Let processes commit one row at a time, and look what is there afterwards."""
    place = folder / f"writers-{kind.name}"
    names = [f"w{number:03}" for number in range(writers)]
    kind.open(place, create=True).commit(dict.fromkeys(names, rows(0, 1)), new=True)
    spawning = multiprocessing.get_context("spawn")
    barrier, results = spawning.Barrier(writers), spawning.Queue()
    started = [
        spawning.Process(target=_write, args=(kind.name, place, name, commits, barrier, results))
        for name in names
    ]
    for each in started:
        each.start()
    heard = [results.get() for _ in started]
    for each in started:
        each.join()
    acknowledged = {name: count for name, count, *_ in heard}
    seconds = max(end for *_, end, _ in heard) - min(start for *_, start, _, _ in heard)
    refused = [message for *_, message in heard if message]
    store = kind.open(place, create=False)
    found = {name: store.read(name) for name in names}
    whole = [
        name
        for name, table in found.items()
        if table.combine_chunks().equals(rows(0, 1 + acknowledged[name]).combine_chunks())
    ]
    total = sum(acknowledged.values())
    reachable = sum(table.num_rows - 1 for table in found.values())
    for message in sorted(set(refused)):
        print(f"{kind.name} refused a commit: {message}\n")
    return (
        kind.name,
        writers,
        total,
        writers * commits - total,
        reachable,
        f"{len(whole)} of {writers}",
        round(total / seconds),
    )


def _write(kind: str, place: Path, symbol: str, commits: int, barrier: Any, results: Any) -> None:
    store = kind_named(kind).open(place, create=False)
    count = 0
    message = ""
    barrier.wait()
    start = time.monotonic()
    for number in range(1, commits + 1):
        try:
            store.commit({symbol: rows(number, 1)}, new=False)
        except Exception as error:  # theirs derive from nothing in common
            message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            break
        count += 1
    results.put((symbol, count, start, time.monotonic(), message))


def table(lines: list[tuple[object, ...]], notes: list[str]) -> Table:
    """Return the lines of all stores."""
    columns = (
        "store",
        "processes",
        "acknowledged",
        "refused",
        "there",
        "symbols right",
        "commits a second",
    )
    note = (
        "a commit adds one row to a symbol of its writer; a writer stops at its first error; "
        "there: rows that can be read afterwards"
    )
    return Table("processes that commit at the same time", columns, tuple(lines), (note, *notes))

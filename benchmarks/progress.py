"""What watching costs, as shares of processor time: ``python -m benchmarks.progress``.

    python -m benchmarks.progress              # 4 M rows, 31 rounds
    python -m benchmarks.progress --smoke      # few rows, once: that all of it runs

Two costs. That of a bar: three seconds of queries on a pseudo terminal with the option
``progress`` and without it, in turn; what is told is the processor time of one query. That of the
record of events which each query keeps for ``result.profile()``: queries with it and without it, in
turn, the least of both. The shares of rounds differ by a percent; what is told is their median,
with the quartiles. Aims: below 1 % for a bar, and for the record where a query takes 10 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import sys
import threading
import time
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import pyarrow as pa

import tessel as ts
from tessel import telemetry
from tessel.progress import operation


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Let standard error be a terminal, of which another thread reads what is shown."""
    ours, theirs = pty.openpty()

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(ours, 1 << 16):
                pass

    threading.Thread(target=read, daemon=True).start()
    with open(theirs, "w") as stream, mock.patch.object(sys, "stderr", stream):
        yield


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    def nothing(*_: object) -> None:
        pass

    with mock.patch.multiple(telemetry.Recording, __enter__=nothing, __exit__=nothing):
        yield


def _bar(query: Callable[[], object], seconds: float) -> float:
    """Return the processor milliseconds of a query among those of one operation."""
    count, until = 0, time.monotonic() + seconds
    began = time.process_time()
    with operation("query", "trades"):
        while time.monotonic() < until:
            query()
            telemetry.emit("step", done=count, total=count + 10, rows=count, bytes=count)
            count += 1
    return 1e3 * (time.process_time() - began) / count


def _least(query: Callable[[], object], count: int) -> float:
    found = []
    for _ in range(count):
        began = time.process_time_ns()
        query()
        found.append(time.process_time_ns() - began)
    return min(found) / 1e6


def _ratio(rounds: int, with_it: Callable[[], float], without: Callable[[], float]) -> str:
    pairs = [(with_it(), without()) for _ in range(rounds)]
    one, other = (sorted(each)[rounds // 2] for each in zip(*pairs, strict=True))
    shares = sorted(100 * (a / b - 1) for a, b in pairs)
    least, share, most = (shares[rounds * at // 4] for at in (1, 2, 3))
    figures = f"{share:+.2f} % (quartiles {least:+.2f}, {most:+.2f})"
    return f"{one:8.3f} ms against {other:8.3f} ms: {figures}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    rows, rounds = (20_000, 1) if given.smoke else (given.rows, given.rounds)
    random = np.random.default_rng(1)
    store = ts.open("memory://")
    prices = random.random(rows)
    store.write("trades", pa.table({"n": np.arange(rows), "k": np.arange(rows) % 9, "p": prices}))
    scan = store.scan("trades")
    queries = {
        "point": scan.filter("n == 5"),
        "group": scan.filter("p > 0.5").groupby("k").agg(p=("p", "mean")),
        "rows": scan.filter("p > 0.5").apply("q", "p * 2"),
    }
    for query in queries.values():
        query.collect()

    def bar(shows: bool) -> float:
        seconds = 0.05 if given.smoke else 3.0
        with ts.options(progress=shows, workers=1):
            return _bar(queries["group"].collect, seconds)

    with _terminal():
        print(f"bar           {_ratio(rounds, lambda: bar(True), lambda: bar(False))}")
    for name, query in queries.items():
        count = 1 if given.smoke else 200 if name == "point" else 15

        def recorded(query: ts.LazyTable = query, count: int = count) -> float:
            return _least(query.collect, count)

        def unrecorded(recorded: Callable[[], float] = recorded) -> float:
            with _unrecorded():
                return recorded()

        with ts.options(workers=1):
            print(f"record, {name:5s} {_ratio(rounds, recorded, unrecorded)}")


if __name__ == "__main__":
    main()

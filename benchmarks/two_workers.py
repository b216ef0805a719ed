"""Measure what a second worker saves: ``python -m benchmarks.two_workers``.

    python -m benchmarks.two_workers                   # 10 million rows from a fresh seed
    python -m benchmarks.two_workers --smoke           # few rows, answers only

Sums by group of one table, with one worker and with two; answers are compared with pyarrow's and
with each other first. The figure is the time on the clock of two workers against that of one, warm,
the medians of runs in turns: at most 0.6. It means something where two cores are idle, so the load
of the machine is shown beside it. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

import numpy as np
import pyarrow as pa

import tessel as ts
from tessel.compare import first_difference

MOST = 0.6
GROUPS = 3_000

QUERY = ts.QueryBuilder().groupby("key").agg(a="sum(price)", b="sum(amount)", c="sum(weight)")


def table_of(rows: int, seed: int) -> pa.Table:
    """Return prices in cents, whole numbers and doubles, by a key of text."""
    random = np.random.default_rng(seed)
    names = pa.array([f"item {number:04}" for number in range(GROUPS)])
    return pa.table(
        {
            "key": names.take(pa.array(random.integers(0, GROUPS, rows))),
            "price": np.round(random.lognormal(3, 1, rows), 2),
            "amount": random.integers(0, 10_000, rows),
            "weight": random.normal(size=rows),
        }
    )


def _seconds(store: ts.Store, workers: int) -> tuple[float, pa.Table]:
    with ts.options(workers=workers):
        began = time.perf_counter()
        found = store.read("x", query=QUERY).to_arrow()
        return time.perf_counter() - began, found


def measured(rows: int, seed: int, repeats: int) -> dict[str, object]:
    """Return milliseconds of one worker and of two, and their ratio."""
    table = table_of(rows, seed)
    store = ts.open("memory://two-workers")
    store.write("x", table)
    found = [_seconds(store, workers)[1] for workers in (1, 2)]
    difference = first_difference(*found)
    if difference is not None:
        raise SystemExit(f"two workers give another answer: {difference}")
    wanted = table.group_by("key").aggregate([("amount", "sum")]).sort_by("key")
    ours = found[0].select(["key", "b"]).sort_by("key")
    if ours.column("b").to_pylist() != wanted.column("amount_sum").to_pylist():
        raise SystemExit("the sums are not those of pyarrow")
    taken: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for workers, seconds in taken.items():
            seconds.append(_seconds(store, workers)[0])
    one, two = (statistics.median(taken[workers]) for workers in (1, 2))
    return {
        "one_ms": round(1e3 * one, 1),
        "two_ms": round(1e3 * two, 1),
        "ratio": round(two / one, 2),
        "most": MOST,
        "load": round(os.getloadavg()[0], 1),
        "reached": two <= MOST * one,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    rows, repeats = (20_000, 1) if given.smoke else (given.rows, given.repeats)
    line = measured(rows, seed, repeats)
    print(f"sums by {GROUPS:,} groups of {rows:,} rows, seed {seed}, load {line['load']}")
    print(
        "one worker {one_ms} ms, two {two_ms} ms: {ratio}, at most {most}".format(**line), end=" "
    )
    print("" if line["reached"] or given.smoke else "missed")
    print(json.dumps({"rows": rows, "seed": seed, **line}))


if __name__ == "__main__":
    main()

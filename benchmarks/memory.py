"""Measure the memory of queries that need everything, against their byte budget.

    python -m benchmarks.memory                       # 4 million rows, a budget of 32 MB
    python -m benchmarks.memory --rows 20000000 --budget-mb 64
    python -m benchmarks.memory --smoke               # a small run that only shows that it works

For each query: anonymous resident memory above that before it began, the most the query's own
account ever held, what went to temporary files, and the time. Results are streamed and dropped, for
a budget excludes the result. What is above the account is Arrow's and numpy's working memory, the
decoder's, and allocators that keep what was given back. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import PeakMemory, anonymous_bytes, milliseconds
from tessel import telemetry
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.options import options

MEGABYTE = 1 << 20
SEGMENT_ROWS = 131_072

Q = QueryBuilder()
QUERIES: dict[str, QueryBuilder] = {
    "filter, 1 %": Q.filter("v < 0.01"),
    "sort by a float": Q.sort("v"),
    "sort by text": Q.sort("s", "v"),
    "top 100": Q.top_k(100, "v"),
    "distinct of a key": Q.distinct("k"),
    "groups, as many as rows": Q.groupby("k").agg(s=("v", "sum"), n="size"),
    "groups, few": Q.groupby("few").agg(s=("v", "sum"), n="size"),
    "median of groups": Q.groupby("k").agg(m=("v", "median")),
    "median of one hot group": Q.groupby("hot").agg(m=("v", "median"), d=("k", "nunique")),
    "median of everything": Q.agg(m=("v", "median")),
    "ranks": Q.rank({"r": "v"}, by="few"),
    "tail of a filter": Q.filter("v < 0.5").tail(1000),
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One line of the result; bytes."""

    query: str
    anonymous: int | None
    account: int
    spilled: int
    rows: int
    milliseconds: float


def make(store: Store, rows: int, segment_rows: int) -> int:
    """Write the table in parts; return its bytes in memory."""
    random = np.random.default_rng(3)
    size = 0
    for start in range(0, rows, segment_rows):
        count = min(segment_rows, rows - start)
        keys = random.integers(0, rows, count)
        hot = np.where(random.random(count) < 0.9, 0, keys % 100)
        part = pa.table(
            {
                "k": keys,
                "few": keys % 1000,
                "hot": hot,
                "v": random.random(count),
                "s": pa.array([f"text {key}" for key in keys.tolist()]),
            }
        )
        size += part.nbytes
        (store.append if start else store.write)("x", part)
    return size


def measure(store: Store, name: str, budget: int) -> Measurement:
    account = spilled = 0

    def seen(event: telemetry.Event) -> None:
        nonlocal account, spilled
        if event.name == "memory.alive":
            account = max(account, event.attributes["bytes"])
        elif event.name == "spill.write":
            spilled += event.attributes["file_bytes"]

    def run() -> int:
        batches = store.scan("x").then(*QUERIES[name].clauses).iter_batches()
        return sum(batch.num_rows for batch in batches)

    gc.collect()
    pa.default_memory_pool().release_unused()
    before = anonymous_bytes()
    with (
        telemetry.subscribe(seen),
        options(live_bytes=budget, hash_bucket_bytes=budget // 16),
        PeakMemory() as memory,
    ):
        rows, elapsed = milliseconds(run)
    above = None if memory.peak is None or before is None else memory.peak - before
    return Measurement(name, above, account, spilled, rows, elapsed)


def show(found: Measurement) -> str:
    above = "?" if found.anonymous is None else f"{found.anonymous / MEGABYTE:8.1f}"
    return (
        f"{found.query:26} {above} {found.account / MEGABYTE:8.1f} "
        f"{found.spilled / MEGABYTE:8.1f} {found.rows:10} {found.milliseconds:9.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--budget-mb", type=int, default=32)
    parser.add_argument("--smoke", action="store_true", help="a small run")
    arguments = parser.parse_args()
    rows = 20_000 if arguments.smoke else arguments.rows
    segment_rows = 1_000 if arguments.smoke else SEGMENT_ROWS
    budget = MEGABYTE // 4 if arguments.smoke else arguments.budget_mb * MEGABYTE
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "store"))
        with options(segment_rows=segment_rows, fsync=False):
            size = make(store, rows, segment_rows)
        print(f"{rows} rows, {size / MEGABYTE:.0f} MB in memory, budget {budget / MEGABYTE:.2f} MB")
        print(f"{'query':26} {'anon MB':>8} {'acc. MB':>8} {'file MB':>8} {'rows':>10} {'ms':>9}")
        found = []
        for name in QUERIES:
            found.append(measure(store, name, budget))
            print(show(found[-1]), flush=True)
    lines = [dataclasses.asdict(each) for each in found]
    print(json.dumps({"python": platform.python_version(), "rows": rows, "queries": lines}))


if __name__ == "__main__":
    main()

"""Measure what queries that need everything take of a process, against their byte budget.

    python -m benchmarks.budget                            # budgets of 64 and 256 MB: half an hour
    python -m benchmarks.budget --budget-mb 64 --keys all,text-all --queries 'group|median'
    python -m benchmarks.budget --smoke                    # a small run that only shows it works

For each kind of key one table of ten times the budget, in memory, is written; for each query over
it a process is started, which runs the query over a few rows (imports, compiled kernels), gives
back what is free, and then streams the answer of all rows and drops it, for a budget excludes the
result. What is shown is the most anonymous memory of that process, above that before the query, as
a share of the budget: above 1.00 the budget is not kept. ``file MB`` went to temporary files.
Prints a table, and one line of JSON where that is asked for.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import PeakMemory, anonymous_bytes, milliseconds
from tessel import telemetry
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.options import options

MEGABYTE = 1 << 20
TIMES = 10
SMALL_ROWS = 300_000
PART_ROWS = 131_072
START_NS = 1_704_067_200_000_000_000
SECOND_NS = 1_000_000_000

Q = QueryBuilder()
SUMS: dict[str, Any] = {f"s{at}": (f"v{at}", "sum") for at in range(4)}
QUERIES: dict[str, QueryBuilder] = {
    "group: 7 sums": Q.groupby("k").agg(
        **SUMS, n=("n", "sum"), p=("p", "sum"), m=("v0", "mean"), c="size"
    ),
    "group: extremes": Q.groupby("k").agg(
        low=("p", "min"), high=("v0", "max"), first=("n", "first"), last=("v1", "last")
    ),
    "group: by appearance": Q.groupby("k", sort=False).agg(n=("n", "sum"), p=("p", "mean")),
    "group: two keys": Q.groupby("k", "n").agg(p=("p", "sum"), c="size"),
    "median, nunique": Q.groupby("k").agg(m=("v0", "median"), d=("n", "nunique")),
    "distinct": Q.distinct("k"),
    "distinct, last": Q.distinct("k", "n", keep="last"),
    "value_counts": Q.value_counts("k"),
    "sort": Q.sort("k", "v0"),
    "join": Q.join("other", on="k").select("k", "v0", "w"),
    "resample by key": Q.resample("1h", by="k").agg(p=("p", "mean"), n=("n", "sum")),
    "resample, median": Q.resample("1h", by="k").agg(p=("p", "median")),
    "resample, filled": Q.resample("30min", by="k", empty="ffill").agg(p=("p", "last")),
    "cum_sum by key": Q.cum_sum({"r": "n"}, by="k"),
    "ewm by key": Q.ewm(span=10, by="k").agg(r=("v0", "mean")),
    "rolling by key": Q.rolling(5, by="k").agg(r=("v0", "mean")),
    "fill by key": Q.fill({"r": "v0"}, by="k"),
    "shift by key": Q.shift({"r": "v0"}, by="k"),
    "latest_at": Q.latest_at(["2100-01-01T00:00:00Z"], by="k"),
    "rank by key": Q.rank({"r": "v0"}, by="k"),
}
WITHOUT_KEYS: dict[str, QueryBuilder] = {
    "sort by a value": Q.sort("v0"),
    "top 1000": Q.top_k(1000, "v0"),
    "median of everything": Q.agg(m=("v0", "median"), d=("n", "nunique")),
    "resample": Q.resample("10s").agg(p=("p", "mean"), n=("n", "sum")),
    "resample, filled at once": Q.resample("100ms", empty="null").agg(p=("p", "mean")),
    "one long bucket, median": Q.resample("YS").agg(p=("p", "median")),
    "tail of a filter": Q.filter("v0 < 0.5").tail(1000),
    "sample": Q.sample(100_000, seed=3),
    "describe": Q.describe(),
}
NONE = "none"


@dataclasses.dataclass(frozen=True)
class Keys:
    """A kind of key: how many there are (None: as many as rows), and whether they are text."""

    count: int | None
    text: bool = False

    def column(self, numbers: np.ndarray) -> pa.Array:
        chosen = numbers if self.count is None else numbers % self.count
        if not self.text:
            return pa.array(chosen)
        return pa.array([f"key {number}" for number in chosen.tolist()])


KEYS = {
    NONE: Keys(100),
    "100": Keys(100),
    "10000": Keys(10_000),
    "1000000": Keys(1_000_000),
    "all": Keys(None),
    "text-100": Keys(100, text=True),
    "text-10000": Keys(10_000, text=True),
    "text-1000000": Keys(1_000_000, text=True),
    "text-all": Keys(None, text=True),
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One line of the result; bytes."""

    keys: str
    query: str
    budget: int
    anonymous: int
    account: int
    spilled: int
    rows: int
    milliseconds: float

    @property
    def share(self) -> float:
        return self.anonymous / self.budget


def make(store: Store, symbol: str, keys: Keys, size: int) -> int:
    """Write a table of about so many bytes in memory; return its rows."""
    random = np.random.default_rng(3)
    numbers = random.permutation(size // _row_bytes(keys)).astype(np.int64) * 7919
    for start in range(0, len(numbers), PART_ROWS):
        part = numbers[start : start + PART_ROWS]
        count = len(part)
        times = START_NS + np.arange(start, start + count, dtype=np.int64) * (SECOND_NS // 10)
        columns: dict[str, Any] = {
            "ts": pa.array(times, pa.timestamp("ns", tz="UTC")),
            "k": keys.column(part),
            "p": random.integers(100, 100_000, count) / 100,
            "n": random.integers(1, 5_000, count),
        }
        columns |= {f"v{at}": random.random(count) for at in range(4)}
        table = pa.table(columns)
        if start:
            store.append(symbol, table)
        else:
            store.write(symbol, table, index="ts")
    return len(numbers)


def _row_bytes(keys: Keys) -> int:
    return 8 * 7 + (8 if not keys.text else 20)


def make_other(store: Store, symbol: str, of: str) -> None:
    """Write a table with a row for each key of another."""
    written = False
    for batch in store.scan(of).select("k").distinct("k").iter_batches():
        table = pa.table({"k": batch.column("k"), "w": np.arange(batch.num_rows, dtype=np.int64)})
        (store.append if written else store.write)(symbol, table)
        written = True


def measure(folder: str, keys: str, name: str, budget: int) -> Measurement:
    """Run a query in this process."""
    store = open_store(folder)
    query = (WITHOUT_KEYS if keys == NONE else QUERIES)[name]
    account = spilled = 0

    def seen(event: telemetry.Event) -> None:
        nonlocal account, spilled
        if event.name == "memory.alive":
            account = max(account, event.attributes["bytes"])
        elif event.name == "spill.write":
            spilled += event.attributes["file_bytes"]

    def run(symbol: str) -> int:
        batches = store.scan(symbol).then(*query.clauses).iter_batches()
        return sum(batch.num_rows for batch in batches)

    for enough in (budget, SMALL_ROWS * 8):  # so that what is put aside has been met as well
        with options(live_bytes=enough):
            run("small")
    with options(live_bytes=budget):
        give_back()
        before = anonymous_bytes() or 0
        with telemetry.subscribe(seen), PeakMemory() as memory:
            rows, elapsed = milliseconds(lambda: run("x"))
    above = (memory.peak or 0) - before
    return Measurement(keys, name, budget, above, account, spilled, rows, elapsed)


def give_back() -> None:
    """Give back what is free, as far as allocators can be asked to."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def measured(
    keys: str, budget: int, queries: re.Pattern[str], times: int, keep: Path | None
) -> Iterator[Measurement]:
    """Measure queries over keys of a kind, a process for each."""
    chosen = [name for name in (WITHOUT_KEYS if keys == NONE else QUERIES) if queries.search(name)]
    if not chosen:
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = str((keep or Path(temporary)) / f"{keys}-{budget}-{times}")
        store = open_store(folder)
        with options(fsync=False):
            if not store.symbols():
                make(store, "small", KEYS[keys], SMALL_ROWS * _row_bytes(KEYS[keys]))
                make(store, "x", KEYS[keys], times * budget)
            if "join" in chosen and "other" not in store.symbols():
                make_other(store, "other", "x")
        for name in chosen:
            command = [sys.executable, "-m", "benchmarks.budget", "--one", folder, keys, name]
            command += ["--budget-mb", str(budget / MEGABYTE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{keys:13} {name:25} failed: {done.stderr.strip().splitlines()[-1]}")
                continue
            yield Measurement(**json.loads(done.stdout))


def show(found: Measurement) -> str:
    over = " !" if found.share > 1 else ""
    return (
        f"{found.keys:13} {found.query:25} {found.budget / MEGABYTE:7.0f} "
        f"{found.anonymous / MEGABYTE:8.1f} {found.share:6.2f} {found.account / MEGABYTE:8.1f} "
        f"{found.spilled / MEGABYTE:8.1f} {found.rows:10} {found.milliseconds:8.0f}{over}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--budget-mb", default="64,256")
    parser.add_argument("--keys", default=",".join(KEYS), help=f"of {', '.join(KEYS)}")
    parser.add_argument("--queries", type=re.compile, default=re.compile(""), help="a pattern")
    parser.add_argument("--keep", type=Path, help="a directory in which tables stay for next time")
    parser.add_argument("--times", type=int, default=TIMES, help="how many budgets a table has")
    parser.add_argument("--smoke", action="store_true", help="a small run")
    parser.add_argument("--json", action="store_true", help="a line of JSON at the end")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    budgets = [int(float(each) * MEGABYTE) for each in arguments.budget_mb.split(",")]
    if arguments.one:
        folder, kind, name = arguments.one
        print(json.dumps(dataclasses.asdict(measure(folder, kind, name, budgets[0]))))
        return
    times = 1 if arguments.smoke else arguments.times
    budgets = [16 * MEGABYTE] if arguments.smoke else budgets
    keys = ["100", NONE] if arguments.smoke else arguments.keys.split(",")
    header = f"{'keys':13} {'query':25} {'budget':>7} {'anon MB':>8} {'share':>6} {'acc. MB':>8}"
    print(f"{header} {'file MB':>8} {'rows':>10} {'ms':>8}")
    found = []
    for budget in budgets:
        for kind in keys:
            for each in measured(kind, budget, arguments.queries, times, arguments.keep):
                found.append(each)
                print(show(each), flush=True)
    lines = [dataclasses.asdict(each) for each in found]
    if arguments.json:
        print(json.dumps({"python": platform.python_version(), "queries": lines}))


if __name__ == "__main__":
    main()

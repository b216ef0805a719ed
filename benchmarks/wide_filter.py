"""Measure the memory of a filter on a wide table: 407 columns, a million rows, one in 100 is kept.

    python -m benchmarks.wide_filter            # the figure of the design
    python -m benchmarks.wide_filter --smoke    # a small run that only shows that it works

Target: at most 300 MB of anonymous memory more than the process has before the query, the answer
(about 33 MB) included. The query runs in a process of its own, on a store in a directory; mapped
files do not count. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.measure import PeakMemory, anonymous_bytes, milliseconds

TARGET_MEGABYTES = 300
BATCH_ROWS = 1 << 16
KEPT_ONE_IN = 100


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int
    columns: int


FULL = Sizes(rows=1_000_000, columns=407)
SMOKE = Sizes(rows=20_000, columns=7)


def batches(sizes: Sizes) -> Iterator[pa.RecordBatch]:
    """Give the rows: a column to pick by, then prices in cents and counts, in turn."""
    random = np.random.default_rng(11)
    for start in range(0, sizes.rows, BATCH_ROWS):
        rows = min(BATCH_ROWS, sizes.rows - start)
        columns: dict[str, pa.Array] = {
            "pick": pa.array(random.integers(0, KEPT_ONE_IN, rows, dtype=np.int32))
        }
        for number in range(1, sizes.columns):
            if number % 2:
                cents = random.integers(-500_000, 500_000, rows)
                columns[f"c{number}"] = pa.array(cents / 100.0)
            else:
                columns[f"c{number}"] = pa.array(random.integers(0, 1 << 30, rows))
        yield pa.record_batch(columns)


def measure(place: str, way: str, workers: int) -> dict[str, float]:
    """Run the query in this process and return what it took."""
    store = ts.open(place)
    query = store.scan("wide").filter("pick == 0")
    store.scan("wide").head(1).collect()  # what is loaded once is no memory of the query
    before = anonymous_bytes() or 0
    rows = 0
    with ts.options(workers=workers), PeakMemory() as memory:
        if way == "collect":
            found, took = milliseconds(query.collect)
            rows = len(found)
        else:

            def stream() -> int:
                return sum(batch.num_rows for batch in query.iter_batches())

            rows, took = milliseconds(stream)
    peak = (memory.peak or 0) - before
    return {"rows": rows, "milliseconds": round(took, 1), "megabytes": round(peak / 1e6, 1)}


def run(sizes: Sizes, workers: int) -> list[dict[str, object]]:
    """Write the table, and measure each way in a process of its own."""
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        table = pa.Table.from_batches(batches(sizes))
        ts.open(place).write("wide", table)
        for way in ("collect", "iter_batches"):
            arguments = ["--measure", place, "--way", way, "--workers", str(workers)]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.wide_filter", *arguments],
                check=True,
                capture_output=True,
                text=True,
            )
            found.append({"way": way, "workers": workers, **json.loads(done.stdout)})
    return found


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--measure")
    parser.add_argument("--way", default="collect")
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.way, chosen.workers)))
        return
    found = run(SMOKE if chosen.smoke else FULL, chosen.workers)
    print(f"{'way':14} {'workers':>7} {'rows':>8} {'ms':>9} {'MB anonymous':>13}")
    for each in found:
        cells = f"{each['way']:14} {each['workers']:>7} {each['rows']:>8}"
        print(f"{cells} {each['milliseconds']:>9} {each['megabytes']:>13}")
    print(f"target: {TARGET_MEGABYTES} MB")
    print(json.dumps({"python": platform.python_version(), "runs": found}))


if __name__ == "__main__":
    main()

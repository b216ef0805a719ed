"""How what a query costs grows: ``python -m benchmarks.growth``.

* plans: the time to plan a date range of ten segments in a symbol of 10³ to 10⁶ segments (real
  manifests of segments that nobody can read), first in a session and again;
* rows: a grouped sum over 10⁶ rows and more, its time a million rows and its anonymous memory.

``--smoke`` runs both on little, for its answers only.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import tessel as ts
from benchmarks.commits.simulated import simulate
from benchmarks.measure import PeakMemory, anonymous_bytes, milliseconds
from benchmarks.picture import can_draw, draw_growth
from benchmarks.report import RESULTS
from tessel.expression.schema import TableSchema

_AGAIN = 9
_BATCH_ROWS = 1_000_000
_GROUPS = 500
_RANGE = 10
_TIMES = TableSchema(pa.schema([("t", pa.timestamp("us"))]), "t")


def plans(sizes: Sequence[int]) -> Iterator[tuple[int, float, float]]:
    """Give segments, the first plan in a session and the median of later ones, in ms."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = ts.open(folder)
            simulate(store, "s", size, _TIMES)
            times = np.array([size // 2, size // 2 + _RANGE - 1]).astype("datetime64[us]")
            query = ts.QueryBuilder().date_range(*map(str, times))
            fresh = ts.open(folder, create=False)
            plan, first = milliseconds(lambda: fresh.explain("s", query))  # noqa: B023
            assert f"to read at most: {_RANGE} segments, {_RANGE} rows" in str(plan)
            again = [milliseconds(lambda: fresh.explain("s", query))[1] for _ in range(_AGAIN)]  # noqa: B023
            yield size, first, statistics.median(again)


def rows(sizes: Sequence[int]) -> Iterator[tuple[int, float, int | None]]:
    """Give rows, the median time of a grouped sum in ms, and its peak of anonymous memory."""
    random = np.random.Generator(np.random.PCG64(3))
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = ts.open(str(Path(folder) / "store"))
            expected = np.zeros(_GROUPS, np.int64)
            for start in range(0, size, _BATCH_ROWS):
                count = min(_BATCH_ROWS, size - start)
                keys, values = random.integers(0, _GROUPS, count), random.integers(0, 100, count)
                np.add.at(expected, keys, values)
                batch = {"t": np.arange(start, start + count), "k": keys, "v": values}
                if start:
                    store.append("s", pa.table(batch))
                else:
                    store.write("s", pa.table(batch), index="t")
            query = ts.QueryBuilder().groupby("k").agg(v=("v", "sum"))
            answer = store.read("s", query=query).to_arrow()
            assert answer.column("v").to_pylist() == expected[expected > 0].tolist()
            before = anonymous_bytes() or 0
            with PeakMemory() as memory:
                times = [
                    milliseconds(lambda: store.read("s", query=query).to_arrow())[1]  # noqa: B023
                    for _ in range(5)
                ]
            peak = None if memory.peak is None else memory.peak - before
            yield size, statistics.median(times), peak


def _shown(title: str, names: Sequence[str], lines: Iterator[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*line)
    Console(highlight=False, width=100).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--segments", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--rows", type=int, nargs="*", default=[10**6, 10**7])
    asked = parser.parse_args(arguments)
    segments = [100] if asked.smoke else asked.segments
    sizes = [10_000] if asked.smoke else asked.rows
    planned = list(plans(segments))
    _shown(
        "planning a date range of ten segments",
        ("segments", "first, ms", "again, ms"),
        ((f"{n:,}", f"{first:.1f}", f"{again:.1f}") for n, first, again in planned),
    )
    summed = list(rows(sizes))
    _shown(
        "a grouped sum over all rows",
        ("rows", "ms", "ms a million rows", "anonymous MB"),
        (
            (f"{n:,}", f"{ms:.1f}", f"{ms * 1e6 / n:.2f}", "-" if b is None else f"{b / 1e6:.0f}")
            for n, ms, b in summed
        ),
    )
    if not asked.smoke and can_draw():
        RESULTS.mkdir(exist_ok=True)
        lines = [("first", n, first) for n, first, _ in planned]
        lines += [("again", n, again) for n, _, again in planned]
        title = "planning a date range of ten segments"
        draw_growth(title, "segments", lines, RESULTS / "growth-plans.svg")
        sums = [("grouped sum", n, ms) for n, ms, _ in summed]
        draw_growth("a grouped sum over all rows", "rows", sums, RESULTS / "growth-rows.svg")


if __name__ == "__main__":
    main()

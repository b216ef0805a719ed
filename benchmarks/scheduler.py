"""Measure the read scheduler: planning, coalescing, the I/O queue, the sources.

    python benchmarks/scheduler.py            # the figures of the design
    python benchmarks/scheduler.py --smoke    # a small run that only shows that it works

Targets: a plan of 10,000 pages in under 1 ms; 100 random reads of 4 KiB over a map in tens of µs.
Files are warm (read once before). Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing

import numpy as np

from tessel.store.objects import LocalObjects
from tessel.store.segment.coalesce import coalesce
from tessel.store.segment.io_queue import IoQueue
from tessel.store.segment.plan_pages import ColumnPages, plan_read
from tessel.store.segment.read_all import read_all
from tessel.store.segment.read_plan import ReadPlan
from tessel.store.segment.records import PAGE_RECORD
from tessel.store.segment.row_selection import RowIndices, RowRanges
from tessel.store.segment.sources.base import LOCAL, REMOTE, ByteRanges, ReadSource
from tessel.store.segment.sources.open import open_source

PAGE_SHIFT = 16
OBJECT = "data"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    pages: int
    columns: int
    file_bytes: int
    reads: int
    repeats: int


FULL = Sizes(pages=10_000, columns=8, file_bytes=256 << 20, reads=100, repeats=15)
SMOKE = Sizes(pages=64, columns=4, file_bytes=1 << 20, reads=10, repeats=1)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One line of the result; the median of the repeats."""

    name: str
    microseconds: float


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call in microseconds."""
    work()
    gc.collect()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e6


def columns_of(sizes: Sizes) -> tuple[list[ColumnPages], int]:
    """Return columns whose pages fill the file, row-major, and the number of rows."""
    rows_of_pages = sizes.pages // sizes.columns
    length = sizes.file_bytes // sizes.pages // 64 * 64
    columns = []
    for number in range(sizes.columns):
        pages = np.zeros(rows_of_pages, PAGE_RECORD)
        pages["offset"] = (np.arange(rows_of_pages) * sizes.columns + number) * length
        pages["length"] = length
        columns.append(ColumnPages(number, pages, PAGE_SHIFT))
    return columns, rows_of_pages << PAGE_SHIFT


def planning(sizes: Sizes) -> dict[str, Callable[[], object]]:
    columns, rows = columns_of(sizes)
    everything = RowRanges.of((0, rows))
    random = np.random.default_rng(0)
    few = RowIndices(random.integers(0, rows, sizes.reads))
    plan = plan_read(columns, everything, row_count=rows)
    count = f"{len(plan):,} pages"
    return {
        f"plan, all of {count}": lambda: plan_read(columns, everything, row_count=rows),
        f"plan, {sizes.reads} random rows of {count}": lambda: plan_read(
            columns, few, row_count=rows
        ),
        f"coalesce {count}, local": lambda: coalesce(plan.ranges, LOCAL),
        f"coalesce {count}, object store": lambda: coalesce(plan.ranges, REMOTE),
    }


def random_ranges(sizes: Sizes) -> ByteRanges:
    starts = np.random.default_rng(1).integers(0, sizes.file_bytes - 4096, sizes.reads)
    return ByteRanges((OBJECT,), np.zeros(sizes.reads, np.int64), starts, starts + 4096)


def scan(source: ReadSource, plan: ReadPlan) -> int:
    """Take everything as a consumer that releases at once; return the bytes."""
    total = 0
    with IoQueue(source) as queue:
        queue.submit(plan)
        for delivered in queue:
            with delivered:
                total += sum(buffer.size for buffer in delivered.buffers)
    if total != plan.bytes:
        raise SystemExit(f"{total} bytes came, {plan.bytes} were asked for")
    return total


def reading(sizes: Sizes, source: ReadSource) -> dict[str, Callable[[], object]]:
    ranges = random_ranges(sizes)
    order = np.argsort(ranges.start)
    start, end = ranges.start[order], ranges.end[order]
    zeros = np.zeros(sizes.reads, np.int64)
    take = ReadPlan.of_fields((OBJECT,), (zeros, zeros, zeros, start, end, start), None)
    columns, rows = columns_of(sizes)
    plan = plan_read(columns, RowRanges.of((0, rows)), row_count=rows, name=OBJECT)
    work: dict[str, Callable[[], object]] = {
        f"{source.kind}: take of {sizes.reads} × 4 KiB (read_all)": lambda: read_all(source, take),
        f"{source.kind}: queue over {len(plan):,} pages, {plan.bytes >> 20} MiB": lambda: scan(
            source, plan
        ),
    }
    if source.immediate:
        work |= {
            f"{source.kind}: {sizes.reads} × 4 KiB": lambda: source.read(ranges, ranges.start),
            f"{source.kind}: read_all of {len(plan):,} pages": lambda: read_all(source, plan),
        }
    return work


def measure(sizes: Sizes) -> list[Measurement]:
    lines = [Measurement(name, timed(f, sizes.repeats)) for name, f in planning(sizes).items()]
    with tempfile.TemporaryDirectory() as directory:
        objects = LocalObjects(directory)
        data = np.random.default_rng(2).integers(0, 256, sizes.file_bytes, dtype=np.uint8)
        objects.put_if_absent(OBJECT, data.tobytes())
        for kind in ("mmap", "pread", "object_store"):
            with closing(open_source(objects, kind)) as source:
                lines += [
                    Measurement(name, timed(work, min(sizes.repeats, 7)))
                    for name, work in reading(sizes, source).items()
                ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the read scheduler.")
    parser.add_argument("--smoke", action="store_true", help="a small run")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    lines = measure(sizes)
    for line in lines:
        print(f"  {line.name:<58} {line.microseconds:12,.1f} µs")
    facts = {**dataclasses.asdict(sizes), "python": platform.python_version()}
    print(json.dumps({**facts, "measurements": [dataclasses.asdict(line) for line in lines]}))


if __name__ == "__main__":
    main()

"""Measure what Spark costs beside the question: ``python -m benchmarks.spark_costs``.

    python -m benchmarks.spark_costs                   # from a fresh seed
    python -m benchmarks.spark_costs --rows 1_000_000 --seed 7
    python -m benchmarks.spark_costs --smoke           # few rows, answers only

In one warm session of two slots: a DataFrame through the data source in both directions, beside
Parquet (at most twice its processor time), and beside a source of a few lines whose batches lie
ready in a mapped file, which is what Spark itself takes for a source in Python; a question of ten
segments (at most 0.2 s); the same sums over more and more segments (the steepest slope between two,
in logarithms, at most 1.1), beside jobs of Spark that do nothing; what the driver holds at most
while it gives a result, whole and in batches.
Processor time is that of the JVM and its Python workers too. Answers are compared first. Prints a
table and one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import tessel as ts
from benchmarks.engines.spark_sql_engine import MASTER
from benchmarks.measure import PeakMemory, processor_milliseconds
from tessel.compare import first_difference

TIMES_PARQUET, TEN_SEGMENTS_MS, SLOPE = 2.0, 200.0, 1.1
UNITS = (10, 100, 1_000, 10_000)
UNIT_ROWS = 100
_COLD_ROUNDS = 3
_READY_ROWS, _READY_TASKS = 1 << 16, 6


@dataclass(frozen=True)
class Figure:
    """One line of the table: a figure and its limit."""

    name: str
    clock_ms: float
    processor_ms: float
    figure: float
    most: float


class ReadyBatches(DataSource):
    """Rows of a file of Arrow, mapped: what any source in Python costs, which has no more to do."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ready"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the file."""
        return ReadyReader(self.options["path"])


class ReadyReader(DataSourceReader):
    """Gives the batches of a file, those of a task one after another."""

    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return [InputPartition(number) for number in range(_READY_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the batches of a task."""
        with pa.memory_map(self.path) as mapped:
            file = pa.ipc.open_file(mapped)
            for number in range(partition.value, file.num_record_batches, _READY_TASKS):
                yield file.get_batch(number)


def table_of(rows: int, seed: int) -> pa.Table:
    """Return rows in the order of their time, in whole microseconds as Spark knows them."""
    random = np.random.default_rng(seed)
    names = pa.array([f"item {number:03}" for number in range(300)])
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(1, 9, rows)), pa.timestamp("us", "UTC")),
            "name": names.take(pa.array(random.integers(0, 300, rows))),
            "price": np.round(random.lognormal(3, 1, rows), 2),
            "size": random.integers(0, 10_000, rows),
            "weight": random.normal(size=rows),
        }
    )


def _taken(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return milliseconds on the clock and of all processes: medians of warm runs."""
    return _in_turn([work], repeats)[0]


def _in_turn(work: Sequence[Callable[[], object]], repeats: int) -> list[tuple[float, float]]:
    """Return the same of several, which take turns: none is first where the JVM is still cold."""
    taken: list[list[tuple[float, float]]] = [[] for _ in work]
    for _ in range(repeats + (1 if len(work) == 1 else _COLD_ROUNDS)):
        for each, found in zip(work, taken, strict=True):
            began, used = time.perf_counter(), processor_milliseconds()
            each()
            clock = 1e3 * (time.perf_counter() - began)
            found.append((clock, processor_milliseconds() - used))
    return [
        (statistics.median(clock), statistics.median(processor))
        for clock, processor in (zip(*found[-repeats:], strict=True) for found in taken)
    ]


def _source(session: Any, folder: Path, table: pa.Table, repeats: int) -> list[Figure]:
    """Write and read one table through the data source, and as Parquet."""
    address, given = f"{folder}/source", str(folder / "given.parquet")
    parquet.write_table(table, given, row_group_size=max(1, table.num_rows // 8))
    ts.open(address)
    frame = session.read.parquet(given)

    def write() -> None:
        to = frame.write.format("tessel").option("store", address).option("symbol", "x")
        to.option("index", "t").option("sort", True).mode("overwrite").save()

    def write_parquet() -> None:
        frame.write.mode("overwrite").parquet(f"{folder}/parquet")

    write()
    difference = first_difference(ts.open(address).read("x").to_arrow(), table)
    if difference is not None:
        raise SystemExit(f"what was written is not what is there: {difference}")
    written = _beside("write", [write, write_parquet], repeats)[0]
    ours = session.read.format("tessel").option("store", address).option("symbol", "x").load()
    theirs = session.read.parquet(f"{folder}/parquet")
    ready = f"{folder}/ready.arrow"
    with pa.ipc.new_file(ready, table.schema) as writer:
        writer.write_table(table, max_chunksize=_READY_ROWS)
    session.dataSource.register(ReadyBatches)
    floor = session.read.format(ReadyBatches.name()).schema(theirs.schema)
    frames = [ours, theirs, floor.option("path", ready).load()]
    sums = [frame.agg({"size": "sum", "t": "max"}).collect() for frame in frames]
    if sums != sums[:1] * len(sums):
        raise SystemExit("the source reads other rows than Parquet's")

    def read(frame: Any) -> None:
        frame.write.format("noop").mode("append").save()

    work = [functools.partial(read, frame) for frame in frames]
    return [written, *_beside("read", work, repeats)]


def _memory(session: Any, folder: Path) -> list[Figure]:
    """Return what this process holds at most while rows come to it, beside their bytes.

    The heap of the JVM is not in it: ``spark.driver.memory`` bounds that.
    """
    from tessel.spark_exec import SparkExecutor

    executor = SparkExecutor(session)
    lazy = ts.open(f"{folder}/source").scan("x").filter("size < 3000")
    lazy.head(1).collect(executor=executor)  # what is imported late

    def batches() -> int:
        return sum(batch.nbytes for batch in lazy.iter_batches(executor=executor))

    found = []
    for name, work in (
        ("collect", lambda: lazy.collect(executor=executor).to_arrow().nbytes),
        ("iter_batches", batches),
    ):
        began, used = time.perf_counter(), processor_milliseconds()
        with PeakMemory() as memory:
            before = memory.peak or 0
            size = work()
        clock, processor = 1e3 * (time.perf_counter() - began), processor_milliseconds() - used
        figure = ((memory.peak or 0) - before) / size
        found.append(Figure(f"{name}, peak / bytes", clock, processor, figure, math.inf))
    return [*found, Figure("bytes of the result", 0, 0, size, math.inf)]


def _beside(name: str, work: Sequence[Callable[[], object]], repeats: int) -> list[Figure]:
    """Return what ours, Parquet's, and where there is one a source that does nothing, take."""
    ours, parquets, *floor = _in_turn(work, repeats)
    names = (f"{name}, times Parquet", TIMES_PARQUET), (f"{name} of ready batches", math.inf)
    return [
        Figure(called, *both, both[1] / parquets[1], most)
        for (called, most), both in zip(names, [ours, *floor], strict=False)
    ]


def _units(folder: Path, session: Any, units: int, seed: int, repeats: int) -> tuple[float, float]:
    """Sum by name over so many segments; return what it took."""
    from tessel.spark_exec import SparkExecutor

    store = ts.open(f"{folder}/units-{units}")
    with ts.options(segment_rows=UNIT_ROWS):
        store.write("x", table_of(units * UNIT_ROWS, seed))
    query = ts.QueryBuilder().groupby("name").agg(size="sum(size)", price="mean(price)")
    executor = SparkExecutor(session)

    def read() -> pa.Table:
        return store.read("x", query=query, executor=executor).to_arrow()

    difference = first_difference(read(), store.read("x", query=query).to_arrow())
    if difference is not None:
        raise SystemExit(f"Spark sums {units} segments otherwise: {difference}")
    return _taken(read, repeats)


def _of_spark(session: Any, repeats: int) -> list[Figure]:
    """Run jobs of two tasks that do nothing: an RDD's, and a DataFrame's whose rows are Arrow."""

    def nothing(items: Any) -> Any:
        yield from items

    context = session.sparkContext
    work = {
        "RDD": lambda: context.parallelize([1, 2], 2).mapPartitions(nothing).collect(),
        "DataFrame": lambda: session.range(0, 2, 1, 2).mapInArrow(nothing, "id long").toArrow(),
    }
    taken = {name: _taken(job, repeats) for name, job in work.items()}
    return [
        Figure(f"Spark alone, {name}", *both, both[1], math.inf) for name, both in taken.items()
    ]


def measured(rows: int, seed: int, repeats: int, units: tuple[int, ...]) -> list[Figure]:
    """Return all figures."""
    from tessel.spark_exec import register_source, spark_session

    session = spark_session(MASTER)
    register_source(session)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = _source(session, folder, table_of(rows, seed), repeats)
        found += _memory(session, folder)
        taken = {each: _units(folder, session, each, seed, repeats) for each in units}
    found += _of_spark(session, repeats)
    first = units[0]
    for each, (clock, processor) in taken.items():
        most = TEN_SEGMENTS_MS if each == first else math.inf
        found.append(Figure(f"{each:,} segments, ms", clock, processor, processor, most))
    steps = [
        math.log(taken[more][1] / taken[less][1]) / math.log(more / less)
        for less, more in itertools.pairwise(units)
    ]
    found.append(Figure("steepest slope", *taken[units[-1]], max(steps), SLOPE))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    rows, repeats = given.rows, given.repeats
    units: tuple[int, ...] = UNITS
    if given.smoke:
        rows, repeats, units = 20_000, 1, (2, 20)
    found = measured(rows, seed, repeats, units)
    print(f"{rows:,} rows, seed {seed}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':24}{'ms':>10}{'processor ms':>14}{'figure':>10}{'most':>8}")
    for each in found:
        missed = "" if each.figure <= each.most or given.smoke else "missed"
        most = "" if math.isinf(each.most) else f"{each.most:g}"
        print(
            f"{each.name:24}{each.clock_ms:10,.0f}{each.processor_ms:14,.0f}"
            f"{each.figure:10,.2f}{most:>8} {missed}"
        )
    lines = [asdict(each) for each in found]
    print(json.dumps({"rows": rows, "seed": seed, "figures": lines}, default=str))


if __name__ == "__main__":
    main()

"""Runs one engine in a process of its own; started by the harness, which it talks to in JSON lines.

``write`` writes the table (several times, each into an empty folder) and says how long it took.
``ask`` answers queries. For each it runs once and saves the answer; the harness compares it and
writes ``go`` or ``stop``; only after ``go`` it is timed.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather, parquet

from benchmarks.answers import canonical
from benchmarks.engines import Engine, load_engine
from benchmarks.measure import (
    PeakMemory,
    anonymous_bytes,
    milliseconds,
    processor_milliseconds,
    touch,
)
from benchmarks.workloads import Query, Workload, workload_named


def _say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def _write(engine: Engine, workload: Workload, source: Path, folder: Path, repeat: int) -> None:
    tables = [
        (each, parquet.read_table(source / f"{each.name}.parquet")) for each in workload.tables
    ]
    times = []
    for _ in range(repeat):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        took = [
            milliseconds(functools.partial(engine.write, table, folder, each))[1]
            for each, table in tables
        ]
        times.append(sum(took))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    _say(write_ms=times, size_bytes=size, version=engine.version())


def _ask(engine: Engine, workload: Workload, query: Query, handle: Any, options: Any) -> None:
    answer = query.answers[engine.name]

    def run() -> pa.Table:
        table = engine.to_arrow(answer(handle))
        touch(table)
        return table

    base = anonymous_bytes()
    table, first = milliseconds(run)
    options.answers.mkdir(parents=True, exist_ok=True)
    feather.write_feather(
        canonical(table, query), options.answers / f"{query.name}.arrow", compression="uncompressed"
    )
    output_bytes = table.nbytes
    _say(query=query.name, first_ms=first, rows=table.num_rows, output_bytes=output_bytes)
    del table
    if sys.stdin.readline().strip() != "go":
        return
    run()
    warm, processor = [], []
    for _ in range(options.repeat):
        used = processor_milliseconds()
        warm.append(milliseconds(run)[1])
        processor.append(processor_milliseconds() - used)
    with PeakMemory() as memory:
        run()
    above = None if memory.peak is None or base is None else memory.peak - base
    _say(query=query.name, warm_ms=warm, processor_ms=processor, peak_bytes=above)


def main() -> None:
    """Read the arguments that the harness gives, and do it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("write", "ask"))
    parser.add_argument("--engine", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--queries", nargs="*", default=[])
    parser.add_argument("--repeat", type=int, required=True)
    options = parser.parse_args()
    engine, workload = load_engine(options.engine), workload_named(options.workload, options.seed)
    if options.task == "write":
        _write(engine, workload, options.source, options.folder, options.repeat)
        return
    handle: Any = engine.open(options.folder, workload)
    if workload.others:
        opened = {each.name: engine.open(options.folder, each) for each in workload.others}
        handle = {workload.name: handle} | opened
    for name in options.queries:
        _ask(engine, workload, workload.query(name), handle, options)


if __name__ == "__main__":
    main()

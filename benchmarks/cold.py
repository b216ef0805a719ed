"""Cost of a script from process start to end, beside other engines: ``python -m benchmarks.cold``.

    python -m benchmarks.cold                 # 5 M rows, medians of 11, a fresh seed
    python -m benchmarks.cold --smoke         # few rows, once: only the answers

A script imports its engine, opens 5 M rows of seven columns, and runs three queries: a filter of
two predicates, a group by, a resample. Each run is a new process; processor time is user and system
time of that process, start of the interpreter included. Answers are compared before anything is
timed. Aims: a cold script of at most 0.40 s of processor time; what opening a store and a read
import, at most 0.10 s beyond numpy and pyarrow.compute; no pandas, numba or lark.
"""

from __future__ import annotations

import argparse
import collections
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather

from benchmarks.answers import canonical, difference
from benchmarks.workloads import Query

ROWS = 5_000_000
UNWANTED = ("pandas", "numba", "lark")

TESSEL = """
import tessel as ts
table = ts.open("{place}/store", read_only=True).scan("trades")
answers = [
    table.filter("price > {price} and size < {size}").collect(),
    table.groupby("symbol").agg(
        rows="size", volume=("size", "sum"), mean=("price", "mean")).collect(),
    table.resample("1h").agg(
        low=("price", "min"), high=("price", "max"), volume=("size", "sum")).collect(),
]
tables = lambda: [answer.to_arrow() for answer in answers]
"""
_SQL = """
import duckdb
source = duckdb.connect({connect})
answers = [source.sql(query).{fetch}() for query in (
    "SELECT * FROM {trades} WHERE price > {price} AND size < {size}",
    "SELECT symbol, count(*) AS rows, sum(size) AS volume, avg(price) AS mean"
    " FROM {trades} GROUP BY symbol",
    "SELECT time_bucket(INTERVAL 1 hour, time) AS time, min(price) AS low, max(price) AS high,"
    " sum(size) AS volume FROM {trades} GROUP BY ALL",
)]
tables = lambda: answers
"""
_DUCKDB_FILE = _SQL.replace("{connect}", '"{place}/trades.duckdb", read_only=True').replace(
    "{trades}", "trades"
)
_DUCKDB_PARQUET = _SQL.replace("{connect}", "").replace("{trades}", "'{place}/trades.parquet'")
POLARS = """
import polars as pl
from polars import col
table = pl.scan_parquet("{place}/trades.parquet")
answers = [
    table.filter((col("price") > {price}) & (col("size") < {size})).collect(),
    table.group_by("symbol").agg(
        rows=pl.len(), volume=col("size").sum(), mean=col("price").mean()).collect(),
    table.group_by_dynamic("time", every="1h").agg(
        low=col("price").min(), high=col("price").max(), volume=col("size").sum()).collect(),
]
tables = lambda: [answer.to_arrow() for answer in answers]
"""
SCRIPTS = {
    "tessel": TESSEL,
    "duckdb, own file": _DUCKDB_FILE,
    "duckdb, parquet": _DUCKDB_PARQUET,
    "polars, parquet": POLARS,
}
_SAVE = """
import pyarrow.feather
for number, table in enumerate(tables()):
    pyarrow.feather.write_feather(table, f"{place}/answer{{number}}", compression="uncompressed")
"""
BASE = "import numpy, pyarrow.compute"
_READ = 'import tessel; tessel.open("{place}/store").read("trades", columns=["size"])'
IMPORTS = {
    "the interpreter": "pass",
    BASE: BASE,
    "import tessel": "import tessel",
    "tessel.open, and a read of one column": _READ,
    "from tessel import *": "from tessel import *",
}
KEYS = (("time", "price", "value"), ("symbol",), ("time",))


def trades(rows: int, seed: int) -> pa.Table:
    """Make seven columns of the common kinds, in order of time."""
    random = np.random.default_rng(seed)
    names = [f"{chr(65 + n % 26)}{n}" for n in range(60)]
    gaps = random.integers(1, 40_000_000, rows)
    return pa.table(
        {
            "time": pa.array(1_600_000_000_000_000_000 + gaps.cumsum(), pa.timestamp("ns")),
            "symbol": pa.array(names).take(random.integers(0, len(names), rows)),
            "venue": random.integers(0, 12, rows).astype(np.int8),
            "price": np.round(100 + random.normal(0, 0.02, rows).cumsum() / 10, 2),
            "size": random.integers(1, 5_000, rows).astype(np.int32),
            "value": random.normal(size=rows),
            "buy": pa.array(random.random(rows) < 0.5),
        }
    )


def write(place: str, table: pa.Table) -> None:
    """Write the rows for each engine, by a process of its own where it has a format of its own."""
    import pyarrow.parquet

    import tessel as ts

    ts.open(f"{place}/store").write("trades", table, index="time")
    pyarrow.parquet.write_table(table, f"{place}/trades.parquet")
    copy = f"CREATE TABLE trades AS FROM '{place}/trades.parquet'"
    program = f'import duckdb; duckdb.connect("{place}/trades.duckdb").execute("{copy}")'
    subprocess.run([sys.executable, "-c", program], check=True)


def run(program: str, *options: str) -> tuple[float, float]:
    """Run a program in a new process; return its processor time and its time, in seconds."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # others are compiled too
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, *options, "-c", program], env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"this fails:\n{program}")
    return usage.ru_utime + usage.ru_stime, took


def check_answers(place: str, values: dict[str, Any]) -> None:
    """End the program unless all engines give the same answers."""
    expected: list[pa.Table] = []
    for name, script in SCRIPTS.items():
        run((script + _SAVE).format(**values, fetch="to_arrow_table"))
        for number, key in enumerate(KEYS):
            found = pyarrow.feather.read_table(f"{place}/answer{number}")
            answer = canonical(found, Query("", "", {}, key))
            if len(expected) <= number:
                expected.append(answer)
            differs = difference(answer, expected[number])
            if differs:
                raise SystemExit(f"query {number + 1}: {name} differs from tessel: {differs}")
    print(f"same answers of {[answer.num_rows for answer in expected]} rows")


def medians(programs: dict[str, str], repeat: int) -> dict[str, tuple[float, float]]:
    """Return medians of processor time and time, of programs that ran in turns."""
    rounds = [[run(program) for program in programs.values()] for _ in range(repeat)]
    return {
        name: (statistics.median(cpu for cpu, _ in runs), statistics.median(t for _, t in runs))
        for name, runs in zip(programs, zip(*rounds, strict=True), strict=True)
    }


def report(title: str, against: str, figures: dict[str, tuple[float, float]]) -> None:
    """Print figures, and ratios to one of them."""
    print(f"\n{title:40} processor s   ratio   time s   ratio")
    base = figures[against]
    for name, (cpu, took) in figures.items():
        ratios = cpu / base[0], took / base[1]
        print(f"{name:40} {cpu:11.3f} {ratios[0]:7.2f} {took:8.3f} {ratios[1]:7.2f}")


def imported(program: str) -> Iterator[tuple[str, float]]:
    """Give each module that a program imports, with the milliseconds of its own body."""
    command = [sys.executable, "-X", "importtime", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stderr.splitlines():
        cells = line.removeprefix("import time:").split("|")
        if cells[0].strip().isdigit():
            yield cells[2].strip(), int(cells[0]) / 1e3


def report_imports(title: str, program: str, beyond: set[str]) -> None:
    """Print which modules a program imports beyond others, by part, and the dearest of them."""
    modules = [(name, cost) for name, cost in imported(program) if name not in beyond]
    parts: dict[str, list[float]] = collections.defaultdict(list)
    for name, cost in modules:
        ours = name.split(".")[0] == "tessel"
        parts[".".join(name.split(".")[:2]) if ours else "of others"].append(cost)
    names = {name.split(".")[0] for name, _ in modules}
    ours = sum(len(costs) for part, costs in parts.items() if part != "of others")
    found = [name for name in UNWANTED if name in names] or "none"
    print(f"\n{title}: {ours} modules of ours; of {', '.join(UNWANTED)}: {found}")
    for part, costs in sorted(parts.items(), key=lambda item: -sum(item[1])):
        print(f"  {part:20} {len(costs):4} modules {sum(costs):7.1f} ms")
    dearest = sorted(modules, key=lambda module: -module[1])[:12]
    print("  dearest:", ", ".join(f"{name} {cost:.1f}" for name, cost in dearest))


def main() -> None:
    """Write, compare, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--smoke", action="store_true")
    chosen = parser.parse_args()
    rows, repeat = (20_000, 1) if chosen.smoke else (chosen.rows, chosen.repeat)
    print(f"{rows:,} rows, seed {chosen.seed}, medians of {repeat}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        table = trades(rows, chosen.seed)
        prices = np.sort(table["price"].to_numpy())
        values = {"place": place, "price": prices[-max(2, rows // 20)], "size": 250}
        write(place, table)
        check_answers(place, values)
        values["fetch"] = "fetchnumpy"
        scripts = {name: script.format(**values) for name, script in SCRIPTS.items()}
        report("script of three queries", "duckdb, own file", medians(scripts, repeat))
        programs = {name: program.format(**values) for name, program in IMPORTS.items()}
        report("imports", BASE, medians(programs, repeat))
        beyond = {name for name, _ in imported(BASE)}
        report_imports("open and read", programs["tessel.open, and a read of one column"], beyond)
        report_imports("three queries", scripts["tessel"], beyond)


if __name__ == "__main__":
    main()

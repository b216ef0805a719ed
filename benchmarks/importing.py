"""Measure ``tessel import`` of a CSV file beside DuckDB's ``read_csv`` into a table.

    python -m benchmarks.importing                    # 5 M rows, seed 0
    python -m benchmarks.importing --rows 200000 --seed 3

Each runs in a process of its own, start included, in turns, the first of which is not counted: it
compiles our modules, as installing a package does. The median of the others counts, and the rows of
both are compared. Aims: at least 0.7 times the rate, and at most 1 GB of memory whatever the length
of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_DUCKDB = """
import sys, duckdb
file, database = sys.argv[1:]
with duckdb.connect(database) as connection:
    connection.execute(f"CREATE TABLE t AS SELECT * FROM read_csv('{file}')")
"""
_TESSEL = """
import sys
from tessel.cli import main
file, store = sys.argv[1:]
sys.argv[1:] = ["import", file, "--store", store, "--symbol", "t", "--index", "at", "-o", "json"]
main()
"""
_TURNS = 5
_SUM = 'round(sum(price), 2), sum(size), max("at")'


def _run(source: str, *arguments: str) -> dict[str, float]:
    """Run a program; return its seconds, processor seconds and peak memory in MB."""
    compiled = {"PYTHONPYCACHEPREFIX": str(Path(arguments[0]).parent / "compiled")}
    others = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments],
        stdout=subprocess.DEVNULL,
        env={**others, **compiled},
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return {
        "seconds": time.perf_counter() - begun,
        "processor": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


def _write(path: Path, rows: int, seed: int) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    values = np.random.default_rng(seed)
    names = pa.array([f"symbol{number}" for number in range(500)])
    with path.open("wb") as file:
        for start in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - start)
            at = (np.arange(start, start + count) * 250_000).astype("datetime64[us]")
            table = pa.table(
                {
                    "at": pa.array(at),
                    "name": names.take(pa.array(values.integers(0, 500, count))),
                    "price": values.normal(100, 5, count).round(2),
                    "size": values.integers(1, 10_000, count),
                    "note": pa.array(values.normal(size=count)),
                }
            )
            csv.write_csv(table, file, csv.WriteOptions(include_header=start == 0))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the import of a CSV file.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a small run")
    given = parser.parse_args()
    rows = 50_000 if given.smoke else given.rows
    import duckdb

    import tessel as ts

    with tempfile.TemporaryDirectory() as folder:
        file, database, store = (Path(folder, name) for name in ("a.csv", "a.duckdb", "store"))
        _write(file, rows, given.seed)
        runs: dict[str, list[dict[str, float]]] = {"duckdb": [], "tessel": []}
        for _ in range(1 + (1 if given.smoke else _TURNS)):
            database.unlink(missing_ok=True)
            shutil.rmtree(store, ignore_errors=True)
            runs["duckdb"].append(_run(_DUCKDB, str(file), str(database)))
            runs["tessel"].append(_run(_TESSEL, str(file), str(store)))
        found = {
            name: {what: statistics.median(each[what] for each in counted) for what in counted[0]}
            for name, (_, *counted) in runs.items()
        }
        with duckdb.connect(str(database)) as connection:
            wanted = connection.execute(f"SELECT {_SUM} FROM t").fetchall()
        t = ts.open(str(store), create=False).read("t").to_arrow()
        assert len(t) == rows
        assert duckdb.sql(f"SELECT {_SUM} FROM t").fetchall() == wanted
        size = file.stat().st_size / 1e6
    for name, figures in found.items():
        shown = "  ".join(f"{what} {figure:8.2f}" for what, figure in figures.items())
        print(f"  {name:<8} {shown}  {size / figures['seconds']:6.0f} MB/s")
    ratios = (found["duckdb"][each] / found["tessel"][each] for each in ("seconds", "processor"))
    print("  rate against DuckDB's: {:.2f}, by processor time {:.2f} (aim 0.70)".format(*ratios))
    print(json.dumps({"rows": rows, "seed": given.seed, "megabytes": size, **found}))


if __name__ == "__main__":
    main()

"""A group-by over ten times its byte budget stays inside it, by the memory of a whole process.

Other queries take an allowance above it, for the units that are worked on.

The account of a query counts what it knows of; here the system says what the process took: its
anonymous memory, above that right after everything was imported and a small query had run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.budget import NONE, measured
from tessel import options
from tessel.api import open_store

MEBIBYTE = 1 << 20
COLUMNS = 8
PART_ROWS = 131_072

SCRIPT = """
import gc, json, sys
import pyarrow as pa
from benchmarks.measure import PeakMemory, anonymous_bytes
from tessel import options
from tessel.api import open_store
from tessel.clauses import QueryBuilder

folder, budget, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = open_store(folder)
query = QueryBuilder().groupby(key=f"k % {keys}").agg(
    n="size", low="min(c0)", **{f"s{at}": (f"c{at}", "sum") for at in range(1, 7)}
)
with options(live_bytes=budget, workers=2):
    for _ in store.scan("x").head(400_000).then(*query.clauses).iter_batches():
        pass
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = anonymous_bytes()
    with PeakMemory() as memory:
        rows = total = 0
        for batch in store.scan("x").then(*query.clauses).iter_batches():
            rows += batch.num_rows
            total += sum(batch.column("n").to_pylist())
print(json.dumps({"above": memory.peak - before, "groups": rows, "rows": total}))
"""


def written(folder: Path, size: int) -> int:
    """Write a table of so many bytes; return its rows."""
    rows = size // (8 * COLUMNS)
    random = np.random.default_rng(2)
    store = open_store(str(folder))
    with options(fsync=False):
        for start in range(0, rows, PART_ROWS):
            count = min(PART_ROWS, rows - start)
            part: dict[str, Any] = {"k": random.integers(0, 1 << 40, count)}
            part |= {f"c{at}": random.random(count) for at in range(COLUMNS - 1)}
            (store.append if start else store.write)("x", pa.table(part))
    return rows


@pytest.mark.parametrize(
    ("budget", "keys"),
    [
        (32 * MEBIBYTE, 100),
        pytest.param(64 * MEBIBYTE, 100, marks=pytest.mark.slow),
        pytest.param(64 * MEBIBYTE, 1_000, marks=pytest.mark.slow),
    ],
)
def test_a_process_stays_inside_the_budget(tmp_path: Path, budget: int, keys: int) -> None:
    rows = written(tmp_path / "store", 10 * budget)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "store"), str(budget), str(keys)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    found = json.loads(done.stdout)
    assert (found["rows"], found["groups"]) == (rows, keys)
    assert found["above"] <= budget, f"{found['above'] / MEBIBYTE:.1f} MiB"


ALLOWANCE = 32 * MEBIBYTE
"""Units of 65,536 rows at least, and what is made of them, of two workers."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "queries"),
    [
        (NONE, "^resample$|long bucket|top 1000"),
        ("10000", "extremes|appearance|value_counts|^sort$|resample, median"),
    ],
)
def test_queries_take_their_budget_and_an_allowance(
    tmp_path: Path, keys: str, queries: str
) -> None:
    budget = 64 * MEBIBYTE
    found = list(measured(keys, budget, re.compile(queries), 10, tmp_path))
    assert len(found) == queries.count("|") + 1
    for each in found:
        assert each.anonymous <= budget + ALLOWANCE, each

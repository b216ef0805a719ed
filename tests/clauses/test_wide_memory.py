"""What a filter that keeps one row in a hundred holds of a wide table: the survivors, and no more.

The figure itself is measured by ``benchmarks/wide_filter.py``; here its reasons are counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.wide_filter import SMOKE, batches
from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.options import options
from tests.clauses.helpers import events, fresh_store

Q = QueryBuilder()
ROWS, COLUMNS = 200_000, 40


@pytest.fixture(scope="module")
def store() -> Store:
    """Forty columns, in segments of 16 of them; one row in a hundred is picked, at random."""
    store = fresh_store()
    random = np.random.default_rng(5)
    columns = {f"c{n}": random.integers(0, 1 << 40, ROWS) for n in range(COLUMNS - 1)}
    columns["pick"] = random.integers(0, 100, ROWS)
    with options(segment_columns=16):
        store.write("x", pa.table(columns))
    return store


@pytest.mark.parametrize("workers", [1, 2])
def test_only_survivors_are_kept_of_what_is_read(store: Store, workers: int) -> None:
    with options(workers=workers, inline_bytes=0), events("segment.read") as read:
        found = store.read("x", query=Q.filter("pick == 0")).to_arrow()
    assert 0.005 * ROWS < found.num_rows < 0.02 * ROWS
    held = sum(event.attributes["bytes"] for event in read)
    assert sum(event.attributes["rows"] for event in read) == found.num_rows * 3  # column slices
    assert held <= 1.5 * found.nbytes
    assert held < 0.03 * ROWS * COLUMNS * 8


def test_a_predicate_in_the_middle_reads_as_little(store: Store) -> None:
    query = Q.apply("z", "c1 + c2").rename({"pick": "chosen"}).filter("chosen == 0 and c3 > 0")
    with options(workers=1), events("segment.read") as read:
        found = store.read("x", query=query).to_arrow()
    assert sum(event.attributes["bytes"] for event in read) <= 1.5 * found.nbytes


def test_the_benchmark_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.wide_filter", "--smoke"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert "target: 300 MB" in done.stdout
    picked = sum((batch["pick"].to_numpy() == 0).sum() for batch in batches(SMOKE))
    runs = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert [run["rows"] for run in runs] == [picked, picked]

"""The benchmark of the read scheduler runs and tells its figures as text and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_smoke_run_prints_a_table_and_json():
    script = Path(__file__).parents[3] / "benchmarks" / "scheduler.py"
    command = [sys.executable, str(script), "--smoke"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    told = json.loads(lines[-1])
    assert told["pages"] == 64
    names = [line["name"] for line in told["measurements"]]
    assert {"plan, all of 64 pages", "mmap: 10 × 4 KiB"} <= set(names)
    assert all(name in line for name, line in zip(names, lines[:-1], strict=True))
    assert all(line["microseconds"] > 0 for line in told["measurements"])

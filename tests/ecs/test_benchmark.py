"""The benchmark of the component manager runs and tells its figures as text and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_smoke_run_prints_a_table_and_json():
    script = Path(__file__).parents[2] / "benchmarks" / "ecs.py"
    command = [sys.executable, str(script), "--smoke"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    told = json.loads(lines[-1])
    assert told["entities"] == 2_000
    names = [line["name"] for line in told["measurements"]]
    assert "add" in names
    assert all(any(name in line for line in lines[1:-1]) for name in names)
    assert all(line["seconds"] > 0 for line in told["measurements"])

"""Tests that share a JVM are run by the same process, however many there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.distribution import group_of

ROOT = Path(__file__).parents[1]

_MODULE = """
import os
import pathlib
import time

import pytest

@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("kind", ["plain", "spark"])
def test(kind, number):
    time.sleep(0.05)
    with (pathlib.Path(__file__).parent / kind).open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_groups() -> None:
    assert group_of("tests/spark_exec/test_wire.py::test_a[1]") == "spark"
    assert group_of("tests/test_job.py::test_a_job_on_spark") == "spark"
    cluster, runtime = "tests/spark_exec/test_cluster.py", "tests/spark_exec/test_runtime.py"
    assert group_of(f"{cluster}::test_answers") == cluster
    assert group_of(f"{runtime}::test_an_end") == f"{runtime}::test_an_end"
    assert [file for file in (cluster, runtime) if not (ROOT / file).exists()] == []
    assert group_of("tests/test_job.py::test_a_job[2]") == "tests/test_job.py::test_a_job[2]"


def test_one_process_runs_all_of_a_group(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(_MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tests.distribution"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    workers = {kind: (tmp_path / kind).read_text().split() for kind in ("plain", "spark")}
    assert len(workers["plain"]) == len(workers["spark"]) == 6
    assert len(set(workers["spark"])) == 1
    assert set(workers["plain"]) - set(workers["spark"])

"""Nothing that a file says makes a kernel read or write outside of the memory that it was given."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest


def _ended(*given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.guard_pages", *given]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _check(cases: int, seed: int) -> None:
    ended = _ended("--cases", str(cases), "--seed", str(seed))
    assert ended.returncode == 0, (seed, ended.returncode, ended.stderr)
    counted = json.loads(ended.stdout.replace("'", '"'))
    assert counted["answers"] > cases
    assert counted["errors"] > cases
    assert counted["kernels"] >= 15


def test_forged_segments() -> None:
    _check(12, 7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_forged_segments(seed: int) -> None:
    _check(100, 1_000 + seed)


@pytest.mark.parametrize("stray", ["object", "kernel"])
def test_a_read_outside_ends_the_process(stray: str) -> None:
    ended = _ended("--cases", "12", "--seed", "7", "--stray", stray)
    assert -ended.returncode in (signal.SIGSEGV, signal.SIGBUS), ended

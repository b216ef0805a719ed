"""Ctrl-C ends a process wherever it comes, and leaves nothing half-written.

How soon it does is measured by ``python -m benchmarks.interrupts``.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

import tessel as ts
from benchmarks.interrupts import LOST_SECONDS, SCENARIOS, Outcome, interrupted, prepared
from tessel.store.maintenance.fsck import check_store

ROWS = 300_000
ON_SPARK = ("spark",)
MANY = ("start", "plan", "rolling median", "compact", "gc", "import", "write", "job")
"""Scenarios that get several interrupts: those where one was lost or late, or could tear a file."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return prepared(tmp_path_factory.mktemp("interrupts"), ROWS)


def check(outcome: Outcome, store: Path) -> None:
    """Check that a process ended by the interrupt, and that its store is whole."""
    assert outcome.seconds < LOST_SECONDS, outcome.said
    # Python ends by the signal itself, so that a shell sees what ended it.
    assert outcome.code == -signal.SIGINT, outcome.said
    assert outcome.said.splitlines()[-1:] in (["KeyboardInterrupt"], []), outcome.said
    opened = ts.open(str(store), create=False)
    assert not check_store(opened).damages
    for symbol in opened.symbols():
        opened.read(symbol)
    assert len(opened.read("s")) == ROWS


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ON_SPARK])
def test_ctrl_c_ends_a_process(store: tuple[Path, Path], name: str) -> None:
    for seed in range(3 if name in MANY else 1):
        check(interrupted(SCENARIOS[name], *store, random.Random(f"{name} {seed}")), store[0])


@pytest.mark.spark
def test_ctrl_c_ends_a_process_with_spark(store: tuple[Path, Path]) -> None:
    for seed in range(2):
        check(interrupted(SCENARIOS["spark"], *store, random.Random(seed)), store[0])

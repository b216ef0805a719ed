"""Look for races: random chains under what brings threads out of step (``make test-stress``).

``python -m tests.stress --chains 2000 --processes 2 [--spark] [--seed N] [--busy N]``. All settings
of a chain are asked at once from several threads on one store, with budgets of a few bytes, while
threads are switched every microsecond and other processes keep the cores busy. A case that differs
is kept in files and asked again twenty times, which tells a race from a wrong answer. Nothing is
shrunk: hypothesis would run the case again, and call a race flaky.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tests.clauses.chain_cases import ChainCase, Read, read_here
from tests.clauses.helpers import SETTINGS

_AGAIN = 20
_SWITCH_SECONDS = 1e-6


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep cores busy with processes that only count."""
    # They end with who started them, however that ends.
    spin = "import os\nstarter = os.getppid()\nwhile os.getppid() == starter: pass"
    running = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def _on_spark() -> Read:
    from tessel.spark_exec import SparkExecutor
    from tessel.spark_exec.runtime import spark_session

    executor = SparkExecutor(spark_session("local[2]"))

    def read(store: Store, query: QueryBuilder) -> pa.Table:
        return store.read("x", query=query, executor=executor).to_arrow()

    return read


def _tried(case: ChainCase, how: dict[str, Any], folder: Path | None) -> Exception | None:
    """Return how a case failed; on Spark its store is in a folder, which tasks can open."""
    try:
        if folder is None:
            case.check(**how)
        else:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                case.check(store=open_store(place), **how)
    except Exception as error:
        return error
    return None


def run_chains(chains: int, first: int, *, spark: bool) -> int:
    """Run so many chains in this process; return how many differed, each of which is told."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    how: dict[str, Any] = {"threads": len(SETTINGS)}
    if spark:
        # A job costs more than the chain: one setting, and both executors.
        how = {"under": SETTINGS[1:2], "threads": 2, "reads": [read_here, _on_spark()]}
    counted = collections.Counter()

    @seed(first)
    @settings(
        max_examples=chains,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case = ChainCase.drawn(data)
        counted["chains"] += 1
        error = _tried(case, how, folder)
        if error is not None:
            counted["differed"] += 1
            again = sum(_tried(case, how, folder) is not None for _ in range(_AGAIN))
            print(f"differed, and again {again} of {_AGAIN} times: {error!r}", flush=True)
            print("\n".join(getattr(error, "__notes__", ())), flush=True)
        if counted["chains"] % 100 == 0:
            print(f"seed {first}: {dict(counted)}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tessel-stress-") as place:
        folder = Path(place) if spark else None
        ask()
    print(f"seed {first}: {counted['chains']} chains, {counted['differed']} differed", flush=True)
    return counted["differed"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("--chains", type=int, default=2_000, help="in all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="busy cores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spark", action="store_true", help="on both executors")
    asked = parser.parse_args()
    if asked.processes == 1:
        with busy_cores(asked.busy):
            return 1 if run_chains(asked.chains, asked.seed, spark=asked.spark) else 0
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}", flush=True)
    each = ["--processes", "1", "--busy", "0", "--chains", str(asked.chains // asked.processes)]
    each += ["--spark"] if asked.spark else []
    with busy_cores(asked.busy):
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.stress", *each, "--seed", str(asked.seed + number)]
            )
            for number in range(asked.processes)
        ]
        return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())

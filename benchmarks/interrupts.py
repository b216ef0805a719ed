"""Measure how long after Ctrl-C a process ends: at its start, in a plan, in each kind of work.

    python -m benchmarks.interrupts              # the figures
    python -m benchmarks.interrupts --smoke      # one interrupt a scenario, small data
    python -m benchmarks.interrupts rolling gc   # some scenarios

Each run is a process that gets one SIGINT at a seeded random moment of its work, which it repeats
for ever: an interrupt that is lost shows as a process that does not end. Aim: each within a second.
Prints the median and the worst of each scenario, by the clock and (Linux) in processor time, which
other work on the machine does not lengthen, and one line of JSON. The scenario "nothing" only has
the libraries imported: what the end of such a process takes anyway.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOST_SECONDS", "SCENARIOS", "Outcome", "Scenario", "interrupted", "prepared"]

LOST_SECONDS = 300
"""A process that has not ended so long after its interrupt has lost it."""

_BEGIN = "print('stage', flush=True)\n"
_OPEN = """
import datetime, sys
from dataclasses import dataclass
from typing import ClassVar
import numpy as np, pyarrow as pa
import tessel as ts
uri, file = sys.argv[1:]
store = ts.open(uri)
Q = ts.QueryBuilder()
"""


@dataclass(frozen=True)
class Scenario:
    """What a process does.

    Attributes
    ----------
    source
        Python. It prints a line when the moment may come, and never ends by itself.
    stages
        So many lines it prints; the moment is soon after one of them.
    spread_seconds
        The moment is at most so long after the line.
    """

    source: str
    stages: int = 1
    spread_seconds: float = 2.0


def _queries(query: str) -> Scenario:
    loop = f"while True:\n    store.read('s', query={query})\n"
    return Scenario(_OPEN + _BEGIN + loop)


def _loop(work: str) -> Scenario:
    lines = "".join(f"    {line}\n" for line in work.strip().splitlines())
    return Scenario(_OPEN + _BEGIN + "while True:\n" + lines)


_OWN = '''
@ts.register
@dataclass(frozen=True)
class Walk(ts.Clause):
    """Walks over its rows, slowly."""

    name: ClassVar[str] = "walk"

    @property
    def structure(self):
        return ts.ClauseInfo(ts.Structure.ROW_SLICE, ts.Structure.ROW_SLICE)

    def output_schema(self, input_schema):
        return input_schema

    def process(self, unit):
        total = 0.0
        for at, value in enumerate(unit.column("v").to_numpy().tolist() * 200):
            total += value
            if at % 65536 == 0:
                unit.check_cancelled()
        return unit
'''
_START = (
    _BEGIN
    + _OPEN
    + _BEGIN
    + "store.read('s', query=Q.filter('v > 0').groupby('k').agg(m=('v', 'mean')))\n"
    + _BEGIN
    + "while True:\n    store.read('s', query=Q.resample('1h').agg(m=('v', 'mean')))\n"
)
_AGGREGATES = ("median", "nunique", "std", "first", "min")

SCENARIOS: dict[str, Scenario] = {
    "nothing": _loop("pass"),
    "start": Scenario(_START, stages=3, spread_seconds=0.5),
    "plan": _loop(
        "table = store.scan('s')\n"
        "for at in range(100):\n"
        "    table = table.apply(f'x{at}', f'v + {at}').filter(f'x{at} > 1')\n"
        "table.plan()\n"
    ),
    **{
        f"rolling {name}": _queries(f"Q.rolling(1000).agg(m=('v', {name!r}))")
        for name in _AGGREGATES
    },
    "rolling time": _queries("Q.rolling('1000s', by='k').agg(m=('v', 'mean'), q=('v', 'median'))"),
    "groupby median": _queries("Q.groupby('k').agg(m=('v', 'median'), n=('v', 'nunique'))"),
    "resample": _queries("Q.resample('7s').agg(m=('v', 'median'), s=('v', 'sum'))"),
    "sort": _queries("Q.sort('v')"),
    "distinct": _queries("Q.distinct('v')"),
    "rank": _queries("Q.rank({'r': 'v'}, by='k')"),
    "ewm": _queries("Q.ewm(span=30, by='k').agg(m=('v', 'mean'), s=('v', 'std'))"),
    "fill and cumulate": _queries("Q.fill('v', by='k').cum_sum('v', by='k').shift('v', 3, by='k')"),
    "join": _queries("Q.join('s', on='v')"),
    "join_asof": _queries("Q.join_asof('s', by='k')"),
    "text": _queries("Q.apply('w', 'upper(w)').filter(ts.col('w').contains('A')).distinct('w')"),
    "clause of one's own": Scenario(
        # Arrow's first `to_numpy` imports pandas, and drops an interrupt that comes meanwhile.
        "import pandas\n"
        + _OPEN
        + _OWN
        + _BEGIN
        + "while True:\n    store.read('s', query=Q.then(Walk()))\n"
    ),
    "write": _loop("store.write('w', store.read('s').to_arrow(), index='t')"),
    "append": _loop("store.append('a', pa.table({'n': np.arange(1000)}))"),
    "compact": _loop(
        "with ts.options(segment_rows=1000):\n"
        "    store.write('c', store.read('s', query=Q.head(50_000)).to_arrow(), index='t')\n"
        "store.compact('c')\n"
    ),
    "gc": _loop(
        "for at in range(20):\n"
        "    store.write('g', pa.table({'n': np.random.default_rng().normal(size=1000)}))\n"
        "store.gc(minimum_age=datetime.timedelta(0), dry_run=False)\n"
    ),
    "import": _loop(
        "from tessel.cli import main\n"
        "try:\n"
        "    sys.argv[1:] = ['import', file, '--store', uri, '--symbol', 'i']\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    if end.code == 130: raise KeyboardInterrupt from None\n"
        "    assert not end.code, end.code\n"
    ),
    "job": _loop(
        "with store.scan('s').rolling(1000).agg(m=('v', 'median')).submit() as job:\n"
        "    job.result()\n"
    ),
    "spark": Scenario(
        _OPEN
        + _BEGIN
        + "while True:\n    store.read('s', executor='spark', query=\n"
        + "        Q.filter('v > 0').groupby('k').agg(m=('v', 'median')))\n",
        spread_seconds=40.0,
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How a process ended, and what it took from the interrupt on.

    Attributes
    ----------
    code, said
        Its exit code, and what it wrote to stderr.
    seconds, processor_seconds
        From the interrupt to its end, by the clock and of all processors.
    """

    code: int
    said: str
    seconds: float
    processor_seconds: float


def prepared(folder: Path, rows: int) -> tuple[Path, Path]:
    """Return a store with the symbol ``s``, and a file to import, of so many rows.

    A symbol ``a`` is there to be appended to.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    import tessel as ts

    values = np.random.default_rng(0)
    table = pa.table(
        {
            "t": pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us")),
            "v": values.normal(size=rows),
            "k": values.integers(0, 500, rows),
            "w": pa.array([f"word {number}" for number in values.integers(0, rows, rows)]),
        }
    )
    store = ts.open(folder / "store")
    store.write("s", table, index="t")
    store.write("a", pa.table({"n": np.arange(10)}))
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    return folder / "store", folder / "rows.csv"


def interrupted(scenario: Scenario, store: Path, rows: Path, random_: random.Random) -> Outcome:
    """Run a scenario, interrupt it at a random moment, and return how it ended."""
    command = [sys.executable, "-c", scenario.source, str(store), str(rows)]
    stage = random_.randrange(scenario.stages)
    wait_seconds = random_.random() * scenario.spread_seconds
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_interrupts,
    ) as process:
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen += line == "stage\n"
            if seen > stage:
                break
        time.sleep(wait_seconds)
        before = _processor_seconds(process.pid) + _seconds_of_children()
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        try:
            _, said = process.communicate(timeout=LOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
            said = f"the interrupt was lost\n{said}"
    seconds = time.perf_counter() - sent
    return Outcome(process.returncode, said, seconds, _seconds_of_children() - before)


def _hear_interrupts() -> None:
    """Undo that a shell lets what it runs in the background ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process that runs; 0 where the system does not tell."""
    file = Path(f"/proc/{process}/stat")
    if not file.exists():
        return 0.0
    user, system = file.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _seconds_of_children() -> float:
    """Return the processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure how long after Ctrl-C a process ends.")
    parser.add_argument("names", nargs="*", help="scenarios; by default all but Spark")
    parser.add_argument("--smoke", action="store_true", help="a small run")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=10, help="interrupts a scenario")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = given.names or [name for name in SCENARIOS if name != "spark"]
    runs, rows = (1, 50_000) if given.smoke else (given.runs, given.rows)
    random_ = random.Random(given.seed)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store, file = prepared(Path(folder), rows)
        for name in names:
            found = [interrupted(SCENARIOS[name], store, file, random_) for _ in range(runs)]
            seconds = [each.seconds for each in found]
            work = [each.processor_seconds for each in found]
            figures[name] = {
                "median": statistics.median(seconds),
                "worst": max(seconds),
                "processor_median": statistics.median(work),
                "processor_worst": max(work),
                "lost": sum(each.seconds >= LOST_SECONDS for each in found),
            }
            shown = "  ".join(f"{what} {figure:6.2f}" for what, figure in figures[name].items())
            print(f"  {name:<24} {shown}", flush=True)
    print(json.dumps({"rows": rows, "runs": runs, "seed": given.seed, "seconds": figures}))


if __name__ == "__main__":
    main()

"""What ``import tessel`` costs beside what it stands on: ``python -m benchmarks.import_time``.

They are imported in turns, each time in a new process; medians of many; the aim is a ratio of at
most 1.3. Public names are imported when they are first used; the last line has all of them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

OURS = "import tessel"
EVERYTHING = "from tessel import *"
BASE = "import numpy, pyarrow.compute"
AIM = 1.3

_PROGRAM = (
    "import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
)


def seconds(statement: str) -> float:
    """Return how long a new process takes for an import, the start of the interpreter excluded."""
    command = [sys.executable, "-c", _PROGRAM.format(statement=statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=21)
    repeat = parser.parse_args().repeat
    statements = (BASE, OURS, EVERYTHING)
    for statement in statements:
        seconds(statement)
    rounds = [[seconds(statement) for statement in statements] for _ in range(repeat)]
    base, ours, everything = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"{BASE}: {base * 1e3:.0f} ms")
    print(f"{OURS}: {ours * 1e3:.0f} ms, ratio {ours / base:.2f} (at most {AIM})")
    print(f"{EVERYTHING}: {everything * 1e3:.0f} ms, ratio {everything / base:.2f}")
    print(f"medians of {repeat}")


if __name__ == "__main__":
    main()

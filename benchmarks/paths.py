"""Count how many of our functions a trip walks through: ``python -m benchmarks.paths``.

A group-by behind a filter, a read of one column, the first ten rows and a write run twice on five
segments, with one worker; of the second run, ``sys.setprofile`` counts the files and functions of
the package that were entered, and the calls. The limits are those of the design; what passes one is
marked. Prints a table and one line of JSON. ``--functions TRIP`` lists a trip's functions by calls.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pyarrow as pa

import tessel as ts

_PACKAGE = str(Path(ts.__file__).parent)
_SEGMENTS = 5


@dataclass(frozen=True)
class Limits:
    """What a trip may walk through.

    Attributes
    ----------
    files, functions
        Of the package.
    calls
        Of those functions; None for any.
    """

    files: int
    functions: int
    calls: int | None


LIMITS = {
    "filter and group by": Limits(40, 250, 1_000),
    "one column": Limits(20, 120, 400),
    "first ten rows": Limits(20, 120, 300),
    "write": Limits(50, 300, None),
}


def counted(run: Callable[[], object]) -> Counter[tuple[str, int, str]]:
    """Return how often each function of the package is called by a run: by file, line and name."""
    calls: Counter[tuple[str, int, str]] = Counter()

    def seen(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE):
            calls[code.co_filename, code.co_firstlineno, code.co_name] += 1

    run()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def trips(rows: int, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the trips, by name, on a symbol of five segments of so many rows."""
    random = np.random.default_rng(3)
    count = _SEGMENTS * rows
    table = pa.table(
        {
            "t": pa.array(np.arange(count), pa.timestamp("us")),
            "k": random.integers(0, 3_000, count),
            "v": np.round(random.random(count) * 100, 2),
            "w": random.random(count),
        }
    )
    store = ts.open(str(folder / "store"))
    with ts.options(segment_rows=rows):
        store.write("x", table, index="t")
    query = ts.QueryBuilder().filter("v > 30").groupby("k").agg(s="sum(v)", n="count(v)")
    few = table.slice(0, 1_000)
    return {
        "filter and group by": lambda: store.read("x", query=query),
        "one column": lambda: store.read("x", columns=["v"]),
        "first ten rows": lambda: store.read("x", query=ts.QueryBuilder().head(10)),
        "write": lambda: store.write("y", few, index="t"),
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a segment")
    parser.add_argument("--functions", choices=LIMITS, help="list the functions of a trip")
    parser.add_argument("--smoke", action="store_true", help="small segments")
    given = parser.parse_args()
    rows = 5_000 if given.smoke else given.rows
    lines = []
    print(f"{'trip':22}{'files':>14}{'functions':>16}{'calls':>18}")
    with tempfile.TemporaryDirectory() as folder, ts.options(workers=1):
        for name, run in trips(rows, Path(folder)).items():
            calls = counted(run)
            if name == given.functions:
                for (file, line, function), times in calls.most_common():
                    place = Path(file).relative_to(_PACKAGE)
                    print(f"{times:7}  {function}  {place}:{line}")
            limits = LIMITS[name]
            found = len({file for file, _, _ in calls}), len(calls), calls.total()
            allowed = limits.files, limits.functions, limits.calls
            told = [
                f"{number:,} of {most:,}" if most is not None else f"{number:,}"
                for number, most in zip(found, allowed, strict=True)
            ]
            missed = any(
                most is not None and number > most
                for number, most in zip(found, allowed, strict=True)
            )
            print(f"{name:22}{told[0]:>14}{told[1]:>16}{told[2]:>18}", "  missed" * missed)
            lines.append(
                {"trip": name, "files": found[0], "functions": found[1], "calls": found[2]}
            )
    print(json.dumps({"rows": rows, "segments": _SEGMENTS, "lines": lines}))


if __name__ == "__main__":
    main()

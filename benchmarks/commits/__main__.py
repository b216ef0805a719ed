"""Measure and print: ``python -m benchmarks.commits --help``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.commits import appends, opening, reads, small, symbols, writers
from benchmarks.commits.stores import installed
from tessel.display import Table, render_text

_SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
_PARTS = ("small", "symbols", "append", "growth", "writers", "opening", "reads")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(_PARTS)}: all")
    parser.add_argument("--symbols", type=int, default=1_000, help="touched in one commit")
    parser.add_argument("--rounds", type=int, default=3, help="how often they are touched")
    parser.add_argument("--repeat", type=int, default=21, help="appends of each size")
    parser.add_argument("--segments", type=int, nargs="*", default=[100_000, 10_000_000])
    parser.add_argument("--real-segments", type=int, default=10_000, help="in stores of others")
    parser.add_argument(
        "--symbol-counts", type=int, nargs="*", default=[100, 10_000, 100_000], metavar="N"
    )
    parser.add_argument("--changes", type=int, default=1_000, help="of one symbol, of each kind")
    parser.add_argument("--changes-of-others", type=int, default=10, help="in other stores")
    parser.add_argument("--appends", type=int, default=2_500, help="of one row, which are read")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--commits", type=int, default=25, help="of each writer")
    parser.add_argument("--folder", type=Path, help="where the stores are made; by default /tmp")
    found = parser.parse_args()
    unknown = set(found.parts) - set(_PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    return found


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    parts = arguments.parts or _PARTS
    kinds, missing = installed()
    notes = [f"{kind.name} {kind.version}: {kind.says}" for kind in kinds]
    notes += [f"{name} is not installed: no figures of it" for name in missing]
    sizes = [size for size in _SIZES if size <= max(arguments.segments)]
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"load of the machine: {load}; {os.cpu_count()} CPUs\n")

    def show(table: Table) -> None:
        print(render_text(table), flush=True)

    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        folder = Path(made)
        if "small" in parts:
            lines = []
            for kind in kinds:
                lines += small.measure(kind, folder, arguments.symbols, arguments.rounds)
            show(small.table(lines, arguments.symbols, notes))
        if "symbols" in parts:
            lines, left_out = [], []
            for kind in kinds:
                ours = kind.name == "tessel"
                changes = arguments.changes if ours else arguments.changes_of_others
                for count in arguments.symbol_counts:
                    if count > (kind.most_symbols or count):
                        left_out.append(f"{kind.name} is left out at {count}: making them is slow")
                        continue
                    lines += symbols.measure(kind, folder, count, changes)
                    print(*lines[-3:], sep="\n", file=sys.stderr, flush=True)
            show(symbols.table(lines, [*left_out, *notes]))
        if "append" in parts:
            show(appends.timed(folder, arguments.segments, arguments.repeat))
        if "growth" in parts:
            show(appends.growth(folder, sizes, kinds, arguments.real_segments))
            show(appends.growth_of_symbols(folder, [1, 100, 10_000, 100_000]))
        if "writers" in parts:
            lines = [
                writers.measure(kind, folder, arguments.writers, arguments.commits)
                for kind in kinds
            ]
            show(writers.table(lines, notes))
        if "opening" in parts:
            show(opening.measure([1, 1_000, 100_000]))
        if "reads" in parts:
            show(reads.measure(folder, arguments.appends, max(2, arguments.repeat // 4)))


if __name__ == "__main__":
    main()

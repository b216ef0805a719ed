"""Measure and print: ``python -m benchmarks.limits --help``."""

from __future__ import annotations

import argparse
import sys

import tessel as ts
from benchmarks.limits import ALLOWED, CASES, Case, measured
from tessel.options import Options


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for and print a line for each; return how many slopes are too steep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="TEXT", help="of a case's name; all by default")
    parts = parser.parse_args(arguments).parts
    chosen = [case for case in CASES if not parts or any(part in case.name for part in parts)]
    print(f"{'slope':>6}  {'most':>9}  {'ms':>8}  case")
    with ts.options(workers=1, **NO_LIMITS):
        steep = [case.name for case in chosen if _is_steep(case)]
    told = f"{len(steep)} of {len(chosen)} slopes are above {ALLOWED}"
    print("\n".join([told, *(f"- {name}" for name in steep)]))
    return len(steep)


NO_LIMITS = {name: 1 << 40 for name in Options.__dataclass_fields__ if name.startswith("max_")}
"""Sizes are doubled past what is allowed by default."""


def _is_steep(case: Case) -> bool:
    found = measured(case, ALLOWED)
    is_steep = found.slope > ALLOWED
    mark = "  (calls)" if found.of_calls is not None else ""
    mark += "  <- too steep" if is_steep else ""
    line = f"{found.slope:6.2f}  {found.sizes[-1]:9,}  {found.seconds[-1] * 1e3:8.1f}  {case.name}"
    print(line + mark, flush=True)
    return is_steep


if __name__ == "__main__":
    sys.exit(min(main(), 1))

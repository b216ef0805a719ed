"""Ask for long: ``python -m tests.forms --cases 5000 [--seed N] [--only chains|bound]``.

A case that differs is printed with its table, its query and how both were stored and read. Nothing
is shrunk: ``pytest tests/forms --hypothesis-seed`` does that.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.forms.cases import check_bound_chain, check_chain

CHECKS = {"chains": check_chain, "bound": check_bound_chain}


def ask(name: str, cases: int, first: int) -> int:
    """Run so many cases; return how many differed."""
    counted: Counter[str] = Counter()

    @seed(first)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def one(data: st.DataObject) -> None:
        counted["cases"] += 1
        try:
            CHECKS[name](data)
        except Exception:
            counted["differed"] += 1
            print(f"{name}, seed {first}, case {counted['cases']}:", flush=True)
            traceback.print_exc(file=sys.stdout)
        if counted["cases"] % 500 == 0:
            print(f"{name}, seed {first}: {dict(counted)}", flush=True)

    one()
    print(f"{name}, seed {first}: {counted['cases']} cases, {counted['differed']} differed")
    return counted["differed"]


def main() -> int:
    """Run both kinds of cases."""
    parser = argparse.ArgumentParser(prog="python -m tests.forms")
    parser.add_argument("--cases", type=int, default=2_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", choices=sorted(CHECKS))
    asked = parser.parse_args()
    first = time.time_ns() % 1_000_000 if asked.seed is None else asked.seed
    names = [asked.only] if asked.only else sorted(CHECKS)
    return 1 if sum(ask(name, asked.cases, first) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare with another version: ``python -m tests.against_old SEED --old PYTHON``.

``PYTHON`` is the interpreter of an environment in which the other version is installed:

    python -m build --wheel --outdir /tmp/old PATH_OF_ITS_CHECKOUT
    python -m venv /tmp/old/venv && /tmp/old/venv/bin/pip install /tmp/old/*.whl

Random chains on random tables, cut into segments at random; one table in four is repeated to some
hundred thousand rows. A query whose answers or errors differ is printed, with its store's folder.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tessel.api import open_store
from tessel.options import options
from tests.clauses.chain_cases import ChainCase
from tests.clauses.helpers import SETTINGS
from tests.strategies.queries import build

_MOST_ROWS = 300_000
_EXPLODING = ("join", "explode", "merge", "concat")
"""Verbs whose answers on repeated tables could be larger than memory."""


class Version:
    """A process that answers queries by one version."""

    def __init__(self, python: str, *, isolated: bool) -> None:
        worker = Path(__file__).with_name("worker.py")
        flags = ["-I"] if isolated else []
        self._process = subprocess.Popen(
            [python, *flags, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.place: str = self._read()["tessel"]

    def ask(self, request: str) -> None:
        """Send a query."""
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the answer to the oldest query."""
        return self._read()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"a version ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found


def _repeated(case: ChainCase, chance: random.Random) -> ChainCase:
    """Return the case with many of the rows of ``x``, in one to three segments."""
    cut = case.symbols["x"]
    if not len(cut.table):
        return case
    numbers = np.random.default_rng(chance.getrandbits(32))
    rows = np.sort(numbers.integers(0, len(cut.table), chance.randrange(_MOST_ROWS)))
    table = cut.table.take(pa.array(rows)).combine_chunks()
    # As many stretches of rows pass, at rows of the larger table.
    fronts = sorted({chance.randrange(max(len(rows), 1)) for _ in cut.passing if len(rows)})
    passing = [(0, front, front) for front in fronts]
    larger = dataclasses.replace(cut, parts=[table], segment_rows=1 << 17, passing=passing)
    return dataclasses.replace(case, symbols={**case.symbols, "x": larger})


def compare(old: Version, new: Version, first: int, queries: int, folder: Path) -> int:
    """Ask both versions; return how many answers differed."""
    counted: collections.Counter[str] = collections.Counter()
    chance = random.Random(first)

    @seed(first)
    @settings(
        max_examples=queries,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case = ChainCase.drawn(data)
        query = build(case.steps).to_json()
        if chance.random() < 0.25 and not any(verb in json.dumps(query) for verb in _EXPLODING):
            case = _repeated(case, chance)
            counted["of many rows"] += 1
        place = folder / str(counted["queries"])
        with options(fsync=False):
            case.write(open_store(str(place)))
        setting = dict(chance.choice(SETTINGS[:2]))
        request = json.dumps({"store": str(place), "query": query, "options": setting})
        for version in (old, new):
            version.ask(request)
        before, after = old.answer(), new.answer()
        counted["queries"] += 1
        counted["errors"] += "error" in before
        if before == after:
            shutil.rmtree(place)
        else:
            counted["differed"] += 1
            print(f"differed: {request}\n  old {before}\n  new {after}", flush=True)
        if counted["queries"] % 500 == 0:
            print(dict(counted), flush=True)

    ask()
    print(f"seed {first}: {dict(counted)}", flush=True)
    return counted["differed"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.against_old")
    parser.add_argument("seed", type=int)
    parser.add_argument("--old", required=True, help="the interpreter of the other version")
    parser.add_argument("--queries", type=int, default=2_000)
    asked = parser.parse_args()
    os.environ["TESSEL_FSYNC"] = "0"
    old, new = Version(asked.old, isolated=True), Version(sys.executable, isolated=False)
    print(f"old: {old.place}\nnew: {new.place}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="tessel-against-old-"))
    try:
        return 1 if compare(old, new, asked.seed, asked.queries, folder) else 0
    finally:
        old.end()
        new.end()


if __name__ == "__main__":
    sys.exit(main())

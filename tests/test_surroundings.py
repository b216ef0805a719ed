"""Tessel where bytecode, the home or its own folder cannot be written, and without asserts.

Each case is a process with warnings as errors that imports, asks a query and runs the demo.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import tessel

PROGRAM = """
import numpy as np
import tessel as ts
from tessel import *
from tessel.cli import main

store = ts.open("a store")
store.write("x", {"k": np.arange(300_000) % 77, "v": np.arange(300_000)})
query = ts.QueryBuilder().filter("v >= 77").groupby("k").agg(n=("v", "count")).sort("k").head(2)
found = store.read("x", query=query).to_arrow().to_pydict()
if found != {"k": [0, 1], "n": [3896, 3896]}:
    raise SystemExit(f"another answer: {found}")
sys.argv = ["tessel", "demo", "--store", "flights", "--engine", "local"]
main()
"""
NOBODY = """
import pwd
def _missing(who):
    raise KeyError(who)
pwd.getpwuid = pwd.getpwnam = _missing
"""


@dataclass(frozen=True)
class Surroundings:
    """What a process finds: flags, variables (None: not set), and what is done beforehand."""

    name: str
    flags: tuple[str, ...] = ()
    variables: dict[str, str | None] = field(default_factory=dict)
    before: str = ""
    prepare: Callable[[Path], dict[str, str]] = lambda tmp_path: {}


def _read_only_home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").chmod(0o555)
    return {}


def _read_only_package(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "site-packages" / "tessel"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(tessel.__path__[0]), package, ignore=unwanted)
    for path in [*package.rglob("*"), package, package.parent]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return {"PYTHONPATH": str(package.parent)}


CASES = [
    Surroundings("as usual"),
    Surroundings("no bytecode", variables={"PYTHONDONTWRITEBYTECODE": "1"}),
    Surroundings("a read-only home", prepare=_read_only_home),
    Surroundings("no home", variables={"HOME": None}, before=NOBODY),
    Surroundings("a read-only package", prepare=_read_only_package),
    Surroundings("no asserts and docstrings", flags=("-OO",)),
]


def _may_not_overrule_modes() -> None:
    """Take from root, in a child, the right to write whatever modes say."""
    if os.getuid() == 0:
        library = ctypes.CDLL(None)
        drop_from_bounding_set, override_access, read_and_search = 24, 1, 2
        for capability in (override_access, read_and_search):
            library.prctl(drop_from_bounding_set, capability, 0, 0, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_runs_in_any_surroundings(tmp_path: Path, case: Surroundings) -> None:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    source = str(Path(tessel.__path__[0]).parent)
    variables: dict[str, str | None] = {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": None,
        "PYTHONPATH": source,
        **case.variables,
        **case.prepare(tmp_path),
    }
    environment = {**os.environ, **variables}
    code = f"import sys\n{case.before}{PROGRAM}"
    done = subprocess.run(
        [sys.executable, *case.flags, "-W", "error", "-c", code],
        env={name: value for name, value in environment.items() if value is not None},
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
        preexec_fn=_may_not_overrule_modes,
    )
    for path in tmp_path.rglob("*"):  # so that what is temporary can be removed
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"a store", "flights"}


REFUSED = """
import tessel as ts
from tessel.errors import TesselError
store = ts.open("memory://refused")
store.write("x", {"k": [1]})
store.write("y", {"k": ["a"]})
try:
    store.scan("x").join(store.scan("y"), on="k").plan()
except TesselError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("flags", [(), ("-O",), ("-OO",)], ids=["", "-O", "-OO"])
def test_keys_that_are_not_compared_are_refused_when_planned(flags: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *flags, "-c", REFUSED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "SchemaMismatchError\n"

"""Run lanes: ``python -m tests.versions [--turn] [LANE...]``; without arguments, all of them.

Each lane has an environment of its own in a temporary directory, which is removed at its end. A
lane whose Python is not to be had is told of, and so is each that failed; the exit code is 1 then.
Only a missing Python of a lane that names several is no failure: the next of them is taken.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.versions.lanes import LANES, TURNS, Lane, Versions

ROOT = Path(__file__).parents[2]
_LOWER_BOUND = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([^,;]+)$")


def turn_of(commits: int) -> tuple[str, ...]:
    """Return the lanes that CI runs at a commit with so many before it."""
    return TURNS[commits % len(TURNS)]


def lower_bounds(project: dict[str, object]) -> list[str]:
    """Return a constraint for each requirement of Tessel and its extras: its lower bound."""
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    asked = [*project["dependencies"], *(each for name in extras for each in extras[name])]
    found = {match[1]: match[2] for each in asked if (match := _LOWER_BOUND.match(each))}
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def python_for(versions: tuple[str, ...]) -> tuple[list[str], dict[str, str]] | None:
    """Return a command that runs the first Python to be had, and what it needs as variables.

    A command that is on the path may be a shim that runs only where a variable chooses a version.
    """
    for version in versions:
        for command, more in _candidates(version):
            if _runs(command, more, version):
                return command, more
    return None


def _candidates(version: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    yield [sys.executable], {}
    yield [f"python{version}"], {}
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
        for each in listed.stdout.split():
            if each == version or each.startswith(f"{version}."):
                yield [f"python{version}"], {"PYENV_VERSION": each}
    yield ["py", f"-{version}"], {}


def _runs(command: list[str], more: dict[str, str], version: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run(
        [*command, "-c", code], env={**os.environ, **more}, capture_output=True, text=True
    )
    return found.returncode == 0 and found.stdout.strip() == version


def run_lane(lane: Lane, wheel: Path, directory: Path) -> bool:
    """Install what a lane names into a new environment and run it; return whether it passed."""
    found = python_for(lane.pythons)
    if found is None:
        print(f"== {lane.name}: no Python {' or '.join(lane.pythons)} is to be had here")
        return False
    command, more = found
    subprocess.run([*command, "-m", "venv", directory], env={**os.environ, **more}, check=True)
    python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
    extras = f"[{','.join(lane.extras)}]" if lane.extras else ""
    what = [f"{wheel}{extras}", *lane.beside, *_constraints(lane.versions, directory)]
    # No `pip` of the environment of who calls: neither its options nor its modules.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    install = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    if subprocess.run([*install, "--quiet", *what], env=environment).returncode:
        return False
    told = "import sys, numpy, pyarrow; print(sys.version.split()[0], 'numpy', numpy.__version__,"
    told += " 'pyarrow', pyarrow.__version__, flush=True)"
    subprocess.run([python, "-c", told], env=environment, check=True)
    if not lane.tests:
        trial = [python, "-I", "-W", "error", ROOT / "tests/versions/trial.py", *lane.extras]
        trial += lane.trials
        return subprocess.run(trial, env=environment, cwd=directory).returncode == 0
    # The tests import the source tree, whose metadata is that of the wheel.
    options = ["-m", "not slow", "-n", "3", "-q", "-p", "no:cacheprovider"]
    if lane.flags:  # pytest warns that asserts outside of tests are gone, which is what is tried
        options += ["-W", "ignore::pytest.PytestConfigWarning"]
    tests = [python, *lane.flags, "-m", "pytest", *options, *lane.tests]
    return subprocess.run(tests, env=environment, cwd=ROOT).returncode == 0


def _constraints(versions: Versions, directory: Path) -> list[str | Path]:
    if versions is Versions.NEWEST:
        return ["--upgrade", "--upgrade-strategy=eager"]
    if versions is Versions.PINNED:
        return ["-c", ROOT / "constraints.txt"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = directory / "oldest.txt"
    listed.write_text("\n".join(lower_bounds(project)), encoding="utf-8")
    return ["-c", listed]


def _wheel(directory: Path) -> Path:
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", directory, ROOT]
    done = subprocess.run(build, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    (wheel,) = directory.glob("*.whl")
    return wheel


def _commits() -> int:
    listed = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(listed.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions")
    parser.add_argument("lanes", nargs="*", metavar="LANE", help="by default all of them")
    parser.add_argument("--turn", action="store_true", help="those of this commit's turn")
    asked = parser.parse_args()
    by_name = {lane.name: lane for lane in LANES}
    names = turn_of(_commits()) if asked.turn else asked.lanes or list(by_name)
    if unknown := sorted(set(names) - set(by_name)):
        parser.error(f"no lane {', '.join(unknown)}; there are {', '.join(by_name)}")
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="tessel-versions-") as folder:
        wheel = _wheel(Path(folder))
        for name in names:
            print(f"== {name}", flush=True)
            start = time.monotonic()
            directory = Path(folder) / name
            passed = run_lane(by_name[name], wheel, directory)
            shutil.rmtree(directory, ignore_errors=True)
            outcomes.append((name, passed, time.monotonic() - start))
    for name, passed, seconds in outcomes:
        print(f"{name:14} {'passed' if passed else 'FAILED'} {seconds:6.0f} s")
    return 0 if all(passed for _, passed, _ in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``kill -9`` at every system call of a commit, in a real process; see also ``test_durability``.

strace delivers the signal as the call is entered. Where it is missing, or processes may not be
traced, the same points are hit from inside: the process kills itself before the call.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.store import Repository
from tests.store.helpers import read

BEFORE = pa.table({"x": [1, 2, 3]})
AFTER = pa.table({"x": [4, 5, 6, 7]})
CALLS = ("openat", "write", "fsync", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat")

_COMMIT = """
import sys, threading
import pyarrow as pa
from tessel.store import Repository
from tessel.store.objects import base
# strace counts by thread: what threads put, import or read ahead is the same one's in every run.
import pyarrow.pandas_compat, pyarrow.vendored.version
base._MOST_THREADS = 1
repository = Repository.open(sys.argv[1])
for thread in set(threading.enumerate()) - {threading.main_thread()}:
    thread.join()
open(sys.argv[1] + ".begun", "w").close()
repository.write("a", pa.table({"x": [4, 5, 6, 7]}))
print("acknowledged", flush=True)
"""

_KILLS_ITSELF = """
import os, signal, sys
call, at = sys.argv[2], int(sys.argv[3])
real, seen = getattr(os, call), 0
def counted(*arguments, **named):
    global seen
    if os.path.exists(sys.argv[1] + ".begun"):
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)
setattr(os, call, counted)
"""


@cache
def strace() -> str | None:
    """Return the path of an strace that can trace here."""
    found = shutil.which("strace")
    if found is None:
        return None
    done = subprocess.run([found, "-e", "trace=fsync", "true"], capture_output=True)
    return found if done.returncode == 0 else None


def _store(path: Path) -> Path:
    Repository.open(path).write("a", BEFORE)
    return path


def _kills(tmp_path: Path) -> Iterator[list[str]]:
    """Yield the commands that run a commit, each killed at another call; ``{}`` is the store."""
    python = [sys.executable, "-X", "frozen_modules=on"]
    tracer = strace()
    if tracer is None:
        program = _KILLS_ITSELF + _COMMIT
        for call in ("open", "write", "fsync", "link", "unlink", "mkdir"):
            place = _store(tmp_path / f"dry-{call}")
            dry = [*python, "-c", program + "print(seen)", str(place), call, "0"]
            seen = subprocess.run(dry, capture_output=True, text=True, check=True).stdout.split()
            for at in range(1, int(seen[-1]) + 1):
                yield [*python, "-c", program, "{}", call, str(at)]
        return
    log = tmp_path / "trace"
    place = _store(tmp_path / "dry")
    trace = ["-f", "-y", "-s", "0", "-o", str(log), "-e", f"trace={','.join(CALLS)}"]
    done = subprocess.run(
        [tracer, *trace, *python, "-c", _COMMIT, str(place)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts: dict[tuple[str, str], int] = {}
    begun = False
    for line in log.read_text().splitlines():
        found = re.match(r"(\d+) +(\w+)\(", line)
        if found is None:
            continue
        task, call = found.groups()
        counts[task, call] = counts.get((task, call), 0) + 1
        begun = begun or ".begun" in line
        if begun and str(place) in line and ".begun" not in line:
            inject = f"inject={call}:signal=SIGKILL:when={counts[task, call]}"
            trace = ["-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
            yield [tracer, *trace, *python, "-c", _COMMIT, "{}"]


@pytest.mark.slow
def test_kill_at_every_system_call_of_a_commit(tmp_path: Path) -> None:
    outcomes, survived = [], 0
    for number, command in enumerate(_kills(tmp_path)):
        place = _store(tmp_path / f"store-{number}")
        filled = [str(place) if part == "{}" else part for part in command]
        done = subprocess.run(filled, capture_output=True, text=True)
        acknowledged = "acknowledged" in done.stdout
        survived += done.returncode == 0
        repository = Repository.open(place, create=False)
        landed = repository.newest == 2
        assert landed or (repository.newest == 1 and not acknowledged), command
        assert read(repository.view("a")).equals(AFTER if landed else BEFORE)
        assert read(repository.view("a", as_of=1)).equals(BEFORE)
        assert repository.write("b", AFTER) == repository.newest == 2 + landed
        outcomes.append(landed)
        shutil.rmtree(place)
    assert {True, False} <= set(outcomes)
    assert len(outcomes) > 20
    assert survived == 0, "each was killed"

"""Machine code that is missing: numpy answers, another process makes it, and all goes on with it.

Each test has processes and a directory of its own. Rooms whose compilation takes long are in none
but the last tests, which take them from the directory of all tests.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tessel.kernels import jit, samples
from tessel.kernels.machine_code import cache_directory, digest_of, is_made, lock_of, note_made

MANY = 300_000

SCRIPT = """
import json, os, sys, threading
import numpy as np
from tessel import options, telemetry
from tessel.kernels import count_repeats
from tessel.kernels import machine_code as module
from tessel.kernels.machine_code import cache_directory, machine_code

rows = np.sort(np.arange(300_000) % 77)
expected = (np.arange(77).tolist(), np.bincount(rows).tolist())
events = []

def ask():
    numbers, times = count_repeats(rows)
    assert (numbers.tolist(), times.tolist()) == expected

def chosen():
    return [[event.attributes["engine"], event.attributes["why"]] for event in events]

def no_children():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise AssertionError("a child is left")

subscription = telemetry.subscribe(events.append)
subscription.__enter__()
"""
MAKING = ["numpy", "its machine code is being made or loaded"]
LOADED = ["numba", "its machine code is loaded"]


def _environment(tmp_path: Path, **more: str) -> dict[str, str]:
    cache = str(tmp_path / "cache")
    places = {"XDG_CACHE_HOME": cache, "HOME": cache, "TMPDIR": str(tmp_path)}
    return {**os.environ, **places, "TESSEL_JIT_WAIT": "0", **more}


def _run(tmp_path: Path, code: str, **more: str) -> list[list[str]]:
    """Run the script and then code; return what the code printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT + code],
        env=_environment(tmp_path, **more),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: list[list[str]] = json.loads(done.stdout)
    return found


def _directory(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache" / "tessel").glob("kernels-*")
    return found


def _marks(directory: Path) -> set[str]:
    return {path.name.split(".")[0] for path in directory.iterdir() if path.is_file()}


TWICE = """
ask()
machine_code.wait()
ask()
no_children()
print(json.dumps(chosen()))
"""


def test_numpy_answers_until_machine_code_is_made_and_that_is_made_once(tmp_path, made):
    assert _marks(_directory(tmp_path)) == {"count_repeats", "lock"}  # no other kernel is asked for
    unmade = "module._Maker.see_to = None\n"
    assert _run(tmp_path, unmade + TWICE) == [MAKING, LOADED]


@pytest.fixture(scope="module")
def once_made(tmp_path_factory):
    """A directory of caches in which the kernels of the script are made."""
    path = tmp_path_factory.mktemp("made")
    assert _run(path, TWICE)[-1] == LOADED
    return path


@pytest.fixture
def made(tmp_path, once_made):
    """Have those kernels made for a test."""
    shutil.copytree(once_made / "cache", tmp_path / "cache")


def test_few_rows_import_nothing(tmp_path):
    code = """
rows, expected = np.array([1, 1, 2]), ([1, 2], [2, 1])
ask()
assert "numba" not in sys.modules
assert not threading.enumerate()[1:]
print(json.dumps(chosen()))
"""
    assert _run(tmp_path, code) == [["numpy", "few rows"]]


def test_what_is_switched_off_makes_nothing(tmp_path):
    assert _run(tmp_path, TWICE, TESSEL_JIT="0") == [["numpy", "the option jit is off"]] * 2
    assert not (tmp_path / "cache").exists()


def test_with_jit_wait_the_first_query_has_machine_code(tmp_path):
    found = _run(tmp_path, TWICE, TESSEL_JIT_WAIT="1")
    assert found == [["numba", "the option jit_wait is on"]] * 2


def test_without_numba_numpy_answers(tmp_path):
    found = _run(tmp_path, "sys.modules['numba'] = None\n" + TWICE)
    assert found == [MAKING, ["numpy", "numba is not installed"]]


def test_without_numba_nobody_waits_for_it(tmp_path):
    found = _run(tmp_path, "sys.modules['numba'] = None\n" + TWICE, TESSEL_JIT_WAIT="1")
    assert found == [["numpy", "numba is not installed"]] * 2


def test_what_makes_machine_code_outlives_who_asked_for_it(tmp_path):
    """A program that asks one question and ends leaves machine code to the next one."""
    assert _run(tmp_path, "ask()\nprint(json.dumps(chosen()))") == [MAKING]
    while "count_repeats" not in _marks(_directory(tmp_path)):
        time.sleep(0.05)


def test_two_processes_at_once_both_end_with_machine_code(tmp_path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT + TWICE],
            env=_environment(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    found = [json.loads(each.communicate()[0]) for each in running]
    assert found == [[MAKING, LOADED]] * 3


def test_while_another_process_makes_machine_code_none_is_started(tmp_path):
    code = """
import subprocess
directory = cache_directory()
hold = "import sys; from pathlib import Path; from tessel.kernels.machine_code import lock_of\\n"
hold += "with lock_of(Path(sys.argv[1])) as held: print(held, flush=True); sys.stdin.read()"
other = subprocess.Popen(
    [sys.executable, "-c", hold, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert other.stdout.readline().strip() == b"True"
maker = module._Maker()
assert maker.see_to(directory, ["count_repeats"]) == ""
assert not maker.is_at_work()
second = [sys.executable, "-m", "tessel.kernels.making", "count_repeats"]
assert subprocess.run(second).returncode == module.BUSY
ask()
with other:
    other.stdin.close()
machine_code.wait()
ask()
no_children()
print(json.dumps(chosen()))
"""
    assert _run(tmp_path, code) == [MAKING, LOADED]


def test_where_the_cache_cannot_be_written_temporary_files_do(tmp_path):
    (tmp_path / "cache").write_text("not a directory")
    assert _run(tmp_path, TWICE) == [MAKING, LOADED]
    (shared,) = tmp_path.glob("tessel-*")
    assert shared.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("jit_wait", ["0", "1"])
def test_where_nothing_can_be_written_there_is_an_answer_too(tmp_path, jit_wait):
    (tmp_path / "cache").write_text("not a directory")
    (tmp_path / f"tessel-{os.getuid()}").write_text("not a directory either")
    found = _run(tmp_path, TWICE, TESSEL_JIT_WAIT=jit_wait)
    nowhere = [MAKING, ["numpy", "machine code can be kept nowhere"]]
    assert found == ([["numba", "the option jit_wait is on"]] * 2 if jit_wait == "1" else nowhere)


def test_a_directory_that_others_can_write_is_not_used(tmp_path):
    (tmp_path / "cache").write_text("not a directory")
    shared = tmp_path / f"tessel-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert _run(tmp_path, TWICE)[-1] == ["numpy", "machine code can be kept nowhere"]
    assert list(shared.iterdir()) == []


class Planted:
    """What makes a file where a pickle of it is loaded."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self):
        return Path.touch, (self._marker,)


def _others_can_write(directory: Path) -> None:
    directory.chmod(0o777)


def _a_file_may_be_written(directory: Path) -> None:
    directory.chmod(0o755)
    next(directory.rglob("*.nbi")).chmod(0o666)


def _another_user_owns(path: Path) -> str:
    """Give a path away; who may not does as another user would. Return what code does that."""
    if os.getuid() == 0:
        os.chown(path, 65_534, 65_534)
        return ""
    return "os.getuid = lambda: 65_534\n"


def _another_owns_the_directory(directory: Path) -> str:
    return _another_user_owns(directory)


def _another_owns_a_file(directory: Path) -> str:
    return _another_user_owns(next(directory.rglob("*.nbi")))


@pytest.mark.parametrize("jit_wait", ["0", "1"])
@pytest.mark.parametrize(
    "change",
    [
        _others_can_write,
        _a_file_may_be_written,
        _another_owns_the_directory,
        _another_owns_a_file,
    ],
)
def test_what_another_user_can_have_planted_is_not_loaded(tmp_path, made, change, jit_wait):
    """Machine code is kept as pickles: who can write one can have us run anything."""
    marker = tmp_path / "planted code ran"
    for index in _directory(tmp_path).rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Planted(marker)))
    before = change(_directory(tmp_path)) or ""
    assert str(_directory(tmp_path)) not in _run(
        tmp_path,
        before + TWICE.replace("chosen()", "[str(cache_directory())]"),
        TESSEL_JIT_WAIT=jit_wait,
    )
    assert not marker.exists()


def test_what_only_this_user_can_have_planted_is_loaded(tmp_path, made):
    """The test above would see a planted file run."""
    marker = tmp_path / "planted code ran"
    for index in _directory(tmp_path).rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Planted(marker)))
    _run(tmp_path, TWICE)
    assert marker.exists()


def test_a_lax_umask_costs_no_machine_code(tmp_path, made):
    _directory(tmp_path).parent.chmod(0o775)
    for path in _directory(tmp_path).rglob("*"):
        path.chmod(0o775 if path.is_dir() else 0o664)
    unmade = "module._Maker.see_to = None\n"
    assert _run(tmp_path, unmade + TWICE) == [MAKING, LOADED]
    assert _directory(tmp_path).parent.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("jit_wait", ["0", "1"])
@pytest.mark.parametrize(
    ("ending", "damage"), [(".nbi", b""), (".nbc", b"\x00 no pickle"), (".nbc", None)]
)
def test_damaged_machine_code_is_made_anew(tmp_path, made, ending, damage, jit_wait):
    files = list(_directory(tmp_path).rglob("*" + ending))
    assert files
    for file in files:
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
    found = _run(tmp_path, TWICE, TESSEL_JIT_WAIT=jit_wait)
    assert found[-1] == (LOADED if jit_wait == "0" else ["numba", "the option jit_wait is on"])


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program", ""])
def test_where_it_cannot_be_made_numpy_goes_on(tmp_path, program):
    found = _run(tmp_path, f"module._interpreter = lambda: {program!r}\n" + TWICE)
    assert found[0] == MAKING
    assert found[1][0] == "numpy"
    why = {"/bin/false": "ended with code 1", "": "no interpreter"}
    assert why.get(program, "cannot be loaded: FileNotFoundError") in found[1][1]


def test_machine_code_that_answers_otherwise_is_not_used(tmp_path, made):
    code = """
from tessel.kernels import samples
samples.agrees = lambda room: False
ask()
machine_code.wait()
ask()
print(json.dumps(chosen()))
"""
    found = _run(tmp_path, code)
    assert found == [MAKING, ["numpy", "its machine code gave another answer than numpy"]]


FORKED = """
ask()
machine_code.wait()
events.clear()
child = os.fork()
if not child:
    ask()
    print(json.dumps(chosen()), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_has_what_its_parent_loaded(tmp_path, made):
    assert _run(tmp_path, FORKED) == [LOADED]


IN_A_CHILD = "child = os.fork()\nif child:\n    os._exit(os.waitpid(child, 0)[1])\n"


def test_a_forked_child_makes_nothing(tmp_path):
    found = _run(tmp_path, IN_A_CHILD + TWICE)
    assert found == [MAKING, ["numpy", "machine code is not made in forked processes"]]


def test_a_forked_child_loads_what_is_made(tmp_path, made):
    assert _run(tmp_path, IN_A_CHILD + TWICE) == [MAKING, LOADED]


def test_forks_while_machine_code_is_made_and_loaded(tmp_path):
    code = """
ask()
while machine_code._thread is not None:
    child = os.fork()
    if not child:
        ask()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
ask()
print(json.dumps(chosen()[-1:]))
"""
    assert _run(tmp_path, code) == [LOADED]


def test_sources_that_change_have_machine_code_of_their_own(tmp_path):
    (tmp_path / "one.py").write_text("a = 1")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    (tmp_path / "one.py").write_text("a = 2")
    assert digest_of(tmp_path) != before
    assert cache_directory().name == f"kernels-{digest_of(Path(jit.__file__).parent / 'compiled')}"


def test_machine_code_for_another_machine_is_none(tmp_path, monkeypatch):
    from tessel.kernels import kept_code

    note_made(tmp_path, "sort_runs")
    assert is_made(tmp_path, "sort_runs")
    assert not is_made(tmp_path, "load_rows")
    monkeypatch.setattr(kept_code.numba, "__version__", "0.0")
    assert not is_made(tmp_path, "sort_runs")


def test_one_process_at_a_time_has_the_lock(tmp_path):
    code = "import sys; from pathlib import Path; from tessel.kernels.machine_code import lock_of\n"
    code += "with lock_of(Path(sys.argv[1])) as held: sys.exit(held)"

    def other() -> int:
        return subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode

    with lock_of(tmp_path) as is_held:
        assert is_held
        assert other() == 0
    assert other() == 1


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", samples.ROOMS)
def test_the_sample_of_each_room_agrees_with_numpy(room):
    assert samples.agrees(room)


def test_a_sample_that_does_not_is_seen(monkeypatch):
    answers = iter([[1, 2], [1, 3]])
    monkeypatch.setitem(samples.ROOMS, "sort_runs", lambda: next(answers))
    monkeypatch.delitem(samples.WITHOUT_TWIN, "sort_runs")
    assert not samples.agrees("sort_runs")


ALL_QUERIES = """
import numpy as np, pyarrow as pa
import tessel as ts
from tessel.kernels import compiled, jit, samples

def signatures():
    return {name: set(getattr(compiled, name).signatures) for name in compiled.__all__}

for room in samples.ROOMS:
    assert samples.agrees(room), room
before = signatures()
assert all(before.values()), [name for name, held in before.items() if not held]
twice = ["find_texts", "group_texts", "number_texts"]  # for offsets of 32 and of 64 bits
twice += ["run_best", "window_best"]  # of integers and of doubles
found = sorted(name for name, held in before.items() if len(held) > 1)
assert found == twice, found

rows = 3000
random = np.random.default_rng(1)
trades = pa.table({
    "ts": pa.array(np.cumsum(random.integers(1, 1 << 40, rows)), pa.timestamp("ns")),
    "name": pa.array(random.integers(0, 9, rows)).cast(pa.string()),
    "note": pa.array([f"n{n}" for n in random.permutation(rows)]),
    "price": np.round(random.random(rows) * 100, 2),
    "exact": random.random(rows),
    "volume": random.integers(1, 5000, rows),
    "wide": random.integers(-(1 << 50), 1 << 50, rows),
    "some": pa.array(random.integers(0, 100, rows), mask=random.random(rows) < 0.2),
})
store = ts.open("memory://signatures")
store.write("trades", trades, index="ts")
store.write("plain", trades.drop_columns(["ts"]))
new = ts.QueryBuilder
queries = [
    new().filter("price > 50 and volume < 2500"),
    new().filter("name == '3'").select("note", "price"),
    new().apply("cost", ts.col("price") * ts.col("volume")).groupby("name").agg(
        a=("cost", "sum"), b=("price", "mean"), c=("volume", "max"), d=("exact", "sum"),
        e=("price", "min"), f=("price", "count"), g=("wide", "sum"), h=("some", "mean")),
    new().groupby("note").agg(a=("exact", "sum"), b=("price", "last"), c=("price", "median")),
    new().groupby("volume", "name").agg(a=("exact", "mean"), n=("note", "nunique")),
    new().groupby("wide").agg(a=("price", "var")),
    new().resample("1h").agg(o=("price", "first"), c=("price", "last"), v=("volume", "sum")),
    new().sort("price").head(10),
    new().distinct("name", "volume"),
    new().top_k(5, "price"),
    new().rank("price"),
    new().cum_sum("price", by="name").cum_max("volume").cum_count("some").shift("wide", by="name"),
    new().rolling(9).agg(a=("price", "mean"), b=("price", "max"), c=("volume", "sum"),
        d=("wide", "min"), g=("exact", "std"))
        .rolling("1h", by="name").agg(e=("some", "mean"), f=("volume", "max")),
    new().cum_sum("volume").cum_min("price", by="name").fill("some", by="name", method="backward"),
    new().value_counts("name"),
    new().agg(a=("exact", "sum"), q=("price", "median"), m=("wide", "max")),
]
with jit.using_compiled(True):
    for query in queries:
        for symbol in ("trades", "plain"):
            try:
                store.read(symbol, query=query).to_arrow()
            except ts.TesselError:
                assert symbol == "plain"
    right = new().groupby("name").agg(p=("price", "mean"))
    store.write("names", store.read("plain", query=right).to_arrow())
    joined = store.scan("plain").join(store.scan("names"), on="name")
    assert len(joined.collect()) == rows
    close = store.scan("trades").join_asof(store.scan("trades").select("ts", "wide"), on="ts")
    close.collect()
after = signatures()
extra = {name: after[name] - before[name] for name in after if after[name] != before[name]}
assert not extra, extra
"""


def test_no_query_meets_a_kernel_of_another_signature():
    """Else it would wait for a compilation that nobody has done beforehand."""
    done = subprocess.run([sys.executable, "-c", ALL_QUERIES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

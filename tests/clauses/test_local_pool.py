"""The local pool: order, admission by bytes, errors, cancellation, Ctrl-C, fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.spill.local_pool import LocalPool, Task
from tessel.options import Options

ROOT = Path(__file__).parents[2]


class Gauge:
    """Counts tasks between their start and the moment their result was taken."""

    def __init__(self, live_bytes: int) -> None:
        self.live_bytes = live_bytes
        self.alive: dict[int, int] = {}
        self.most_alive = 0
        self.started: list[int] = []
        self.broken: list[str] = []
        self._lock = threading.Lock()

    def task(self, ordinal: int, size: int) -> Task[int]:
        def run() -> int:
            with self._lock:
                self.started.append(ordinal)
                self.alive[ordinal] = size
                total = sum(self.alive.values())
                lowest = min(self.alive)
                if total > self.live_bytes and len(self.alive) > 1:
                    self.broken.append(f"{self.alive} past {self.live_bytes}, lowest {lowest}")
                self.most_alive = max(self.most_alive, len(self.alive))
            return ordinal

        return Task(run, size)

    def taken(self, ordinal: int) -> None:
        with self._lock:
            self.alive.pop(ordinal)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 12), max_size=25),
    workers=st.integers(1, 4),
    live_bytes=st.integers(0, 20),
    inline_bytes=st.sampled_from([0, 5, 100]),
)
def test_admission(sizes: list[int], workers: int, live_bytes: int, inline_bytes: int) -> None:
    options = Options(workers=workers, live_bytes=live_bytes, inline_bytes=inline_bytes)
    gauge = Gauge(live_bytes)
    results = []
    with LocalPool(options) as pool:
        for result in pool.map(gauge.task(n, size) for n, size in enumerate(sizes)):
            gauge.taken(result)
            results.append(result)
    assert results == list(range(len(sizes)))
    assert sorted(gauge.started) == results
    assert not gauge.broken
    assert gauge.most_alive <= max(1, 2 * workers)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_results_come_in_order_though_tasks_end_in_another(workers: int) -> None:
    def task(n: int) -> Task[int]:
        def run() -> int:
            time.sleep(0.02 if n % 3 == 0 else 0)
            return n

        return Task(run, 1)

    with LocalPool(Options(workers=workers, inline_bytes=0)) as pool:
        assert list(pool.map(task(n) for n in range(12))) == list(range(12))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_first_error_in_order_wins(workers: int) -> None:
    def task(n: int) -> Task[int]:
        def run() -> int:
            if n == 3:
                time.sleep(0.05)
            if n >= 3:
                raise KeyError(n)
            return n

        return Task(run, 1)

    taken = []
    with (
        LocalPool(Options(workers=workers, inline_bytes=0)) as pool,
        pytest.raises(KeyError, match="3"),
    ):
        taken += pool.map(task(n) for n in range(50))
    assert not [t for t in threading.enumerate() if t.name.startswith("tessel-pool")]


def test_closing_cancels_what_has_not_started() -> None:
    started: list[int] = []

    def task(n: int) -> Task[int]:
        def run() -> int:
            started.append(n)
            time.sleep(0.01)
            return n

        return Task(run, 1)

    with LocalPool(Options(workers=2, inline_bytes=0)) as pool:
        results = pool.map(task(n) for n in range(1000))
        assert next(results) == 0
        results.close()  # type: ignore[attr-defined]
    assert len(started) <= 1 + 2 * 2


def test_small_work_stays_in_the_calling_thread() -> None:
    def where() -> Task[int]:
        return Task(threading.get_ident, 10)

    with LocalPool(Options(workers=4)) as pool:
        assert list(pool.map([where()])) == [threading.get_ident()]
    with LocalPool(Options(workers=4, inline_bytes=0)) as pool:
        assert list(pool.map([where()])) != [threading.get_ident()]
    with LocalPool(Options(workers=4, inline_bytes=1)) as pool:
        assert list(pool.map([where()])) == [threading.get_ident()], "there is no other"
        assert threading.get_ident() not in list(pool.map([where(), where()]))


def _run(code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


QUERY = """
import sys, threading, pyarrow as pa, tessel as ts
import tests.clauses.custom
store = ts.open("memory://interrupt")
with ts.options(segment_rows=1):
    store.write("x", pa.table({"v": list(range(300))}))
query = ts.QueryBuilder().slow("v", 30.0)
"""


def test_ctrl_c_ends_the_query() -> None:
    code = f"""{QUERY}
import time
from tests.clauses.custom import Slow
Slow.process = lambda self, unit: (time.sleep(0.2), unit)[1]
print("running", flush=True)
try:
    with ts.options(workers=2, inline_bytes=0):
        store.read("x", query=query)
except KeyboardInterrupt:
    busy = [t for t in threading.enumerate() if t.name.startswith("tessel-pool")]
    print("stopped", len(busy), flush=True)
    raise SystemExit(130)
"""
    process = _run(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "stopped 0\n"), err


def test_a_child_made_in_the_middle_of_a_query_runs_its_own() -> None:
    code = f"""{QUERY}
import os, warnings
warnings.simplefilter("ignore")  # Python warns of fork with threads; that it works is the point
query = ts.QueryBuilder().filter("v % 2 == 0").groupby("v").agg(n="size")
with ts.options(workers=3, inline_bytes=0):
    batches = store.scan("x").filter("v >= 0").iter_batches()
    first = next(batches).num_rows
    child = os.fork()
    found = store.read("x", query=query).to_arrow().num_rows
    if child == 0:
        os._exit(0 if found == 150 else 1)
    _, status = os.waitpid(child, 0)
    print(found, os.waitstatus_to_exitcode(status), first + sum(b.num_rows for b in batches))
"""
    process = _run(code)
    out, err = process.communicate(timeout=60)
    assert out == "150 0 300\n", err


def test_ctrl_c_while_a_thread_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt  # as if it came before the executor had noted its thread

    def task() -> Task[int]:
        return Task(lambda: time.sleep(0.1) or 1, 1)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), LocalPool(Options(workers=2, inline_bytes=0)) as pool:
        list(pool.map(task() for _ in range(5)))
    monkeypatch.undo()
    assert not [t for t in threading.enumerate() if t.name.startswith("tessel-pool")]


def test_a_task_may_map_tasks_of_its_own() -> None:
    def inner(number: int) -> int:
        return sum(pool.map(Task(lambda at=at: at, 1) for at in range(number)))  # type: ignore[misc]

    with LocalPool(Options(workers=2, inline_bytes=0)) as pool:
        tasks = (Task(lambda number=number: inner(number), 1) for number in range(9))  # type: ignore[misc]
        assert list(pool.map(tasks)) == [sum(range(number)) for number in range(9)]


def test_a_task_in_the_calling_thread_is_alive_while_it_runs() -> None:
    with LocalPool(Options(workers=1)) as pool:
        assert list(pool.map([Task(lambda: pool._account.alive, 7)])) == [7]
        assert pool._account.alive == 0

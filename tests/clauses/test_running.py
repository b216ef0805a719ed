"""Running a query: memory, limits, cancellation, Ctrl-C, errors, fork and spawn, one answer.

What takes time elsewhere is made to happen here by counting: which units were processed when a
batch was taken, which threads and files are left.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.errors import (
    CorruptSegmentError,
    IntegerOverflowError,
    InvalidInputError,
    TesselError,
)
from tessel.expression import col
from tessel.options import options
from tests.clauses.helpers import answer, events, fresh_store, same_table, stored

Q = QueryBuilder()
ROOT = Path(__file__).parents[2]
WORKERS = (1, 2, 8)


def _our_threads() -> list[str]:
    """Return the threads of queries; those of puts, long reads and Spark are of the process."""
    names = [thread.name for thread in threading.enumerate()]
    others = ("tessel-long-reads", "tessel-put", "tessel-spark-log")
    ours = (name for name in names if name.startswith("tessel-"))
    return [name for name in ours if not name.startswith(others)]


# --- batches, limits, cancellation ----------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_do_not_run_ahead_of_their_consumer(workers: int) -> None:
    store = stored({"v": list(range(200))})
    settings = {"workers": workers, "inline_bytes": 0, "live_bytes": 1}
    with options(**settings), events("clause.process") as processed:
        taken = 0
        for batch in store.scan("x").apply("w", "v + 1").iter_batches():
            taken += 1
            # The budget is less than a unit: one is under way beside the one that was taken.
            assert len(processed) <= taken + 1
            assert batch.num_rows == 2
    assert taken == 100
    with options(workers=workers, inline_bytes=0), events("clause.process") as processed:
        for taken, _ in enumerate(store.scan("x").apply("w", "v + 1").iter_batches(), start=1):
            assert len(processed) <= taken + 2 * workers


@pytest.mark.parametrize("workers", WORKERS)
def test_a_limit_stops_the_reading(workers: int) -> None:
    store = stored({"v": list(range(200)), "w": [0, 1] * 100})
    table = store.scan("x").filter("w == 1")
    with options(workers=workers, inline_bytes=0), events("segment.read") as read:
        rows = [row for batch in table.iter_batches(limit=5) for row in batch["v"].to_pylist()]
        assert rows == [1, 3, 5, 7, 9]
        assert len(read) <= 5 + 2 * workers
    found = table.collect(limit=5)
    assert found.to_arrow()["v"].to_pylist() == rows
    assert found.lineage.query["clauses"][-1] == {"clause": "head", "n": 5}
    assert len(table.collect(limit=0)) == 0
    assert list(table.iter_batches(limit=0)) == []
    assert not _our_threads()


@pytest.mark.parametrize("limit", [-1, True, 1.5, "5"])
def test_a_limit_is_a_number_of_rows(limit: object) -> None:
    table = stored({"v": [1]}).scan("x")
    with pytest.raises(InvalidInputError, match="a limit is a number of rows"):
        table.collect(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a limit is a number of rows"):
        next(table.iter_batches(limit=limit))  # type: ignore[arg-type]


QUERIES = {
    "filter": Q.filter("v % 2 == 0").slow("v"),
    "group": Q.slow("v").groupby("k").agg(s=("v", "sum")),
    "buckets": Q.slow("v").groupby("k").agg(m=("v", "median")),
    "head": Q.filter("v % 3 == 1").slow("v").head(50),
    "concat": Q.slow("v").concat("x").filter("k == 1"),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("how", ["close", "forget"])
def test_an_iterator_that_is_given_up_leaves_no_thread(name: str, how: str) -> None:
    store = stored({"v": list(range(100)), "k": [0, 1] * 50})
    with options(workers=3, inline_bytes=0):
        batches = store.scan("x").then(*QUERIES[name].clauses).iter_batches()
        next(batches)
        if how == "close":
            batches.close()  # type: ignore[attr-defined]
        del batches
        assert not _our_threads()


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import os, sys, tempfile, threading, time
import tessel as ts
import tests.clauses.custom
from tests.clauses.custom import Slow

def process(self, unit):
    os.write(1, b"at work\\n")  # at once: print of two threads would mix its lines
    time.sleep(0.05)
    return unit

Slow.process = process
store = ts.open(sys.argv[1])
query = ts.QueryBuilder().apply("w", "v * 2").slow("v").sort("k").head(10)
try:
    with ts.options(workers=2, inline_bytes=0, live_bytes=2000):
        for batch in store.scan("x").then(*query.clauses).iter_batches():
            pass
except KeyboardInterrupt:
    names = {t.name for t in threading.enumerate() if t is not threading.main_thread()}
    print("stopped", sorted(names - {"tessel-long-reads"}), os.listdir(sys.argv[2]), flush=True)
    sys.exit(130)
print("finished")
"""


def test_ctrl_c_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    place, scratch = tmp_path / "store", tmp_path / "scratch"
    scratch.mkdir()
    store = open_store(str(place))
    with options(segment_rows=10):
        store.write("x", pa.table({"v": list(range(10_000)), "k": [5, 3] * 5_000}))
    before = sorted(path for path in place.rglob("*") if path.is_file())
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(place), str(scratch)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.splitlines()[-1] == "stopped [] []"
    assert list(scratch.iterdir()) == []
    assert sorted(path for path in place.rglob("*") if path.is_file()) == before


# --- errors ---------------------------------------------------------------------------------------


def _overflowing(at: int, rows: int = 40) -> dict[str, list[int]]:
    """Return rows of which two cannot be multiplied, the earlier one at a place."""
    values = list(range(rows))
    values[at] = values[-1] = 2**62
    return {"v": values, "w": values}


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        (Q.apply("z", "v * v"), "apply(column='z', v * v)"),
        (Q.filter("v * v > 3"), "filter(v * v > 3)"),
        (Q.filter("w >= 0").apply("z", "v * v").head(30), "apply(column='z', v * v)"),
    ],
    ids=["apply", "filter", "behind a filter"],
)
def test_the_first_error_is_the_same_whatever_the_threads(query: QueryBuilder, clause: str) -> None:
    told = []
    for rows in (2, 7, 100):
        store = stored(_overflowing(11), rows=rows, columns=1)
        for workers in WORKERS:
            with (
                options(workers=workers, inline_bytes=0),
                pytest.raises(IntegerOverflowError) as caught,
            ):
                store.read("x", query=query)
            told.append((caught.value.message, caught.value.context["clause"]))
            assert caught.value.context["symbol"] == "'x' (version 1)"
            assert caught.value.attributes["expression"] == "v * v"
    assert set(told) == {("v * v passes the range of int64", clause)}
    assert not _our_threads()


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with options(segment_rows=2):
        store.write("x", pa.table({"v": np.arange(40)}))
    segments = sorted((tmp_path / "seg").rglob("*"), key=lambda path: path.stat().st_mtime_ns)
    damaged = [path for path in segments if path.is_file()]
    for path in damaged:
        path.write_bytes(b"\0" * path.stat().st_size)
    told = set()
    for workers in WORKERS:
        with options(workers=workers, inline_bytes=0), pytest.raises(TesselError) as caught:
            open_store(str(tmp_path)).read("x", query=Q.filter("v % 2 == 0"))
        told.add((type(caught.value), caught.value.context.get("segment")))
    ((kind, segment),) = told
    assert kind is CorruptSegmentError
    assert segment in {str(path.relative_to(tmp_path)) for path in damaged}


def test_an_error_in_one_of_several_symbols_names_it() -> None:
    store = stored({"v": [1, 2, 3]})
    store.write("y", pa.table({"v": [1, 2**62]}))
    for workers in WORKERS:
        with (
            options(workers=workers, inline_bytes=0),
            pytest.raises(IntegerOverflowError) as caught,
        ):
            store.read("x", query=Q.concat("y").apply("z", "v * v"))
        assert "'y'" in caught.value.context["symbol"]


# --- fork and spawn -------------------------------------------------------------------------------


def _child(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_is_told_that_a_query_is_not_its_own() -> None:
    code = """
    import os, pyarrow as pa, tessel as ts
    store = ts.open("memory://forked")
    with ts.options(segment_rows=1):
        store.write("x", pa.table({"v": list(range(200))}))
    with ts.options(workers=3, inline_bytes=0):
        batches = store.scan("x").filter("v % 3 >= 0").iter_batches()
        first = next(batches).num_rows
        if (child := os.fork()) == 0:
            try:
                for batch in batches:
                    pass
            except ts.errors.ForkUnsafeError:
                del batches
                rows = len(store.read("x", query=ts.QueryBuilder().filter("v % 2 == 0")))
                os._exit(0 if rows == 100 else 2)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), first + sum(b.num_rows for b in batches))
    """
    assert _child(code) == "0 200\n"


def test_locks_that_a_thread_holds_while_a_child_is_made() -> None:
    code = """
    import os, threading, pyarrow as pa, tessel as ts
    from tessel import telemetry
    from tessel.clauses import registry
    store = ts.open("memory://locked")
    store.write("x", pa.table({"v": list(range(10))}))
    held, done = threading.Event(), threading.Event()
    def hold():
        with registry._lock, telemetry._lock:
            held.set()
            done.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    if (child := os.fork()) == 0:
        query = ts.QueryBuilder.from_json(ts.QueryBuilder().filter("v > 4").to_json())
        with telemetry.subscribe(lambda event: None):
            os._exit(0 if len(store.read("x", query=query)) == 5 else 1)
    done.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
    """
    assert _child(code) == "0\n"


def rows_of(uri: str, query: QueryBuilder) -> list[int]:
    """Run a query in another process, with threads."""
    with options(workers=2, inline_bytes=0):
        return open_store(uri).read("x", query=query).to_arrow()["v"].to_pylist()  # type: ignore[no-any-return]


def test_queries_in_spawned_processes(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with options(segment_rows=3):
        store.write("x", pa.table({"v": list(range(50)), "k": ["a", "b"] * 25}))
    queries = [
        Q.filter((col("v") % 7 == 0) & col("k").is_in(["a"])),
        Q.concat("x").tail(3),
        Q.groupby("k").agg(v=("v", "max")),
    ]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as processes:
        found = [processes.submit(rows_of, str(tmp_path), query) for query in queries]
        assert [each.result() for each in found] == [rows_of(str(tmp_path), q) for q in queries]


# --- the same bytes -------------------------------------------------------------------------------


def readings(rows: int = 500) -> pa.Table:
    """Return rows whose sums depend on their order, if they are not exact."""
    random = np.random.default_rng(7)
    values = random.normal(size=rows) * 10.0 ** random.integers(-12, 12, rows)
    times = np.sort(random.integers(0, 9_000, rows)) * 1_000_000
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("us")),
            "k": pa.array(random.choice(["a", "b", "c", None], rows).tolist()),
            "f": pa.array(np.where(random.random(rows) < 0.1, np.nan, values)),
            "i": pa.array(random.integers(-50, 50, rows), mask=random.random(rows) < 0.1),
        }
    )


SAME: dict[str, QueryBuilder] = {
    "rows": Q.filter("i > 3 or f < 0").apply("g", "f * 3 + i").select("g", "k", "t"),
    "sums": Q.groupby("k", drop_missing=False).agg(s=("f", "sum"), m=("f", "mean"), n="size"),
    "spread": Q.groupby("k").agg(v=("f", "var"), d=("f", "std"), q=("f", "median")),
    "appearance": Q.groupby("i", sort=False).agg(first=("f", "first"), last=("k", "last")),
    "one row": Q.agg(low=("f", "min"), high=("i", "max"), n=("f", "count"), u=("k", "nunique")),
    "times": Q.resample("10min").agg(s=("f", "sum"), last=("f", "last")),
    "times, whole": Q.resample("7min", closed="right").agg(m=("f", "median")),
    "times of some, whole": Q.date_range("1970-01-01T00:20")
    .filter("i > 0")
    .resample("7min")
    .agg(m=("f", "median"), u=("k", "nunique")),
    "ordered": Q.sort("k", "i").head(100),
    "two": Q.concat("x").filter("i == 3").apply("g", "f / 3"),
    "merged": Q.merge("x").filter("t > '1970-01-01T01:00'").tail(20),
}
CUTS = (1_000, 64, 17)


@pytest.fixture(scope="module")
def cut_stores() -> list[Store]:
    """The same rows in segments of three sizes."""
    stores = []
    for rows in CUTS:
        store = fresh_store()
        with options(segment_rows=rows, segment_columns=3 if rows == 17 else 256):
            store.write("x", readings(), index="t")
        stores.append(store)
    return stores


@pytest.mark.parametrize("name", SAME)
def test_the_same_bytes_whatever_the_threads_and_the_cut(
    cut_stores: list[Store], name: str
) -> None:
    found = [
        answer(store, SAME[name], [{"workers": workers, "inline_bytes": 0} for workers in WORKERS])
        for store in cut_stores
    ]
    assert found[0].num_rows > 0
    for other in found[1:]:
        assert same_table(other, found[0])

"""Commits among other writers: nothing acknowledged is lost, conflicts are named."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tessel.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptStoreError,
    StoreError,
)
from tessel.options import options
from tessel.store import Repository, Transaction
from tessel.store.names import STORE, log_name, log_number
from tessel.store.objects import MemoryObjects
from tests.store.helpers import new_place, read

# --- the conflict matrix --------------------------------------------------------------------------


def _rows(*times: int) -> dict[str, list[int]]:
    return {"t": list(times), "x": list(times)}


ACTS: dict[str, Callable[[Transaction], None]] = {
    "write": lambda tx: tx.write("s", _rows(7), index="t"),
    "append": lambda tx: tx.append("s", _rows(20)),
    "append earlier": lambda tx: tx.append("s", _rows(15)),
    "delete": lambda tx: tx.delete("s"),
    "write other": lambda tx: tx.write("other", _rows(1)),
    "append other": lambda tx: tx.append("present", _rows(1)),
    "delete other": lambda tx: tx.delete("present2"),
}
OTHERS = {"write other", "append other", "delete other"}
LANDS = {
    # ours, theirs: the times of "s" afterwards
    ("append", "append"): [1, 10, 20, 20],
    ("append", "append earlier"): [1, 10, 15, 20],
    ("append earlier", "append earlier"): [1, 10, 15, 15],
}


def _prepared() -> Repository:
    repository = Repository.open("memory://")
    with repository.transaction() as tx:
        tx.write("s", _rows(1, 10), index="t")
        tx.write("present", _rows(1))
        tx.write("present2", _rows(1))
    return repository


@pytest.mark.parametrize("theirs", ACTS)
@pytest.mark.parametrize("ours", ACTS)
def test_the_conflict_matrix(ours: str, theirs: str) -> None:
    repository = _prepared()
    late = repository.transaction()
    ACTS[ours](late)
    with repository.transaction() as first:
        ACTS[theirs](first)
    same_other = ours == theirs and ours in OTHERS
    disjoint = (ours in OTHERS) != (theirs in OTHERS) or (
        ours in OTHERS and theirs in OTHERS and ours != theirs
    )
    if disjoint or (ours, theirs) in LANDS or (same_other and ours == "append other"):
        assert late.commit() == repository.newest == 3
    else:
        with pytest.raises(CommitConflictError, match="version 2 came first") as caught:
            late.commit()
        assert caught.value.attributes["version"] == 2
        assert repository.newest == 2
    if (ours, theirs) in LANDS:
        assert read(repository.view("s")).column("t").to_pylist() == LANDS[ours, theirs]
    if same_other and ours == "append other":
        assert repository.view("present").row_count == 3
    for version in range(1, repository.newest + 1):
        for name in repository.symbols(as_of=version):
            view = repository.view(name, as_of=version)
            assert read(view).num_rows == view.row_count


def test_a_deleted_and_remade_symbol_is_another_one() -> None:
    repository = _prepared()
    late = repository.transaction()
    late.append("s", _rows(20))
    repository.delete("s")
    repository.write("s", _rows(1, 10), index="t")
    with pytest.raises(CommitConflictError, match="deleted"):
        late.commit()


def test_a_retry_uses_what_was_written() -> None:
    repository = _prepared()
    objects = repository.objects
    late = repository.transaction()
    late.append("s", _rows(20))
    for _ in range(3):
        repository.append("present", _rows(1))
    before = set(objects.list())
    late.commit()
    made = sorted(name.split("/")[0] for name in set(objects.list()) - before)
    assert made == ["log", "man", "seg"]


# --- many writers ---------------------------------------------------------------------------------


def _append_many(path: str, worker: int, commits: int) -> None:
    with options(fsync=False):
        repository = Repository.open(path)
        for number in range(commits):
            repository.append("shared", {"worker": [worker], "number": [number]})
            repository.write(f"own{worker}", {"number": [number]})


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_lose_nothing(tmp_path: Path, method: str) -> None:
    workers, commits = 4, 15
    with options(fsync=False):
        repository = Repository.open(tmp_path)
        repository.write(
            "shared", {"worker": pa.array([], pa.int64()), "number": pa.array([], pa.int64())}
        )
    context = multiprocessing.get_context(method)
    running = [
        context.Process(target=_append_many, args=(str(tmp_path), worker, commits))
        for worker in range(workers)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * workers

    assert repository.newest == 1 + 2 * workers * commits
    table = read(repository.view("shared"))
    found = set(zip(table["worker"].to_pylist(), table["number"].to_pylist(), strict=True))
    assert found == {(w, n) for w in range(workers) for n in range(commits)}
    assert table.num_rows == workers * commits
    for worker in range(workers):
        own = table.filter(pc.equal(table["worker"], worker))
        assert own["number"].to_pylist() == list(range(commits))
        assert read(repository.view(f"own{worker}")).to_pydict() == {"number": [commits - 1]}
    entries = list(repository.history.entries())
    assert [e.previous for e in entries[:-1]] == [e.commit for e in entries[1:]]
    assert entries[-1].previous == ""
    assert [e.number for e in entries] == [e.parent + 1 for e in entries]
    assert all(a.timestamp_us > b.timestamp_us for a, b in itertools.pairwise(entries))


def test_transfers_between_symbols_keep_the_sum_in_every_version() -> None:
    repository = Repository.open("memory://")
    accounts = [f"account{n}" for n in range(4)]
    with repository.transaction() as tx:
        for name in accounts:
            tx.write(name, {"amount": [100]})
    failures: list[BaseException] = []

    def transfer(worker: int) -> None:
        try:
            for step in range(15):
                source, target = (
                    accounts[(worker + step) % 4],
                    accounts[(worker + 2 * step + 1) % 4],
                )
                if source == target:
                    continue
                while True:
                    try:
                        with repository.transaction() as tx:
                            for name, change in ((source, -1), (target, 1)):
                                # The transaction's own base, not the newest version.
                                version = tx.base_version
                                amount = read(repository.view(name, as_of=version))["amount"][0]
                                tx.write(name, {"amount": [amount.as_py() + change]})
                        break
                    except CommitConflictError:
                        time.sleep(0.001)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=transfer, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for version in range(1, repository.newest + 1):
        amounts = [read(repository.view(n, as_of=version))["amount"][0].as_py() for n in accounts]
        assert sum(amounts) == 400


# --- the commit primitive -------------------------------------------------------------------------


class _Flaky(MemoryObjects):
    """Memory that fails at chosen puts of log entries and reads of them."""

    def __init__(self) -> None:
        super().__init__("memory://flaky")
        MemoryObjects.put_if_absent(self, STORE, new_place("memory://made").get(STORE))
        self.puts: list[str] = []
        self.blind = False

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        act = self.puts.pop(0) if name.startswith("log/") and self.puts else "work"
        if act == "fail":
            raise StoreError("refused")
        landed = super().put_if_absent(name, data)
        if act == "lose the reply":
            raise StoreError("timed out")
        if act == "not durable":
            raise StoreError("sync failed", landed="unknown")
        return False if act == "say exists" else landed

    def get(self, name: str) -> pa.Buffer:
        if self.blind and name.startswith("log/"):
            raise StoreError("unreachable")
        return super().get(name)


def _flaky() -> tuple[Repository, _Flaky]:
    objects = _Flaky()
    return Repository(objects, "id", read_only=False), objects


@pytest.mark.parametrize("puts", [["lose the reply"], ["say exists"], ["fail"], ["fail", "fail"]])
def test_a_lost_reply_is_read_back(puts: list[str]) -> None:
    repository, objects = _flaky()
    repository.write("s", {"a": [1]})
    objects.puts = puts
    assert repository.append("s", {"a": [2]}) == 2
    assert read(repository.view("s")).to_pydict() == {"a": [1, 2]}


def test_an_entry_that_cannot_be_written_changes_nothing() -> None:
    repository, objects = _flaky()
    repository.write("s", {"a": [1]})
    objects.puts = ["fail"] * 3
    with pytest.raises(StoreError, match="refused"):
        repository.append("s", {"a": [2]})
    assert read(repository.view("s")).to_pydict() == {"a": [1]}
    assert repository.append("s", {"a": [3]}) == 2


@pytest.mark.parametrize("act", ["lose the reply", "not durable"])
def test_what_nobody_knows_is_unknown_and_resolved_later(act: str) -> None:
    repository, objects = _flaky()
    repository.write("s", {"a": [1]})
    transaction = repository.transaction()
    transaction.append("s", {"a": [2]})
    before = set(objects.list())
    objects.puts, objects.blind = [act], act == "lose the reply"
    with pytest.raises(CommitUnknownError) as caught:
        transaction.commit()
    objects.blind = False
    assert before < set(objects.list())
    assert repository.resolve(caught.value.attributes["commit"]) == 2
    assert repository.resolve("0" * 32) is None


def test_clocks_that_go_back_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    first = repository.log()[0].timestamp
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    repository.append("s", {"a": [2]})
    repository.append("s", {"a": [2]})
    times = [version.timestamp for version in reversed(repository.log())]
    assert times[0] == first
    assert [(b - a).total_seconds() for a, b in itertools.pairwise(times)] == [1e-6, 1e-6]


# --- names and gaps -------------------------------------------------------------------------------


def test_log_names_sort_newest_first() -> None:
    numbers = [1, 2, 9, 10, 999, 1000, 1001, 123_456_789]
    names = [log_name(number) for number in numbers]
    assert sorted(names) == names[::-1]
    assert [log_number(name) for name in names] == numbers
    assert log_number("log/x") is None


def test_an_empty_bucket_hides_nothing(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path)
    repository.write("s", {"a": [1]})
    (tmp_path / "log" / "000000000").mkdir()
    assert repository.newest == 1


def test_a_missing_entry_is_noticed() -> None:
    repository = Repository.open("memory://")
    for number in range(3):
        repository.write("s", {"a": [number]})
    repository.objects.delete(log_name(2))
    again = Repository.open(repository.uri)
    assert read(again.view("s")).to_pydict() == {"a": [2]}
    with pytest.raises(CorruptStoreError, match="version 2, is missing"):
        again.versions("s")


def test_a_view_never_changes() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    view = repository.view("s")
    repository.write("s", {"b": [2]})
    repository.delete("s")
    assert read(view).to_pydict() == {"a": [1]}


def _append_until_killed(path: str, acknowledged: Connection) -> None:
    with options(fsync=False, segment_columns=1):
        repository = Repository.open(path)
        while True:
            acknowledged.send(repository.append("s", {"a": [repository.newest], "b": ["x"]}))


def test_a_killed_writer_leaves_all_it_acknowledged_and_nothing_half(tmp_path: Path) -> None:
    with options(fsync=False):
        repository = Repository.open(tmp_path)
        repository.write("s", {"a": [0], "b": ["x"]})
        context = multiprocessing.get_context("fork")
        for round_ in range(8):
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_append_until_killed, args=(str(tmp_path), there))
            process.start()
            there.close()
            last = 0
            for _ in range(round_ + 1):
                last = here.recv()
            process.kill()
            process.join()
            assert repository.newest >= last
            table = read(Repository.open(tmp_path).view("s"))
            assert table["a"].to_pylist() == list(range(repository.newest))
            assert table["b"].to_pylist() == ["x"] * repository.newest
        repository.append("s", {"a": [-1], "b": ["y"]})
    assert read(repository.view("s"))["a"].to_pylist()[-1] == -1

"""Writers on a place where a part of all calls fails, before or after they took effect.

Whatever the rate: who is told a version has it, who is told an error has changed nothing, and who
is told that it is not known learns it from ``resolve`` once the place is well.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.errors import CommitUnknownError, StoreError, TesselError
from tessel.options import options
from tessel.store import Repository
from tessel.store.history import committer
from tessel.store.history.documents import open_store
from tessel.store.maintenance.fsck import check_store
from tessel.store.objects import LocalObjects, MemoryObjects
from tests.store.helpers import read

RATES = (0.01, 0.1, 0.3, 0.6)


class FailingObjects(MemoryObjects):
    """A door to a place at which calls fail at a rate; of puts, half have landed all the same."""

    def __init__(self, place: MemoryObjects, rate: float, chance: random.Random) -> None:
        super().__init__(place.uri)
        self._data, self._modified_us = place._data, place._modified_us
        self._names = place._names
        self.rate, self._chance, self.failed = rate, chance, 0

    def _fails(self) -> bool:
        fails = self._chance.random() < self.rate
        self.failed += fails
        return fails

    def _call(self, name: str) -> None:
        if self._fails():
            raise StoreError(f"the place does not answer for {name!r}", landed="no")

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        if not self._fails():
            return super().put_if_absent(name, data)
        if self._chance.random() < 0.5:
            super().put_if_absent(name, data)
        raise StoreError(f"no answer to the put of {name!r}", landed="unknown")

    def get(self, name: str) -> pa.Buffer:
        self._call(name)
        return super().get(name)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        self._call(prefix)
        return super().list(prefix, after=after, limit=limit)

    def exists(self, name: str) -> bool:
        self._call(name)
        return super().exists(name)


class Account:
    """What one writer was told of its commits: symbol, number of the write, and what came of it."""

    def __init__(self) -> None:
        self.won: dict[int, tuple[str, int]] = {}
        self.unknown: dict[str, tuple[str, int]] = {}
        self.failed: set[tuple[str, int]] = set()

    def write(self, repository: Repository, symbol: str, number: int) -> None:
        try:
            version = repository.write(symbol, {"x": [number]})
        except CommitUnknownError as error:
            self.unknown[error.attributes["commit"]] = symbol, number
        except TesselError:
            self.failed.add((symbol, number))
        else:
            assert version not in self.won
            self.won[version] = symbol, number


def _check(place: MemoryObjects, accounts: list[Account], commits: int) -> None:
    repository = Repository(place, "id", read_only=False)
    told: dict[int, tuple[str, int]] = {}
    for account in accounts:
        assert not told.keys() & account.won.keys()
        told |= account.won
        for commit, what in account.unknown.items():
            version = repository.resolve(commit)
            if version is not None:
                assert version not in told
                told[version] = what
    total = sum(len(a.won) + len(a.unknown) + len(a.failed) for a in accounts)
    assert total == commits
    # Nobody else wrote: every version is one that somebody was told, or could resolve.
    assert sorted(told) == list(range(1, repository.newest + 1))
    for version, (symbol, number) in told.items():
        assert read(repository.view(symbol, version)).column("x").to_pylist() == [number]
    assert check_store(repository).damages == []


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("seed", range(3))
def test_one_writer(rate: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_FIRST_PAUSE_SECONDS", 0)
    place = MemoryObjects("memory://failing")
    open_store(place, create=True, read_only=False)
    objects = FailingObjects(place, rate, random.Random(seed))
    repository, account = Repository(objects, "id", read_only=False), Account()
    for number in range(60):
        account.write(repository, f"s{number % 5}", number)
    assert objects.failed
    _check(place, [account], 60)


@pytest.mark.parametrize("rate", RATES[:3])
def test_writers_side_by_side(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_FIRST_PAUSE_SECONDS", 0)
    place = MemoryObjects("memory://failing")
    open_store(place, create=True, read_only=False)
    accounts = [Account() for _ in range(4)]

    def work(writer: int) -> None:
        objects = FailingObjects(place, rate, random.Random(writer))
        repository = Repository(objects, "id", read_only=False)
        for number in range(30):
            accounts[writer].write(repository, f"s{writer}", number)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _check(place, accounts, 120)


# --- creation -------------------------------------------------------------------------------------


def _create_and_write(path: str, writer: int, ready: threading.Barrier) -> None:
    with options(fsync=False):
        ready.wait()
        repository = Repository.open(path)
        repository.write(f"s{writer}", {"x": [writer]})
        (Path(path).parent / f"id{writer}").write_text(repository.id)


def _create_together(path: Path, processes: int) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(processes)
    running = [
        context.Process(target=_create_and_write, args=(str(path), writer, ready))
        for writer in range(processes)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * processes
    repository = Repository.open(path, create=False)
    told = {(path.parent / f"id{writer}").read_text() for writer in range(processes)}
    assert told == {repository.id}
    assert repository.newest == processes
    assert repository.symbols() == sorted(f"s{writer}" for writer in range(processes))
    assert check_store(Repository(LocalObjects(str(path)), "id", read_only=True)).damages == []


def test_processes_that_make_one_store_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / str(attempt) / "store"
        path.parent.mkdir()
        _create_together(path, 6)


@pytest.mark.slow
def test_sixteen_processes_that_make_one_store_a_hundred_times(tmp_path: Path) -> None:
    for attempt in range(100):
        path = tmp_path / str(attempt) / "store"
        path.parent.mkdir()
        _create_together(path, 16)

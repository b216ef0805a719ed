"""Writers in other processes that are stopped, while their store is collected."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tessel.errors import CommitConflictError, LeaseExpiredError, StoreError
from tessel.options import options
from tessel.store import Repository
from tessel.store.history.log import CommitLog
from tessel.store.maintenance.fsck import check_store
from tests.store.maintenance.helpers import contents

_LONG_SECONDS = 30 * 24 * 3600


def _age(path: Path) -> None:
    """Make every object of a store a month old, those of writers at work too."""
    then = time.time() - _LONG_SECONDS
    for file in path.glob("*/**/*"):
        try:
            if file.is_file():
                os.utime(file, (then, then))
        except FileNotFoundError:
            continue


def _stop_at_the_entry(path: str, answers: Connection) -> None:
    put = CommitLog.put

    def stopped(log: CommitLog, entry: object) -> object:
        CommitLog.put = put  # type: ignore[method-assign]
        os.kill(os.getpid(), signal.SIGSTOP)
        return put(log, entry)  # type: ignore[arg-type]

    CommitLog.put = stopped  # type: ignore[method-assign,assignment]
    _answer(lambda: Repository.open(path).write("slow", {"x": [1, 2, 3]}), answers)


def _answer(act: Callable[[], int], answers: Connection) -> None:
    try:
        answers.send(act())
    except (LeaseExpiredError, CommitConflictError) as error:
        answers.send(error.kind)


def _start(
    target: Callable[..., None], *arguments: object
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs))
    process.start()
    theirs.close()
    return process, ours


def _wait_until_stopped(pid: int | None) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.005)


def _dead_weight(repository: Repository) -> None:
    """Make sure that there is something to collect."""
    transaction = repository.transaction()
    transaction.write("never", {"x": [0]})
    transaction._stage.flush()


@pytest.mark.parametrize("aged", [True, False])
def test_a_writer_stopped_before_its_entry_loses_nothing_unseen(aged: bool, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with options(fsync=False):
        repository = Repository.open(path)
        repository.write("s", {"x": [0]})
        _dead_weight(repository)
        _age(path)
        process, answers = _start(_stop_at_the_entry, str(path))
        _wait_until_stopped(process.pid)
        if aged:
            _age(path)
        assert repository.gc(dry_run=False).deleted.objects > 0
        assert process.pid is not None
        os.kill(process.pid, signal.SIGCONT)
        answer = answers.recv()
        process.join()
        again = Repository.open(path)
        if aged:
            assert answer == "lease-expired"
            assert again.symbols() == ["s"]
        else:
            assert contents(again, answer)["slow"] == [1, 2, 3]
        assert check_store(again).damages == []


def _write_for_ever(path: str, name: str, answers: Connection) -> None:
    repository = Repository.open(path)
    value = 0
    while not answers.poll():
        value += 1
        try:
            number = repository.write(name, {"x": [value]})
        except StoreError:  # its temporary file may have been collected as well
            continue
        answers.send((number, value))
    answers.send(None)


def _rounds(path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with options(fsync=False):
        repository = Repository.open(path)
        repository.write("s", {"x": [0]})
        running = [_start(_write_for_ever, str(path), f"w{n}") for n in range(2)]
        acknowledged: list[dict[int, int]] = [{}, {}]
        for (_, answers), landed in zip(running, acknowledged, strict=True):
            number, value = answers.recv()  # both write before anything is collected
            landed[number] = value
        for _ in range(rounds):
            time.sleep(chance.uniform(0.005, 0.05))
            process = chance.choice(running)[0]
            assert process.pid is not None
            os.kill(process.pid, signal.SIGSTOP)
            _dead_weight(repository)
            _age(path)
            repository.gc(dry_run=False)
            os.kill(process.pid, signal.SIGCONT)
        for writer, (process, answers) in enumerate(running):
            answers.send("stop")
            while (answer := answers.recv()) is not None:
                acknowledged[writer][answer[0]] = answer[1]
            process.join()
        again = Repository.open(path)
        assert check_store(again).damages == []
        assert again.history.newest_number >= sum(map(len, acknowledged))
        for writer, landed in enumerate(acknowledged):
            for number in chance.sample(sorted(landed), min(20, len(landed))):
                assert contents(again, number)[f"w{writer}"] == [landed[number]]


def test_writers_stopped_anywhere_while_everything_is_old(tmp_path: Path) -> None:
    _rounds(tmp_path / "store", 8, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_writers_stopped_anywhere_for_long(seed: int, tmp_path: Path) -> None:
    _rounds(tmp_path / "store", 40, seed)

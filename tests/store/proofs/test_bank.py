"""A bank: whoever looks at all accounts at one version finds the money that there is."""

from __future__ import annotations

import multiprocessing
import random
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tessel.api import Store
from tessel.errors import CommitConflictError
from tessel.options import options

_ACCOUNTS = [f"account{number}" for number in range(8)]
_BEGINNING = 1_000
_WRITERS = 4
_AUDITORS = 2

Move = tuple[int, str, str, int]
"""The version that a transfer became, from where, where to, and how much."""


def _transfer(store: Store, chance: random.Random) -> Move | None:
    """Move money between two accounts; None where the one has too little."""
    source, target = chance.sample(_ACCOUNTS, 2)
    amount = chance.randint(1, 300)
    with store.transaction(f"{source} to {target}", isolation="serializable") as transaction:
        (from_there,) = transaction.read(source).column("amount").to_pylist()
        (from_here,) = transaction.read(target).column("amount").to_pylist()
        if amount > from_there:
            return None
        transaction.write(source, {"amount": [from_there - amount]})
        transaction.write(target, {"amount": [from_here + amount]})
    return transaction.landed, source, target, amount


def _writer(path: str, seed: int, transfers: int, answers: Connection) -> None:
    store, chance = Store.open(path), random.Random(seed)
    moves: list[Move] = []
    conflicts = 0
    while len(moves) < transfers:
        try:
            move = _transfer(store, chance)
        except CommitConflictError:
            conflicts += 1
            continue
        if move is not None:
            moves.append(move)
    answers.send((moves, conflicts))


def _balances(store: Store, version: int) -> list[int]:
    found = (store.read(name, as_of=version).to_arrow() for name in _ACCOUNTS)
    return [table.column("amount").to_pylist()[0] for table in found]


def _auditor(path: str, done: Event, answers: Connection) -> None:
    """Look at all accounts, one version at a time, and say which versions held what."""
    store = Store.open(path, read_only=True)
    seen: dict[int, list[int]] = {}
    last = False
    while not last:
        last = done.is_set()
        version = store.version
        seen[version] = _balances(store, version)
        many = store.read_many(_ACCOUNTS)
        (at,) = {result.lineage.version for result in many.values()}
        seen[at] = [r.to_arrow().column("amount").to_pylist()[0] for r in many.values()]
    answers.send(seen)


def _bank(path: Path, transfers: int, *, fsync: bool) -> None:
    context = multiprocessing.get_context("fork")
    done = context.Event()
    with options(fsync=fsync, workers=1):
        store = Store.open(path)
        with store.transaction("the bank opens") as transaction:
            for name in _ACCOUNTS:
                transaction.write(name, {"amount": [_BEGINNING]})
        writers, auditors = [], []
        for number in range(_WRITERS + _AUDITORS):
            ours, theirs = context.Pipe(duplex=False)
            if number < _WRITERS:
                each = context.Process(
                    target=_writer, args=(str(path), number, transfers // _WRITERS, theirs)
                )
                writers.append((each, ours))
            else:
                each = context.Process(target=_auditor, args=(str(path), done, theirs))
                auditors.append((each, ours))
            each.start()
            theirs.close()
        moves: list[Move] = []
        conflicts = 0
        for process, answers in writers:
            made, lost = answers.recv()
            moves += made
            conflicts += lost
            process.join()
            assert process.exitcode == 0
        done.set()
        seen: dict[int, list[int]] = {}
        for process, answers in auditors:
            seen |= answers.recv()
            process.join()
            assert process.exitcode == 0
        _audit(Store.open(path, create=False), sorted(moves), seen)
    # Four writers that choose two of eight accounts do get in one another's way.
    assert conflicts > 0


def _audit(store: Store, moves: list[Move], seen: dict[int, list[int]]) -> None:
    """Check every version against the transfers made one after another, in order of versions."""
    assert [version for version, *_ in moves] == list(range(2, store.version + 1))
    balances = dict.fromkeys(_ACCOUNTS, _BEGINNING)
    expected = {1: list(balances.values())}
    for version, source, target, amount in moves:
        balances[source] -= amount
        balances[target] += amount
        assert balances[source] >= 0
        expected[version] = list(balances.values())
        assert sum(expected[version]) == _BEGINNING * len(_ACCOUNTS)
    assert store.version in seen
    for version, found in seen.items():
        assert sum(found) == _BEGINNING * len(_ACCOUNTS), version
        assert found == expected[version], version
    for version in random.Random(0).sample(sorted(expected), min(30, len(expected))):
        assert _balances(store, version) == expected[version]
    assert store.check().damages == []


def test_the_sum_holds_in_every_snapshot(tmp_path: Path) -> None:
    _bank(tmp_path / "bank", 200, fsync=False)


@pytest.mark.slow
def test_the_sum_holds_over_ten_thousand_transfers(tmp_path: Path) -> None:
    _bank(tmp_path / "bank", 10_000, fsync=True)

"""Checking: all damage is found or without effect, and what is lost is said exactly."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import pytest

from tessel.errors import StoreError
from tessel.options import options
from tessel.store import Repository
from tessel.store.history.documents import open_store
from tessel.store.maintenance.fsck import CheckReport, check_store
from tessel.telemetry import Event, subscribe
from tests.store.helpers import read
from tests.store.history.helpers import small_nodes
from tests.store.maintenance.helpers import AgingObjects, opened

KINDS = ["store.json", "log/", "refs/", "leaf/", "man/", "seg/"]


@functools.cache
def _sound() -> AgingObjects:
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    repository = opened(objects)
    with small_nodes(), options(segment_rows=50):
        with repository.transaction() as transaction:
            for number in range(12):
                transaction.write(f"few{number:02}", {"x": [number] * 3, "y": ["a", None, "b"]})
        repository.write("long", {"t": range(200), "x": [0.5] * 200}, index="t")
        repository.append("long", {"t": range(200, 260), "x": [1.5] * 60})
        repository.create_tag("v1", at=2)
        repository.create_branch("dev", at=1)
        repository.write("few03", {"x": [7], "y": ["c"]})
    return objects


def _answers(objects: AgingObjects) -> list[Any]:
    """Return all that can be read of a store."""
    identity = open_store(objects, create=False, read_only=True)
    repository = Repository(objects, identity.id, read_only=True)
    history = repository.history
    answers: list[Any] = [identity.id]
    for entry in history.entries():
        answers.append((entry.commit, history.refs_at(entry)))
        for name in repository.symbols(as_of=entry.number):
            view = repository.view(name, entry.number)
            answers.append((name, view.schema, repr(read(view).to_pydict())))
            for column in view.schema.names:
                facts = view.index().statistics.facts(column)
                answers.append((facts.minimum.to_pylist(), facts.missing.tolist()))
    return answers


@functools.cache
def _right() -> list[Any]:
    return _answers(_sound())


def _names(kind: str) -> list[str]:
    return [name for name in _sound().list() if name.startswith(kind)]


def _judge(damaged: AgingObjects) -> CheckReport:
    """Check that what a check does not find has no effect, and that it never raises."""
    report = check_store(opened(damaged, read_only=True))
    if not report.damages:
        assert _answers(damaged) == _right()
    return report


def test_a_sound_store() -> None:
    seen: list[Event] = []
    with subscribe(seen.append):
        report = check_store(opened(_sound(), read_only=True))
    assert (report.damages, report.orphans, report.versions) == ([], 0, 6)
    assert report.segments == sum(event.name == "fsck.segment" for event in seen)
    assert report.manifests == sum(event.name == "fsck.manifest" for event in seen)
    assert report.bytes == sum(e.attributes["bytes"] for e in seen if e.name == "fsck.segment")
    assert [e.attributes["version"] for e in seen if e.name == "fsck.version"] == [*range(6, 0, -1)]
    assert report.nodes > 0


def _flips(kind: str, count: int, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    found = 0
    for _ in range(count):
        name = chance.choice(_names(kind))
        data = bytearray(_sound().get(name).to_pybytes())
        bit = chance.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        report = _judge(_sound().replaced(name, bytes(data)))
        found += bool(report.damages)
        if kind not in ("man/", "seg/"):  # those have padding
            assert any(name == damage.object for damage in report.damages)
    assert found > count // 4


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits(kind: str) -> None:
    _flips(kind, 20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_flipped_bits(kind: str, seed: int) -> None:
    _flips(kind, 170, seed=seed + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_objects_cut_short_or_gone(kind: str) -> None:
    for name in _names(kind)[:4]:
        data = _sound().get(name).to_pybytes()
        for length in {0, 1, len(data) // 3, len(data) // 2, len(data) - 1}:
            report = _judge(_sound().replaced(name, data[:length]))
            assert any(name == damage.object for damage in report.damages)
        report = _judge_gone(name)
        newest = next(_sound().list("log/"))
        assert name == newest or report.damages


def _judge_gone(name: str) -> CheckReport:
    damaged = _sound().replaced(name, None)
    report = check_store(opened(damaged, read_only=True))
    if not report.damages:
        # Without the newest entry the store is the one of the version before.
        assert name == next(_sound().list("log/"))
        assert opened(damaged).history.newest_number == 5
    return report


def test_what_is_lost_is_said_by_symbol_version_and_row() -> None:
    sound = opened(_sound(), read_only=True)
    index = sound.view("long").index()
    key = index.source(2).key
    data = bytearray(_sound().get(key.object).to_pybytes())
    data[key.offset : key.offset + key.length] = bytes(key.length)
    report = check_store(opened(_sound().replaced(key.object, bytes(data)), read_only=True))
    (damage,) = [d for d in report.damages if d.symbol]
    assert (damage.symbol, damage.object) == ("long", key.object)
    assert damage.rows == ((int(index.row_start[2]), int(index.row_end[2])),)
    assert damage.versions == ((2, 4), (6, 6))  # version 5 is of a branch that began before it
    assert damage.version == 6


def test_exactly_what_cannot_be_read_is_lost() -> None:
    """Whatever object is missing: the symbols said to be lost are those that cannot be read."""
    sound = _sound()
    for name in [*_names("man/"), *_names("leaf/"), *_names("seg/")]:
        damaged = sound.replaced(name, None)
        report = check_store(opened(damaged, read_only=True))
        assert any(name == damage.object for damage in report.damages)
        for number in range(1, 7):
            lost = set()
            for each in report.damages:
                if any(first <= number <= last for first, last in each.versions):
                    lost |= _symbols(each.symbol, number)
            assert lost == _unreadable(damaged, number), (name, number)


def _symbols(told: str, number: int) -> set[str]:
    """Return the symbols of a version that a damage names: ``first and 3 after it``, or one."""
    names = opened(_sound()).symbols(as_of=number)
    first, _, several = told.partition(" and ")
    if not first:
        return set()
    at = names.index(first)
    return set(names[at : at + 1 + int(several.split()[0] if several else 0)])


def _unreadable(damaged: AgingObjects, number: int) -> set[str]:
    lost = set()
    for symbol in opened(_sound()).symbols(as_of=number):
        try:
            read(opened(damaged).view(symbol, number))
        except StoreError:
            lost.add(symbol)
    return lost


def test_bits_that_flip_after_they_were_read_are_noticed(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path / "store")
    repository.write("s", {"x": [1.5, 2.5, 7.0] * 100})
    assert check_store(repository).damages == []
    key = repository.view("s").index().source(0).key
    path = tmp_path / "store" / key.object
    for place in (key.offset, key.offset + key.metadata_start, key.offset + key.length - 20):
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        assert [d.symbol for d in check_store(repository).damages] == ["s"]
        data[place] ^= 1
        path.write_bytes(data)
    assert check_store(repository).damages == []


def test_a_file_that_goes_away_after_it_was_read_is_missed(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path / "store")
    repository.write("s", {"x": [1.5] * 1_000})
    assert read(repository.view("s")).num_rows == 1_000
    assert check_store(repository).damages == []
    repository.objects.delete(repository.view("s").index().source(0).key.object)
    (damage,) = check_store(repository).damages
    assert (damage.symbol, damage.rows, damage.versions) == ("s", ((0, 1_000),), ((1, 1),))


def test_what_no_version_needs_is_counted() -> None:
    objects = _sound().copy()
    transaction = opened(objects).transaction()
    transaction.write("never", {"x": [0]})
    transaction._stage.flush()
    new = set(objects.list()) - set(_sound().list())
    report = check_store(opened(objects, read_only=True))
    assert report.damages == []
    assert set(report.orphan_names) == new
    assert report.orphans == len(new)
    assert report.orphan_bytes == sum(objects.size(name) for name in new)


def test_an_empty_store_is_sound() -> None:
    report = check_store(Repository.open("memory://"))
    assert (report.damages, report.versions, report.orphans) == ([], 0, 0)

"""Objects of every kind cut short on a disk: a typed error that names the object, or the answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessel.api import Store
from tessel.errors import StoreError
from tessel.options import options
from tessel.store import Repository
from tessel.store.history.leaves import Inner
from tessel.store.maintenance.fsck import check_store
from tessel.store.objects import LocalObjects
from tests.store.history.helpers import small_nodes
from tests.store.maintenance.helpers import LONG

Read = Callable[[Store], Any]

KINDS = ["store.json", "log", "refs", "leaf", "man", "pack", "segment", "lease"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a store with objects of all kinds; tests leave it as they found it."""
    path = tmp_path_factory.mktemp("torn") / "store"
    with options(fsync=False, workers=1, segment_rows=200_000), small_nodes():
        store = Store.open(path)
        with store.transaction() as transaction:
            for number in range(12):
                transaction.write(f"few{number:02}", {"x": [number] * 3, "y": ["a", None, "b"]})
        large = np.random.default_rng(0).normal(size=140_000)
        store.write("large", {"t": np.arange(len(large)), "x": large}, index="t")
        store.append("few03", {"x": [7], "y": ["c"]})
        store.create_tag("v1", at=1)
        store.create_branch("dev", at=2)
        store.set_manifest_configuration({"sets": [{"name": "axes", "max_segments": 10}]})
        with store.lease(1, lasting=LONG):
            yield path


def _objects(path: Path, kind: str) -> list[Path]:
    """Return the files of a kind; a segment alone is told from a pack by its size."""
    if kind == "store.json":
        return [path / "store.json"]
    if kind in ("pack", "segment"):
        found = [file for file in path.glob("seg/*/*") if file.is_file()]
        return [f for f in found if (f.stat().st_size > 1 << 20) == (kind == "segment")]
    return sorted(file for file in (path / kind).rglob("*") if file.is_file())


def _reads(path: Path) -> dict[str, Read]:
    """Return everything that can be asked of the store, each question by itself."""
    store = Store.open(path, create=False, read_only=True)
    reads: dict[str, Read] = {
        "branches": lambda store: (store.branches(), store.tags()),
        "log": lambda store: store.log(),
        "dev": lambda store: store.on_branch("dev").symbols(),
        "diff": lambda store: repr(store.diff(1, 3)),
        "configuration": lambda store: store.manifest_configuration,
        "collection": lambda store: _collected(store),
    }
    for version in range(store.version + 1):
        reads[f"symbols {version}"] = lambda s, v=version: s.symbols(as_of=v)
    for symbol in ("few00", "few03", "few11", "large"):
        reads[f"versions {symbol}"] = lambda s, n=symbol: s.versions(n)
        for version in (1, 3, "dev"):
            reads[f"{symbol} {version}"] = lambda s, n=symbol, v=version: _content(s, n, v)
    return reads


def _content(store: Store, symbol: str, version: int | str) -> Any:
    if symbol not in store.symbols(as_of=version):
        return None
    view = store.view(symbol, version)
    found = store.read(symbol, as_of=version).to_arrow().replace_schema_metadata(None)
    return view.schema, view.metadata, view.row_count, found


def _collected(store: Store) -> Any:
    report = store.gc()
    states = (report.live, report.dead, report.young, report.leased)
    return [{kind: tally.objects for kind, tally in state.items()} for state in states]


def _offsets(size: int, count: int) -> list[int]:
    if size <= count:
        return list(range(size))
    ends = {0, 1, size // 2, size - 1}
    return sorted(ends | set(random.Random(size).sample(range(size), count - len(ends))))


def _name(path: Path, file: Path) -> str:
    return file.relative_to(path).as_posix()


def _asked(path: Path, read: Read) -> tuple[Any, StoreError | None]:
    try:
        return read(Store.open(path, create=False, read_only=True)), None
    except StoreError as error:
        return None, error


def _judge(path: Path, name: str, reads: dict[str, Read], right: dict[str, Any]) -> int:
    """Ask everything of a store with a damaged object, and return how much raised."""
    report = check_store(Repository(LocalObjects(str(path)), "id", read_only=True))
    assert name in {damage.object for damage in report.damages}
    raised = 0
    for question, read in reads.items():
        answer, error = _asked(path, read)
        if error is None:
            assert answer == right[question], question
        else:
            assert name in str(error), (question, error)
            raised += 1
    return raised


def _tear(path: Path, kind: str, count: int) -> None:
    reads = _reads(path)
    right = {q: read(Store.open(path, create=False, read_only=True)) for q, read in reads.items()}
    files = _objects(path, kind)
    assert files
    for file in files:
        whole = file.read_bytes()
        name = _name(path, file)
        raised = 0
        try:
            for offset in _offsets(len(whole), count):
                file.write_bytes(whole[:offset])
                raised += _judge(path, name, reads, right)
        finally:
            file.write_bytes(whole)
        assert raised
    assert check_store(Repository(LocalObjects(str(path)), "id", read_only=True)).damages == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_cut_short(kind: str, path: Path) -> None:
    _tear(path, kind, max(4, 12 // len(_objects(path, kind))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_cut_at_64_offsets(kind: str, path: Path) -> None:
    _tear(path, kind, 64)


def test_the_store_has_what_is_cut(path: Path) -> None:
    """A deep index, a configuration, a pack and a segment of its own are really there."""
    store = Store.open(path, create=False)
    assert isinstance(store.at(1).snapshot.root, Inner)
    assert store.manifest_configuration.set_named("axes").max_segments == 10
    assert all(_objects(path, kind) for kind in KINDS)

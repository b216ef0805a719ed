"""Stores of every version of the format: those of others are refused unchanged, ours reads."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.errors import FormatVersionError, RefNotFoundError, SnapshotExpiredError
from tessel.store.history.documents import FORMAT_VERSION
from tests.store.golden.making import rows
from tests.store.helpers import assert_same

_STORES = Path(__file__).parent / "stores"
_DIGESTS = {
    "0.2": "7dec2cff570b3157fe5d07fd42964f6861a80badf83d9aa6491ea94a9ca622f1",
    "0.3": "4c73870589fa98955f5b41f72231b23c4fdb2009a52a33edcc3e5fbfc982e151",
    "0.4": "f331931b74d53478ea2476c9d980e3d2c998da3ce9b2c2e2ef80c0ee06e9732f",
    "1.0": "5b6b3badfbff658cf32f75e0e2df5933806d9020d1e380d343280d127a45f522",
}
_OURS = ".".join(map(str, FORMAT_VERSION))
_REFUSED = ["0.2", "0.3"]
_READ = sorted(set(_DIGESTS) - set(_REFUSED))


def _unpacked(version: str, folder: Path) -> Path:
    path = folder / "store"
    with tarfile.open(_STORES / f"{version}.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path


def _facts(path: Path) -> dict[str, tuple[int, bytes]]:
    """Return what must not change: names, times of change, bytes."""
    return {
        str(file.relative_to(path)): (
            file.stat().st_mtime_ns,
            file.read_bytes() if file.is_file() else b"",
        )
        for file in [path, *path.rglob("*")]
    }


def test_all_golden_stores_are_what_they_were() -> None:
    found = {
        file.name.removesuffix(".tar.xz"): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in _STORES.iterdir()
    }
    assert found == _DIGESTS
    assert _OURS in _DIGESTS, "the format has a new version: make its golden store"
    assert sum(file.stat().st_size for file in _STORES.iterdir()) < 100_000


@pytest.mark.parametrize("version", _REFUSED)
@pytest.mark.parametrize(
    "opened",
    [
        lambda path: Store.open(path),
        lambda path: Store.open(path, create=False),
        lambda path: Store.open(path, read_only=True),
        lambda path: Store.open(path, branch="trial"),
    ],
)
def test_a_store_of_another_version_is_refused_unchanged(
    version: str, opened: Callable[[Path], Store], tmp_path: Path
) -> None:
    path = _unpacked(version, tmp_path)
    before = _facts(path)
    with pytest.raises(FormatVersionError, match=f"format version {version}") as caught:
        opened(path)
    assert caught.value.attributes["found"] == [int(part) for part in version.split(".")]
    assert caught.value.attributes["readable"] == list(FORMAT_VERSION)
    assert _facts(path) == before


def _read(store: Store, symbol: str, as_of: int | str | None = None) -> pa.Table:
    return store.read(symbol, as_of=as_of).to_arrow().replace_schema_metadata(None)


@pytest.mark.parametrize("version", _READ)
def test_a_store_reads_as_it_was_written(version: str, tmp_path: Path) -> None:
    path = _unpacked(version, tmp_path)
    before = _facts(path)
    store = Store.open(path, create=False, read_only=True)
    assert store.version == 4
    assert store.tags() == {"audited": 2}
    assert store.branches() == {"main": 4, "trial": 6}
    assert store.symbols() == ["..", "trades"]
    assert store.symbols(as_of="trial") == ["only on trial", "trades"]
    assert_same(_read(store, "trades"), rows(0, 50))
    assert_same(_read(store, "trades", "audited"), rows(0, 50))
    assert_same(_read(store, "trades", 1), rows(0, 40))
    assert_same(_read(store, "trades", "trial"), rows(0, 40))
    assert_same(_read(store, ".."), pa.table({"x": [1, 2, 3]}))
    assert_same(_read(store, "only on trial", "trial"), pa.table({"y": ["z"]}))
    view = store.view("trades")
    assert view.schema.index == "time"
    assert view.metadata == {"source": "golden", "n": [1]}
    found = store.read("trades", date_range=("1970-01-11", "1970-01-20")).to_arrow()
    assert_same(found.replace_schema_metadata(None), rows(10, 20))
    assert [(v.number, v.symbol, v.change, v.rows) for v in store.log()] == [
        (4, "", "create-tag", 0),
        (3, "..", "write", 3),
        (2, "trades", "append", 50),
        (1, "trades", "write", 40),
    ]
    report = store.check()
    assert report.damages == []
    assert report.orphans == 0
    assert _facts(path) == before


@pytest.mark.parametrize("version", _READ)
def test_a_store_can_be_written_on(version: str, tmp_path: Path) -> None:
    """What this release adds to it does not spoil what is there."""
    path = _unpacked(version, tmp_path)
    before = _facts(path)
    store = Store.open(path, create=False)
    store.append("trades", rows(50, 60))
    store.compact("trades")
    store.repack()
    store.delete("..")
    assert_same(_read(store, "trades"), rows(0, 60))
    assert_same(_read(store, "trades", 2), rows(0, 50))
    after = _facts(path)
    assert {n: data for n, (_, data) in before.items() if data}.items() <= {
        n: data for n, (_, data) in after.items()
    }.items()
    store.expire(store.version, dry_run=False)
    assert_same(_read(store, "trades", "audited"), rows(0, 50))
    with pytest.raises(SnapshotExpiredError):
        store.at(3)
    with pytest.raises(RefNotFoundError):
        store.at("unknown")
    assert store.check().damages == []

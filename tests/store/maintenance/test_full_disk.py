"""A full disk is freed by our own means: delete, expire and gc go through, out of a reserve."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tessel
from tessel.errors import DiskFullError, ReadOnlyStoreError, StoreError
from tessel.store.objects import LocalObjects, local
from tessel.store.objects.local import TEMPORARY

NOW = timedelta(0)
RESERVE = 1 << 20


class SmallDisk:
    """Takes as many bytes below a folder as it has, then fails as a full disk does: on the way."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.room = 1 << 40
        self._write = local._write_file
        self._extend = local._extend
        monkeypatch.setattr(local, "_write_file", self.write)
        monkeypatch.setattr(local, "_extend", self.extend)

    @property
    def used(self) -> int:
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def extend(self, path: str, missing: int) -> None:
        left = max(0, self.room - self.used)
        self._extend(path, min(missing, left))
        if missing > left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, path: str, data: bytes | pa.Buffer, durable: bool) -> None:
        left = max(0, self.room - self.used)
        view = memoryview(data).cast("B")
        if len(view) <= left:
            self._write(path, data, durable)
            return
        self._write(path, bytes(view[:left]), durable)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(self) -> None:
        """Leave no byte."""
        self.room = self.used


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    with tessel.options(fsync=False):
        yield SmallDisk(tmp_path, monkeypatch)


def rows(seed: int) -> pa.Table:
    return pa.table({"x": np.random.default_rng(seed).random(20_000)})


def filled(root: Path) -> tessel.Store:
    store = tessel.open(str(root))
    for number in range(4):
        store.write(f"s{number}", rows(number))
    store.create_branch("dev")
    return store


def reserve_of(root: Path) -> Path:
    return root / TEMPORARY / "reserve"


def test_a_store_has_a_reserve_that_no_release_takes_for_an_object(disk: SmallDisk) -> None:
    store = filled(disk.root)
    assert reserve_of(disk.root).stat().st_size == RESERVE
    assert not any("reserve" in name for name in store.objects.list())
    assert isinstance(store.objects, LocalObjects)
    assert list(store.objects.leftovers()) == []
    assert store.gc(minimum_age=NOW, dry_run=False).deleted.objects == 0
    assert store.check().damages == []


def test_the_error_of_a_full_disk_names_the_way_out(disk: SmallDisk) -> None:
    store = filled(disk.root)
    disk.fill()
    before = set(store.objects.list())
    with pytest.raises(DiskFullError, match="is full") as caught:
        store.write("more", rows(9))
    hint = caught.value.hint or ""
    assert "gc(dry_run=False)" in hint
    assert "out of a reserve" in hint
    assert caught.value.attributes["errno"] == errno.ENOSPC
    assert str(disk.root) in caught.value.message
    assert isinstance(caught.value, OSError)
    assert set(store.objects.list()) == before
    assert disk.used <= disk.room
    reserve_of(disk.root).unlink()
    disk.fill()
    with pytest.raises(DiskFullError) as caught:
        store.delete("s0")
    assert "make room for 1 MiB by other means" in (caught.value.hint or "")


@pytest.mark.parametrize("reopened", [False, True], ids=["one process", "a process each"])
def test_a_full_disk_is_freed(disk: SmallDisk, reopened: bool) -> None:
    store = filled(disk.root)
    disk.fill()

    def again() -> tessel.Store:
        return tessel.open(str(disk.root)) if reopened else store

    steps: list[Callable[[tessel.Store], object]] = [
        lambda store: store.delete("s0"),
        lambda store: store.delete_branch("dev"),
        lambda store: store.delete("s1"),
        lambda store: store.expire(store.version, dry_run=False),
    ]
    for step in steps:
        with pytest.raises(DiskFullError):
            again().write("more", rows(9))
        step(again())
        assert disk.used <= disk.room
    report = again().gc(minimum_age=NOW, dry_run=False)
    assert report.deleted.bytes > 2 * rows(0).nbytes * 0.9
    assert disk.used <= disk.room
    assert reserve_of(disk.root).stat().st_size == RESERVE
    kept = again()
    assert kept.symbols() == ["s2", "s3"]
    assert kept.check().damages == []
    assert kept.read("s2").to_arrow().equals(rows(2))
    assert kept.write("more", rows(9)) == kept.version, "what was freed can be written to"


def test_gc_alone_frees_what_has_expired(disk: SmallDisk) -> None:
    store = filled(disk.root)
    for number in range(4):
        store.delete(f"s{number}")
    store.delete_branch("dev")
    store.expire(store.version, dry_run=False)
    disk.fill()
    assert tessel.open(str(disk.root)).gc(minimum_age=NOW, dry_run=False).deleted.objects >= 4
    assert reserve_of(disk.root).exists()


@pytest.mark.parametrize("left", [0, 1, 100, 300, 1000, 5000])
def test_wherever_the_room_ends(disk: SmallDisk, left: int) -> None:
    """Each put of the acts is the first that does not fit, for one of the sizes."""
    store = filled(disk.root)
    disk.room = disk.used + left
    store.delete("s0")
    store.delete_branch("dev")
    store.expire(store.version, dry_run=False)
    assert store.gc(minimum_age=NOW, dry_run=False).deleted.objects >= 1
    assert store.check().damages == []
    assert list(LocalObjects(disk.root).leftovers()) == []


def test_an_old_store_gets_a_reserve_with_its_next_write(disk: SmallDisk) -> None:
    filled(disk.root)
    reserve_of(disk.root).unlink()
    store = tessel.open(str(disk.root))
    store.read("s0")
    store.gc(minimum_age=NOW)
    reader = tessel.open(str(disk.root), read_only=True)
    for act in (lambda: reader.delete("s0"), lambda: reader.expire(1, dry_run=False)):
        with pytest.raises(ReadOnlyStoreError):
            act()
    assert not reserve_of(disk.root).exists(), "who only looks writes nothing"
    store.write("s0", rows(5))
    assert reserve_of(disk.root).stat().st_size == RESERVE


def test_what_is_too_large_for_the_reserve_is_refused_whole(disk: SmallDisk) -> None:
    store = filled(disk.root)
    disk.fill()
    with pytest.raises(StoreError), store.objects.freeing():  # type: ignore[attr-defined]
        store.objects.put_if_absent("seg/aa/" + "aa" * 16, bytes(2 * RESERVE))
    assert store.check().damages == []

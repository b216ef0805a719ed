"""Every place for bytes keeps the same promises."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import CorruptStoreError, InvalidInputError, NotFoundError, StoreError
from tessel.options import options
from tessel.store.objects import LocalObjects, MemoryObjects, ObjectStore, put_all
from tessel.store.objects.local import TEMPORARY

PLACES = {
    "memory": lambda path: MemoryObjects.named(""),
    "mapped": lambda path: LocalObjects(path / "store"),
    "pread": lambda path: LocalObjects(path / "store", mapped=False),
}


@pytest.fixture(params=PLACES)
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    made: ObjectStore = PLACES[request.param](tmp_path)
    return made


def test_put_get_list_delete(objects: ObjectStore) -> None:
    assert isinstance(objects, ObjectStore)
    assert list(objects.list()) == []
    assert objects.put_if_absent("a/b", b"one")
    assert not objects.put_if_absent("a/b", b"two")
    assert objects.put_if_absent("empty", b"")
    assert objects.put_if_absent("a/c/d", pa.py_buffer(b"x" * 100_000))
    assert objects.get("a/b").to_pybytes() == b"one"
    assert objects.get("empty").to_pybytes() == b""
    assert objects.get("a/c/d").to_pybytes() == b"x" * 100_000
    assert objects.get_range("a/b", 1, 2).to_pybytes() == b"ne"
    assert objects.get_range("a/c/d", 10, 90_000).size == 90_000
    assert not objects.get("a/c/d").is_mutable
    assert (objects.size("a/b"), objects.exists("a/b"), objects.exists("a")) == (3, True, False)
    assert list(objects.list()) == ["a/b", "a/c/d", "empty"]
    objects.delete("a/b")
    objects.delete("a/b")
    assert list(objects.list("a/")) == ["a/c/d"]
    assert not objects.exists("a/b")


def test_what_is_not_there(objects: ObjectStore) -> None:
    objects.put_if_absent("a", b"abc")
    for act in (objects.get, objects.size, lambda name: objects.get_range(name, 0, 1)):
        for name in ("b", "b/c", "a/b"):
            with pytest.raises(NotFoundError, match="no object"):
                act(name)
    for offset, length in ((0, 4), (3, 1), (-1, 1), (0, -1), (0, 10**9)):
        with pytest.raises(CorruptStoreError, match="cut short"):
            objects.get_range("a", offset, length)


@pytest.mark.parametrize("name", ["", "../a", "a/../b", "/a", "a//b", "A", "a\0", ".a", "a" * 300])
def test_names_are_checked(objects: ObjectStore, name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot name an object"):
        objects.put_if_absent(name, b"")


_names = st.lists(st.sampled_from(["a", "b", "a-b", "a.b", "b0"]), min_size=1, max_size=3)


@given(
    names=st.sets(_names.map("/".join), max_size=8),
    prefix=st.sampled_from(["", "a/", "a/b/", "c/"]),
    after=st.none() | _names.map("/".join),
    limit=st.none() | st.integers(0, 3),
)
def test_listing_is_that_of_a_sorted_list(
    names: set[str], prefix: str, after: str | None, limit: int | None, tmp_path_factory: Any
) -> None:
    with options(fsync=False):
        for place in PLACES.values():
            objects = place(tmp_path_factory.mktemp("objects"))
            kept = []
            for name in sorted(names):
                # A file system cannot hold a name that is also a folder.
                if not any(name.startswith(other + "/") for other in kept):
                    objects.put_if_absent(name, b"")
                    kept.append(name)
            wanted = [n for n in kept if n.startswith(prefix) and (after is None or n > after)]
            assert list(objects.list(prefix, after=after, limit=limit)) == wanted[:limit]


def test_one_of_many_threads_wins(objects: ObjectStore) -> None:
    barrier = threading.Barrier(8)
    won: list[int] = []

    def put(number: int) -> None:
        barrier.wait()
        if objects.put_if_absent("log/1", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert objects.get("log/1").to_pybytes() == b"%d" % won[0]


def test_put_all_raises_what_failed(objects: ObjectStore) -> None:
    put_all(objects, ((f"seg/{n}", b"%d" % n) for n in range(50)))
    assert len(list(objects.list("seg/"))) == 50
    put_all(objects, iter([("seg/1", b"1")]))
    with pytest.raises(CorruptStoreError, match="other content"):
        put_all(objects, ((f"seg/{n}", b"other") for n in range(40, 60)))


# --- the local disk -------------------------------------------------------------------------------


def test_nothing_temporary_is_left(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path / "x" / "store")
    objects.put_if_absent("a", b"1")
    objects.put_if_absent("a", b"2")
    assert list((tmp_path / "x" / "store" / TEMPORARY).iterdir()) == []


def _refusing(function: Any, number: int, when: Any = lambda *_: True) -> Any:
    def refuse(*arguments: Any, **named: Any) -> Any:
        if when(*arguments):
            raise OSError(number, os.strerror(number))
        return function(*arguments, **named)

    return refuse


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", _refusing(os.link, number))
    with pytest.raises(StoreError, match="no hard links"):
        LocalObjects(tmp_path).put_if_absent("store.json", b"")
    assert list(LocalObjects(tmp_path).list()) == []


@pytest.mark.parametrize("call", ["write", "fsync", "open", "mkdir", "link"])
def test_a_full_disk_is_an_error_and_leaves_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    objects = LocalObjects(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _refusing(getattr(os, call), errno.ENOSPC))
        with pytest.raises(StoreError) as caught:
            objects.put_if_absent("seg/a", b"data")
        assert caught.value.attributes["errno"] == errno.ENOSPC
    assert list(objects.list()) == []
    assert objects.put_if_absent("seg/a", b"data")


def test_a_failed_sync_of_the_directory_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = LocalObjects(tmp_path)
    objects.put_if_absent("seg/a", b"")
    linked: list[object] = []
    link = os.link
    monkeypatch.setattr(os, "link", lambda *names: (linked.append(names), link(*names)))
    monkeypatch.setattr(os, "fsync", _refusing(os.fsync, errno.EIO, lambda _: bool(linked)))
    with pytest.raises(StoreError) as caught:
        objects.put_if_absent("seg/b", b"data")
    assert caught.value.attributes["landed"] == "unknown"


def test_data_are_synced_before_they_are_named_and_names_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("fsync", "link", "mkdir"):
        real = getattr(os, name)

        def noted(*arguments: Any, _name: str = name, _real: Any = real, **named: Any) -> Any:
            calls.append(_name)
            return _real(*arguments, **named)

        monkeypatch.setattr(os, name, noted)
    objects = LocalObjects(tmp_path)
    objects.put_if_absent("a", b"x")
    assert calls[-3:] == ["fsync", "link", "fsync"]
    calls.clear()
    objects.put_if_absent("seg/a", b"x")
    assert calls == ["mkdir", "fsync", "fsync", "link", "fsync"]
    calls.clear()
    with options(fsync=False):
        objects.put_if_absent("seg/b", b"x")
    assert "fsync" not in calls


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    objects = LocalObjects(tmp_path)
    objects.put_if_absent("a", b"0123456789")
    assert objects.get("a").to_pybytes() == b"0123456789"

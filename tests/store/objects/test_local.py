"""The local disk: what a put does in which order, and what it says when the disk refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tessel.errors import StoreError, StoreNotFoundError
from tessel.options import options
from tessel.store import Repository
from tessel.store.objects import LocalObjects
from tessel.store.objects.local import TEMPORARY


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


def test_a_store_is_not_made_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "store"
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", _refusing(os.link, errno.EPERM))
        with pytest.raises(StoreError, match="no hard links") as caught:
            Repository.open(place)
        assert caught.value.hint
        with pytest.raises(StoreNotFoundError):
            Repository.open(place, create=False)
    assert Repository.open(place).newest == 0


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

"""A store that was open and is gone (unmounted, deleted) says so; it never looks empty."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tessel
from tessel.errors import StoreNotFoundError
from tests.store.objects.servers import CREDENTIALS, MotoServer

ROWS = pa.table({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]})

ACTS: dict[str, Callable[[Any], object]] = {
    "symbols": lambda store: store.symbols(),
    "read": lambda store: store.read("a"),
    "read as of": lambda store: store.read("a", as_of=1),
    "query": lambda store: store.read("a", query=tessel.QueryBuilder().filter("x > 1")),
    "log": lambda store: store.log(),
    "versions": lambda store: store.versions("a"),
    "newest": lambda store: store.newest,
    "branches": lambda store: store.branches(),
    "diff": lambda store: store.diff(1, 2),
    "write": lambda store: store.write("b", ROWS, index="t"),
    "append": lambda store: store.append("a", pa.table({"t": [9], "x": [9.0]})),
    "delete": lambda store: store.delete("a"),
    "stage": lambda store: store.stage("a", ROWS, task_id="1"),
    "compact": lambda store: store.compact("a"),
    "create_tag": lambda store: store.create_tag("v1"),
    "create_branch": lambda store: store.create_branch("dev"),
    "revert": lambda store: store.revert(1),
    "expire": lambda store: store.expire(2, dry_run=False),
    "lease": lambda store: store.lease(),
    "gc": lambda store: store.gc(minimum_age=timedelta(0), dry_run=False),
    "check": lambda store: store.check(),
}


def filled(uri: str, **more: Any) -> Any:
    store = tessel.open(uri, **more)
    store.write("a", ROWS, index="t")
    store.append("a", pa.table({"t": [4], "x": [4.0]}))
    store.read("a")
    return store


@pytest.mark.parametrize("root", ["an empty directory", "no directory"])
def test_a_directory_that_is_gone(tmp_path: Path, root: str) -> None:
    place, away = tmp_path / "store", tmp_path / "away"
    store = filled(str(place))
    place.rename(away)
    if root == "an empty directory":
        place.mkdir()  # what is left of a mount point
    for name, act in ACTS.items():
        with pytest.raises(StoreNotFoundError, match="is gone") as caught:
            act(store)
        assert str(place) in str(caught.value), name
        assert "mounted" in (caught.value.hint or "")
    assert not place.exists() or list(place.iterdir()) == []
    if place.exists():
        place.rmdir()
    away.rename(place)
    assert store.append("a", pa.table({"t": [5], "x": [5.0]})) == 3
    assert store.read("a").to_arrow().num_rows == 5


def test_a_directory_that_goes_while_a_transaction_runs(tmp_path: Path) -> None:
    place, away = tmp_path / "store", tmp_path / "away"
    store = filled(str(place))

    def goes_away() -> None:
        with store.transaction() as transaction:
            transaction.append("a", pa.table({"t": [5], "x": [5.0]}))
            place.rename(away)
            place.mkdir()

    with pytest.raises(StoreNotFoundError, match="is gone"):
        goes_away()
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_folder_of_a_bucket_that_is_gone(moto: MotoServer) -> None:
    bucket = moto.new_bucket()
    store = filled(f"s3://{bucket}/one", credentials=CREDENTIALS, options=moto.options)
    for name in list(store.objects.list()):
        store.objects.delete(name)
    for name, act in ACTS.items():
        with pytest.raises(StoreNotFoundError, match="is gone") as caught:
            act(store)
        assert bucket in str(caught.value), name
    assert list(store.objects.list()) == []


def test_a_new_store_is_empty_and_there(tmp_path: Path) -> None:
    store = tessel.open(str(tmp_path / "store"))
    assert store.symbols() == []
    assert store.newest == 0

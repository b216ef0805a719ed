"""What a place knows of its objects without reading them, on each kind of place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tessel.errors import NotFoundError
from tessel.store.objects import (
    LocalObjects,
    MemoryObjects,
    ObjectStore,
    SupportsInventory,
    SupportsLeftovers,
)
from tessel.store.objects.local import TEMPORARY
from tests.store.objects.servers import MotoServer

PLACES: dict[str, Callable[[Path, MotoServer], ObjectStore]] = {
    "local": lambda path, moto: LocalObjects(path),
    "memory": lambda path, moto: MemoryObjects(f"memory://{path.name}"),
    "s3": lambda path, moto: moto.open(f"s3://{moto.new_bucket()}/a/folder"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_size_and_age_are_told_without_reading(kind: str, tmp_path: Path, moto: MotoServer) -> None:
    objects = PLACES[kind](tmp_path, moto)
    assert isinstance(objects, SupportsInventory)
    before_us = time.time_ns() // 1000 - 1_000_000
    for name, size in (("a/b", 3), ("a/c", 0), ("b/a", 100_000)):
        objects.put_if_absent(name, bytes(size))
    found = list(objects.inventory())
    assert [(f.name, f.size) for f in found] == [("a/b", 3), ("a/c", 0), ("b/a", 100_000)]
    assert [f.name for f in objects.inventory("a/")] == ["a/b", "a/c"]
    for facts in found:
        assert before_us < facts.modified_us < before_us + 60_000_000
        assert objects.modified_us(facts.name) == facts.modified_us
    objects.delete("a/b")
    assert [f.name for f in objects.inventory()] == ["a/c", "b/a"]
    with pytest.raises(NotFoundError, match="a/b"):
        objects.modified_us("a/b")


def test_names_that_no_object_can_have_are_listed_too(tmp_path: Path) -> None:
    (tmp_path / "Notes.TXT").write_bytes(b"hello")
    assert [(f.name, f.size) for f in LocalObjects(tmp_path).inventory()] == [("Notes.TXT", 5)]


def test_what_a_killed_put_left_is_found_and_a_lock_is_not(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    assert isinstance(objects, SupportsLeftovers)
    assert list(objects.leftovers()) == []
    folder = tmp_path / TEMPORARY
    folder.mkdir()
    name = f"{os.getpid()}-{'0' * 32}"
    (folder / name).write_bytes(b"half")
    (folder / "turn-commit").touch()
    (found,) = objects.leftovers()
    assert (found.name, found.size) == (name, 4)
    for _ in range(2):
        objects.remove_leftover(name)
    assert os.listdir(folder) == ["turn-commit"]

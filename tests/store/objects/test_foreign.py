"""Objects of others: what lies below a root is read, nothing beside it, and only plain files."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    NotFoundError,
    StoreAccessError,
)
from tessel.store.objects import (
    ForeignObjects,
    MemoryObjects,
    foreign_name,
    open_foreign,
)
from tests.store.objects.servers import CREDENTIALS, MotoServer

DATA = random.Random(4).randbytes(200_000)


def local(path: Path, moto: MotoServer, name: str) -> ForeignObjects:
    target = path.joinpath(*name.split("/"))
    target.parent.mkdir(parents=True)
    target.write_bytes(DATA)
    return open_foreign(path)


def memory(path: Path, moto: MotoServer, name: str) -> ForeignObjects:
    objects = open_foreign(f"memory://{path.name}")
    assert isinstance(objects, MemoryObjects)
    objects.put_if_absent(name, DATA)
    return objects


def bucket(path: Path, moto: MotoServer, name: str) -> ForeignObjects:
    place = f"s3://{moto.new_bucket()}/A/folder/"
    objects = open_foreign(place, credentials=CREDENTIALS, options=moto.options)
    objects._writer.put(name, DATA, use_multipart=False)  # type: ignore[attr-defined]
    return objects


PLACES = [
    (local, "Day 1/RUN_7 (é).MP4"),
    (local, "a/b/c/d"),
    (memory, "run/seven"),
    (bucket, "Day 1/RUN_7 (a,b).MP4"),
]


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_parts_are_read_as_they_lie(place, name, tmp_path, moto):
    objects = place(tmp_path, moto, name)
    assert isinstance(objects, ForeignObjects)
    assert foreign_name(objects.uri, f"{objects.uri}/{name}") == name
    assert objects.size(name) == len(DATA)
    pick = random.Random(1)
    for _ in range(20):
        first, stop = sorted(pick.choices(range(len(DATA) + 1), k=2))
        assert bytes(objects.get_range(name, first, stop - first)) == DATA[first:stop]
    for first, length in [(0, len(DATA) + 1), (len(DATA), 1), (-1, 1), (1, -1), (2**62, 2**62)]:
        with pytest.raises(CorruptStoreError):
            objects.get_range(name, first, length)
    with pytest.raises(NotFoundError):
        objects.get_range("another/name", 0, 1)
    with pytest.raises(NotFoundError):
        objects.size("another/name")
    for wrong in ("", "/", "a//b", "../x", "a/..", "./a", "a\\b", "a\nb", "a\0b", "a" * 1025):
        with pytest.raises(InvalidInputError):
            objects.get_range(wrong, 0, 1)
        with pytest.raises(InvalidInputError):
            objects.size(wrong)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/data/videos/a.mp4", "a.mp4"),
        ("file:///data/videos/a%20b", "a b"),
        ("file://localhost/data/videos/a", "a"),
        ("/data/videos", None),
        ("/data/videos/", None),
        ("/data/videosx/a", None),
        ("/data/videos/../a", None),
        ("/data/videos/a/../../b", None),
        ("/data/videos/./a", None),
        ("/data/videos//a", None),
        ("/data/videos/a/", None),
        ("/data/./videos/a", None),
        ("file:///data/videos/%2e%2e/a", None),
        ("file:///data/videos/%2E./a", None),
        ("file:///data/videos/a%2f..%2f..%2fb", None),
        ("file:///data/videos/a%00", None),
        ("s3://data/videos/a", None),
        ("memory:///data/videos/a", None),
    ],
)
def test_only_what_lies_below_a_root_has_a_name(uri, name):
    assert foreign_name("/data/videos", uri) == name
    assert foreign_name("/data/videos/", uri) == name


@pytest.mark.parametrize(
    "uri", ["videos/a", "http://h/a", "file://host/a", "ftp://u:secret@h", "~"]
)
def test_other_schemes_and_relative_paths_are_refused(uri):
    with pytest.raises(InvalidInputError) as caught:
        foreign_name("/data", uri)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInputError):
        open_foreign(uri)


def test_roots_that_are_none_are_refused():
    for uri in ("", "a\0b", b"/data"):
        with pytest.raises(InvalidInputError):
            open_foreign(uri)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="for a cloud"):
        open_foreign("/data", options={})


def test_links_are_not_followed_and_only_plain_files_read(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "file").write_bytes(b"plain")
    (root / "link").symlink_to(outside / "secret")
    (root / "within").symlink_to(root / "file")
    (root / "folder" / "out").symlink_to(outside)
    os.mkfifo(root / "pipe")
    objects = open_foreign(root)
    assert bytes(objects.get_range("file", 0, 5)) == b"plain"
    for name in ("link", "within", "folder/out/secret", "pipe", "folder"):
        with pytest.raises(StoreAccessError, match="is not read"):
            objects.get_range(name, 0, 1)
        with pytest.raises(StoreAccessError, match="is not read"):
            objects.size(name)
    with pytest.raises(StoreAccessError):
        objects.get_range("file/below", 0, 1)
    (tmp_path / "alias").symlink_to(root)  # a root is chosen by who opens it
    assert bytes(open_foreign(tmp_path / "alias").get_range("file", 0, 5)) == b"plain"


def test_no_descriptor_is_left_open(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"1")
    objects = open_foreign(tmp_path)
    for name in ("a/b/c", "a/b", "a/b/none", "none/x"):
        for _ in range(3):
            try:
                objects.get_range(name, 0, 1)
            except (NotFoundError, StoreAccessError):
                continue
    left = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            left.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    # of this folder alone: what other tests left behind may be collected, and closed, meanwhile
    assert [each for each in left if each.startswith(str(tmp_path))] == []

"""A pipe, a directory or twenty gigabytes in place of a file of a store are errors, soon."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tessel
from tessel.errors import NotAStoreError, StoreError, TesselError
from tessel.store.objects.local import object_failed
from tessel.store.rows import FileTail, RowSchema


def made(folder: Path) -> list[Path]:
    store = tessel.open(str(folder))
    store.write("a", {"n": list(range(1000))})
    store.append("a", {"n": list(range(1000))})
    store.write("b", {"text": [str(at) * 100 for at in range(1000)]})
    return sorted(path for path in folder.rglob("*") if path.is_file())


def look(folder: Path) -> None:
    store = tessel.open(str(folder), create=False)
    for symbol in ("a", "b"):
        assert store.read(symbol).to_arrow().num_rows in (1000, 2000)


@pytest.mark.parametrize("odd", ["pipe", "directory", "device"])
def test_what_is_no_file_is_an_error_and_not_waited_for(odd, tmp_path):
    refused = 0
    for path in made(tmp_path):
        kept = path.with_name("kept")
        path.rename(kept)
        if odd == "pipe":
            os.mkfifo(path)
        elif odd == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        with contextlib.suppress(TesselError):
            refused += 1
            look(tmp_path)
            refused -= 1
        path.rmdir() if odd == "directory" else path.unlink()
        kept.rename(path)
    assert refused >= 4
    look(tmp_path)


LOOKS = """
import resource, sys
from pathlib import Path
from tests.store.objects.test_odd_files import look
from tessel.errors import TesselError
look(Path(sys.argv[1]))
held = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (held + (1 << 30),) * 2)
for path in sys.stdin.read().split():
    size = Path(path).stat().st_size
    with open(path, "r+b") as file:
        file.truncate(20 << 30)
    try:
        look(Path(sys.argv[1]))
        print("read")
    except TesselError as error:
        print("refused", error.kind)
    with open(path, "r+b") as file:
        file.truncate(size)
"""


def test_twenty_gigabytes_in_place_of_a_file_are_not_allocated_for(tmp_path):
    paths = made(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOOKS, str(tmp_path)],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(paths)
    assert {line.split()[0] for line in answers} == {"read", "refused"}


def test_a_tail_follows_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    schema = RowSchema.from_arrow(pa.schema([("n", pa.int64())]))
    with pytest.raises(NotAStoreError, match="no regular file"):
        list(FileTail(tmp_path / "pipe", schema).read())


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EACCES, "this user lacks permission at '/stores/a'"),
        (errno.EROFS, "open(…, read_only=True)"),
        (errno.ENOTDIR, "a part of '/stores/a' is a file"),
        (errno.EIO, None),
    ],
)
def test_what_the_disk_refuses_says_where_and_what_to_do(number: int, told: str | None) -> None:
    error = object_failed("write", "log/1", OSError(number, os.strerror(number), "/stores/a"))
    assert isinstance(error, OSError)
    assert error.hint is None if told is None else told in str(error.hint)


def test_a_folder_of_a_store_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, and no folder"):
        tessel.open(str(tmp_path / "file" / "store"))

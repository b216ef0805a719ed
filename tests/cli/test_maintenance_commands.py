"""``tessel expire``, ``gc`` and ``fsck``: golden outputs, on a small store on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import tessel as ts
from tessel.cli.app import app
from tessel.cli.arguments import read_age, read_older_than
from tessel.errors import InvalidInputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of five versions of one symbol, all a month old."""
    path = tmp_path / "store"
    store = ts.open(str(path))
    for number in range(5):
        store.write("s", {"x": [number]})
    _age(path)
    return path


def _age(path: Path) -> None:
    for file in path.glob("*/**/*"):
        if file.is_file():
            os.utime(file, (1_700_000_000, 1_700_000_000))


def _run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_expire_says_what_it_would_do_and_does_it_on_request(folder: Path) -> None:
    told = "3 versions would expire, version 4 is the oldest\n"
    assert _run("expire", 4, "-s", folder).stdout == told
    assert ts.open(str(folder)).version == 5
    done = _run("expire", 4, "-s", folder, "--apply").stdout
    assert done == "3 versions expired, version 4 is the oldest\n"
    again = _run("expire", 4, "-s", folder, "--apply").stdout
    assert again == "nothing to expire: versions from 4 on are kept\n"
    report = json.loads(_run("expire", "52w", "-s", folder, "-o", "json").stdout)
    assert (report["dry_run"], report["oldest"], report["expired"]) == (True, 4, 0)
    assert "snapshot-expired" in _run("show", "s", "-s", folder, "--as-of", 2, code=3).output


def test_gc_counts_and_deletes_on_request(folder: Path) -> None:
    _run("expire", 4, "-s", folder, "--apply")
    counted = json.loads(_run("gc", "-s", folder, "-o", "json").stdout)
    by_kind = {row["kind"]: row for row in counted}
    assert {kind: row["dead"] for kind, row in by_kind.items() if row["dead"]} == {
        "log entries": 3,
        "manifests": 3,
        "segments": 3,
    }
    assert "9 objects" in _run("gc", "-s", folder).stdout
    assert "would be deleted" in _run("gc", "-s", folder).stdout
    assert "bytes deleted" in _run("gc", "-s", folder, "--apply").stdout
    assert len(list(folder.glob("seg/*/*"))) == 2
    assert "0 objects, 0 bytes would" in _run("gc", "-s", folder, "--minimum-age", "0s").stdout
    assert "all sound" in _run("fsck", "-s", folder).stdout


def test_gc_that_cannot_read_everything_fails(folder: Path) -> None:
    _run("expire", 4, "-s", folder, "--apply")
    kept = sorted(folder.glob("man/*"))
    for path in kept:
        path.write_bytes(b"")
    failed = _run("gc", "-s", folder, "--apply", code=5)
    assert "nothing was deleted" in failed.output
    assert sorted(folder.glob("man/*")) == kept


def test_fsck_says_what_is_lost(folder: Path) -> None:
    (newest,) = [p for p in folder.glob("seg/*/*") if _holds(folder, p, version=5)]
    newest.unlink()
    (row,) = json.loads(_run("fsck", "-s", folder, "-o", "json", code=5).stdout)
    assert (row["symbol"], row["rows"], row["versions"], row["version"]) == ("s", "0:1", "5", 5)
    assert row["object"] == f"seg/{newest.parent.name}/{newest.name}"


def _holds(folder: Path, path: Path, *, version: int) -> bool:
    view = ts.open(str(folder)).view("s", as_of=version)
    return view.index().source(0).key.object.endswith(path.name)


def test_fsck_counts_what_no_version_needs(folder: Path) -> None:
    _run("expire", 4, "-s", folder, "--apply")
    assert "9 objects that no version needs" in _run("fsck", "-s", folder).stdout
    report = json.loads(_run("fsck", "-s", folder, "-o", "json").stdout)
    assert (report["orphans"], len(report["orphan_names"])) == (9, 9)


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1.5h", "1 hour", "999999999w", "1y"])
def test_ages_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is no age"):
        read_age(text)


def test_older_than() -> None:
    assert str(read_older_than("36h")) == "1 day, 12:00:00"
    assert read_older_than(" 7 ") == 7
    assert str(read_older_than("2024-01-31")) == "2024-01-31 00:00:00+00:00"
    assert str(read_older_than("2024-01-31T12:00+02:00")) == "2024-01-31 12:00:00+02:00"
    with pytest.raises(InvalidInputError, match="no version, age or instant"):
        read_older_than("yesterday")

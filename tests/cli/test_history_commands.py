"""Branches, tags, differences and reverts on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import tessel as ts
from tessel.cli.app import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store whose symbol ``x`` had one row at version 1 and has two at version 2."""
    path = tmp_path / "store"
    store = ts.open(str(path))
    store.write("x", pa.table({"n": [1]}))
    store.append("x", pa.table({"n": [2]}))
    return path


def _run(arguments: Sequence[object], *, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def _json(*arguments: object) -> Any:
    return json.loads(_run([*arguments, "-o", "json"]).stdout)


def test_branches(folder: Path) -> None:
    _run(["branch", "create", "trial", "--at", 1, "-s", folder])
    # Beginning a branch is a version of its own, whose state is that of version 1.
    assert {"branch": "trial", "version": 3} in _json("branch", "list", "-s", folder)
    assert len(_json("show", "x", "--as-of", "trial", "-s", folder)) == 1
    _run(["branch", "reset", "trial", "--to", 2, "-s", folder])
    assert len(_json("show", "x", "--as-of", "trial", "-s", folder)) == 2
    _run(["branch", "delete", "trial", "-s", folder])
    assert [row["branch"] for row in _json("branch", "list", "-s", folder)] == ["main"]
    result = _run(["show", "x", "--as-of", "trial", "-s", folder], code=3)
    assert "trial" in result.output


def test_messages_that_are_no_unicode(folder: Path) -> None:
    store = ts.open(str(folder))
    with store._begin("caf\udce9") as transaction:  # as earlier versions took them
        transaction.append("x", pa.table({"n": [3]}))
    for command in (["log"], ["versions", "x"]):
        for form in ("table", "csv", "json"):
            told = _run([*command, "-s", folder, "-o", form]).stdout
            assert "caf" in told
            assert "udce9" in told
    told = _run(["revert", 1, "-m", "caf\udce9", "-s", folder], code=4).output
    assert "the message of a commit has half of a surrogate pair" in told
    assert store.version == 3


def test_tags(folder: Path) -> None:
    _run(["tag", "create", "first", "--at", 1, "-s", folder])
    assert _json("tag", "list", "-s", folder) == [{"tag": "first", "version": 1}]
    assert len(_json("show", "x", "--as-of", "first", "-s", folder)) == 1
    _run(["tag", "delete", "first", "-s", folder])
    assert _json("tag", "list", "-s", folder) == []
    assert "first" in _run(["tag", "create", "first", "-s", folder], code=5).output


def test_a_version_by_an_instant(folder: Path) -> None:
    before = ts.open(str(folder)).log()[0].timestamp
    rows = _json("show", "x", "--as-of", before.isoformat(), "-s", folder)
    assert len(rows) == 2
    _run(["show", "x", "--as-of", "2001-01-01T00:00+00:00", "-s", folder], code=3)
    assert len(_json("show", "x", "--as-of", "2100-01", "-s", folder)) == len(
        _json("show", "x", "-s", folder)
    )
    told = _run(["show", "x", "--as-of", "2001-13-01", "-s", folder], code=3).output
    assert "no branch or tag '2001-13-01'" in told
    assert "2024-01-31T12:00" in told


def test_diff(folder: Path) -> None:
    store = ts.open(str(folder))
    store.write("y", pa.table({"a": [1]}))
    store.rename_columns("x", {"n": "number"})
    found = _json("diff", 1, "-s", folder)
    assert [(row["symbol"], row["change"]) for row in found] == [("x", "changed"), ("y", "added")]
    assert (found[0]["rows_before"], found[0]["rows_after"]) == (1, 2)
    assert (found[0]["segments_removed"], found[0]["segments_added"]) == (0, 1)
    assert found[0]["columns"] == "n → number"
    assert _json("diff", 2, 2, "-s", folder) == []


def test_revert(folder: Path) -> None:
    made = _json("revert", 1, "-m", "a mistake", "-s", folder)
    assert made == {"reverted_to": "1", "version": 3}
    assert [row["n"] for row in _json("show", "x", "-s", folder)] == [1]
    assert len(_json("show", "x", "--as-of", 2, "-s", folder)) == 2
    assert _json("log", "-s", folder)[0]["message"] == "a mistake"

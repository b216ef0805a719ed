"""``tessel compact``: the golden texts, and what the command does to a store on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tessel as ts
from tessel.cli.app import app

DRY_RUN = """\
symbol 'ticks', version 7: 6 rows would be written anew
  segments  7 → 3
  bytes     N → about N
"""
DONE = """\
symbol 'ticks', version 8: 6 rows were written anew
  segments  7 → 3
  bytes     N → N
"""
NOTHING = """\
symbol 'ticks' has nothing to compact in version 8
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a symbol of one full segment and six small ones."""
    path = tmp_path / "store"
    store = ts.open(str(path))
    store.write("ticks", pa.table({"t": list(range(3))}), index="t")
    for number in range(3, 9):
        store.append("ticks", pa.table({"t": [number]}))
    return path


def _run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["compact", "ticks", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def _without_sizes(text: str) -> str:
    head, *lines = text.splitlines(keepends=True)
    shown = [re.sub(r"[\d,]+", "N", line) if "bytes" in line else line for line in lines]
    return head + "".join(shown)


def test_what_it_prints(folder: Path) -> None:
    before = ts.open(str(folder)).read("ticks").to_arrow().to_pydict()
    options = ("-s", folder, "--target", 3)
    assert _without_sizes(_run(*options, "--dry-run")) == DRY_RUN
    assert _without_sizes(_run(*options)) == DONE
    assert _run(*options) == NOTHING
    store = ts.open(str(folder))
    assert store.version == 8
    assert store.read("ticks").to_arrow().to_pydict() == before


def test_as_json(folder: Path) -> None:
    found = json.loads(_run("-s", folder, "--target", 3, "-o", "json"))
    sizes = {name: found.pop(name) for name in ("bytes_before", "bytes_after")}
    assert found == {
        "symbol": "ticks",
        "version": 8,
        "dry_run": False,
        "rows_rewritten": 6,
        "segments_before": 7,
        "segments_after": 3,
    }
    assert sizes["bytes_after"] < sizes["bytes_before"]


def test_a_wrong_target(folder: Path) -> None:
    assert "--target 0 is no number of rows" in _run("-s", folder, "--target", 0, code=4)

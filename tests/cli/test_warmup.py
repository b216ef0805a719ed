"""``tessel warmup``: what it says of each kernel, and where it can make none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tessel.cli.app import app
from tessel.kernels import machine_code, making, samples


@pytest.fixture(autouse=True)
def two_rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two kernels that are soon compiled, and a directory for marks of them."""
    monkeypatch.setattr(making, "cache_directory", lambda: tmp_path)
    rooms = {name: samples.ROOMS[name] for name in ("sort_runs", "count_repeats")}
    monkeypatch.setattr(making, "ROOMS", rooms)


def _run(code: int = 0) -> str:
    result = CliRunner().invoke(app, ["warmup", "-o", "json"])
    assert result.exit_code == code, result.output
    return result.output


def test_it_compiles_what_is_not_and_says_how_long_that_took(tmp_path):
    for _ in range(2):
        found = json.loads(_run())
        assert [row["kernels"] for row in found] == ["count_repeats", "sort_runs"]
        assert all(row["seconds"] >= 0 and row["problem"] is None for row in found)
    assert machine_code.is_made(tmp_path, "sort_runs")


def test_what_cannot_be_used_is_said(tmp_path, monkeypatch):
    def agrees(room: str) -> bool:
        if room == "sort_runs":
            raise ValueError("no compiler")
        return False

    monkeypatch.setattr(making, "agrees", agrees)
    problems = {row["kernels"]: row["problem"] for row in json.loads(_run())}
    assert problems == {
        "count_repeats": "it gave another answer than numpy",
        "sort_runs": "it cannot be made: ValueError('no compiler')",
    }
    assert not machine_code.is_made(tmp_path, "sort_runs")


def test_without_numba_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(making, "has_numba", lambda: False)
    assert 'pip install "tessel[jit]"' in _run(code=7)


def test_without_a_directory_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(making, "cache_directory", lambda: None)
    assert "XDG_CACHE_HOME" in _run(code=6)

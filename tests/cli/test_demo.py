"""The demo on the real flights: its answers against DuckDB, both engines, and its exit code."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tessel.cli.app import app
from tessel.cli.exit_codes import ANSWERS_DIFFER
from tessel.cli.flights import read_flights

demo_module = importlib.import_module("tessel.cli.commands.demo")  # not the command in it

DELAYS = """
    SELECT carrier, origin, count(dep_delay) AS flights, avg(dep_delay) AS mean_delay,
           max(dep_delay) AS worst_delay, median(dep_delay - arr_delay) AS median_gained,
           coalesce(sum(dep_delay - arr_delay), 0)::BIGINT AS total_gained
    FROM flights
    WHERE time_hour >= '2013-01-01' AND time_hour < '2013-04-01'
      AND dep_delay > 15 AND carrier IN ('UA', 'AA', 'DL', 'B6')
    GROUP BY ALL ORDER BY carrier, origin
"""
DAILY = """
    SELECT date_trunc('day', time_hour) AS time_hour, count(flight) AS flights,
           count(dep_delay) AS departed, avg(dep_delay) AS mean_delay,
           max(dep_delay) AS worst_delay, sum(distance)::BIGINT AS miles
    FROM flights GROUP BY 1 ORDER BY 1
"""


def _expected(sql: str) -> list[dict[str, Any]]:
    flights = read_flights()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("flights", flights)
        found: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
    return found


def _instants(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: value.timestamp() if hasattr(value, "timestamp") else value
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.spark
def test_both_queries_against_duckdb_and_spark(
    tmp_path: Path, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[str, pa.Table]] = []
    ask = demo_module._answer

    def answer(store: Any, query: Any, engine: str) -> pa.Table:
        answers.append((engine, ask(store, query, engine)))
        return answers[-1][1]

    monkeypatch.setattr(demo_module, "_answer", answer)
    result = CliRunner().invoke(app, ["demo", "-s", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    assert [engine for engine, _ in answers] == ["local", "spark"] * 2
    for place, sql in ((0, DELAYS), (2, DAILY)):
        # Sums of whole numbers are exact in both, so the means agree to the bit.
        assert _instants(answers[place][1].to_pylist()) == _instants(_expected(sql))
    equal = [line for line in result.stdout.splitlines() if line.startswith("equal: ")]
    assert len(equal) == 2
    assert f"all {len(_expected(DELAYS))} rows" in equal[0]
    assert "as version 1 in" in result.stdout


def test_a_second_run_adds_a_version(tmp_path: Path) -> None:
    for version in (1, 2):
        told = ["demo", "-s", str(tmp_path / "store"), "--engine", "local"]
        result = CliRunner().invoke(app, told)
        assert f"as version {version} in" in result.stdout
        assert "equal" not in result.stdout


def test_what_is_printed_without_a_terminal(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "-s", str(tmp_path / "s"), "--engine", "local"])
    assert result.exit_code == 0, result.output
    assert "336,776 rows × 19 columns" in result.stdout
    assert "on the local pool: " in result.stdout
    assert "365" in result.stdout or "366" in result.stdout
    assert "\x1b" not in result.stdout


def test_answers_that_differ_are_shown_and_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two engines stand for a sound one and a wrong one: the second loses its last row's value."""
    monkeypatch.setattr(demo_module, "_start_spark", lambda: None)
    monkeypatch.setattr(demo_module, "_answer", _one_wrong)
    result = CliRunner().invoke(app, ["demo", "-s", str(tmp_path / "s")])
    assert result.exit_code == ANSWERS_DIFFER
    assert "DIFFERENT, first at row 2 (n):" in result.stdout
    assert "{'n': '4'}" in result.stdout


def _one_wrong(store: Any, query: Any, engine: str) -> pa.Table:
    del store, query
    return pa.table({"n": [1, 2, 3 if engine == "local" else 4]})

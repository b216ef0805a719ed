"""The options of a query: what they lower onto, the same for each command that takes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tessel as ts
from tessel.cli.app import app
from tessel.cli.query_options import query_of
from tests.command_page import PAGE, page

Q = ts.QueryBuilder()
p = ts.col("price")
TABLE = pa.table(
    {
        "t": pa.array([n * 1_800_000_000 for n in range(8)], pa.timestamp("us", "UTC")),
        "symbol": ["a", "b"] * 4,
        "price": [12.0, 9.0, 11.0, 14.0, 8.0, 20.0, 13.0, 10.5],
        "qty": list(range(1, 9)),
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ts.open(str(tmp_path / "store")).write("trades", TABLE, index="t")
    return tmp_path / "store"


def _run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


ASKED: list[tuple[list[str], ts.QueryBuilder]] = [
    (["price > 9"], Q.filter("price > 9")),
    (["--where", "price > 10", "--where", "qty > 1"], Q.filter("price > 10", "qty > 1")),
    (["price > 9", "--where", "qty > 1"], Q.filter("price > 9").filter("qty > 1")),
    (["--by", "symbol", "--agg", "mean(price)"],
     Q.groupby("symbol").agg({"price": ["mean"]})),
    (["--agg", "rows=count", "--agg", "low=min(price)", "--agg", "max(qty)"],
     Q.agg(rows="count", low=p.min(), qty_max=("qty", "max"))),
    (["--by", "symbol,qty", "--agg", "vwap=sum(price * qty) / sum(qty)"],
     Q.groupby("symbol", "qty").agg(vwap="sum(price * qty) / sum(qty)")),
    (["--by", "hour=floor(t, '1h')", "--agg", "max"],
     Q.groupby(hour="floor(t, '1h')").agg("max")),
    (["--resample", "1h", "--by", "symbol", "--agg", "sum(qty)", "--tz", "Asia/Kolkata"],
     Q.resample("1h", by="symbol", tz="Asia/Kolkata").agg(qty_sum=("qty", "sum"))),
    (["--limit", "2", "--columns", "symbol, price", "--sort", "price desc", "--sort", "symbol"],
     Q.sort("price", "symbol", descending=[True, False]).select("symbol", "price").head(2)),
    (["--columns", "symbol, price", "--sort", "-price, symbol", "--limit", "2"],
     Q.sort("price", "symbol", descending=[True, False]).select("symbol", "price").head(2)),
    (["--by", "symbol", "--agg", "n=count", "--having", "n > 3", "--sort", "symbol DESC"],
     Q.groupby("symbol").agg(n="count").filter("n > 3").sort("symbol", descending=True)),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "query"), ASKED, ids=[" ".join(a) for a, _ in ASKED])
def test_options_lower_onto_verbs(folder: Path, arguments: list[str], query: Any) -> None:
    store = ts.open(str(folder))
    wanted = store.read("trades", query=query).to_arrow()
    shown = _run("query", "trades", "-s", folder, "-o", "arrow", *arguments).stdout_bytes
    found = pa.ipc.open_stream(shown).read_all()
    assert found.replace_schema_metadata(None).equals(wanted.replace_schema_metadata(None))
    explained = _run("explain", "trades", "-s", folder, *arguments).stdout
    assert explained.strip() == str(store.explain("trades", query)).strip()
    outcome = json.loads(_run("submit", "-s", folder, "--symbol", "trades", *arguments).stdout)
    assert (outcome["state"], outcome["rows"]) == ("succeeded", len(wanted))


def test_options_come_behind_a_plan(folder: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(Q.filter("price > 9").to_json()))
    given = {"agg": ["rows=count"]}
    assert query_of(str(plan), given) == Q.filter("price > 9").agg(rows="count")
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"read": {"store": str(folder), "symbol": "trades"}}))
    outcome = json.loads(_run("submit", job, "--where", "price > 12", "--into", "high").stdout)
    assert outcome["into"] == "high"
    assert len(ts.open(str(folder)).read("high")) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "symbol"], "--by needs --agg"),
        (["--resample", "1h", "--by", "symbol"], "--by and --resample needs --agg"),
        (["--tz", "UTC", "--agg", "sum"], "--tz is the time zone of --resample"),
        (["--agg", "sum", "--agg", "rows=count"], "stands alone"),
        (["--agg", "sum(price) / sum(qty)"], '--agg "name=sum(price) / sum(qty)"'),
        (["--agg", "m=max(qty)", "--agg", "m=count(qty)"], "--agg makes two columns named 'm'"),
        (["--agg", "qty_max=min(qty)", "--agg", "max(qty)"], "two columns named 'qty_max'"),
        (["--by", "symbol,symbol", "--agg", "sum"], "--by makes two columns named 'symbol'"),
        (["--by", "k=qty", "--by", "k=symbol", "--agg", "sum"], "two columns named 'k'"),
        (["--agg", "avg(price)"], "no function 'avg'"),
        (["--by", "floor(time, '1d')", "--agg", "sum"], "--by \"name=floor(time, '1d')\""),
        (["--where", "price > 1 & qty > 2"], "write 'and' for it"),
        (["--sort", "pric"], "did you mean 'price'?"),
        (["--by", "symbl", "--agg", "sum"], "did you mean 'symbol'?"),
        (["--limit", "1", "--columns", "nothing"], "no column 'nothing'"),
    ],
)
def test_misuse_is_told(folder: Path, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["query", "trades", "-s", str(folder), *arguments])
    assert result.exit_code in (3, 4)
    assert said in result.stderr


def test_a_plot_is_a_page(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    file = tmp_path / "chart.html"
    command = ["plot", "trades", "-s", folder, "--file", file]
    _run(*command, "--resample", "1h", "--agg", "mean(price)", "--kind", "bar")
    text = file.read_text()
    assert "price_mean" in text
    assert '"bar"' in text
    assert "price" in (_run(*command, "--y", "prise", code=3).stderr)
    assert "no kind" in _run(*command[:-1], tmp_path / "chart.doc", code=4).stderr
    told = _run(*command[:-1], tmp_path / "nowhere" / "chart.html", code=4).stderr
    assert "in a folder that exists" in told


def test_check_takes_no_local_engine(folder: Path) -> None:
    told = _run("check", "trades", "-s", folder, "--engine", "local", code=4).stderr
    assert "leave out --engine" in told


def test_the_version_and_the_module() -> None:
    assert _run("--version").stdout == "tessel 0.1.0\n"
    done = subprocess.run(
        [sys.executable, "-m", "tessel", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "tessel 0.1.0\n"


def test_the_page_is_made_of_the_parser() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.command_page"

"""Jobs from files and options: what is taken, where results go, what the outcome says."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import tessel as ts
from tessel.cli.app import app
from tessel.cli.query_options import read_document
from tessel.compare import Difference
from tessel.errors import SparkError
from tests.spark_exec.scripts import run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = pa.table({"t": [1, 2, 3, 4], "p": [10.0, 10.5, 9.5, 11.0], "v": ["X", "Y", "X", "X"]})
QUERY = ts.QueryBuilder().filter("p > 9.8").groupby("v").agg(n=("p", "count"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    ts.open(str(path)).write("trades", TABLE, index="t")
    return path


def _outcome(arguments: Sequence[object], *, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if result.stdout else result.stderr


def _job(tmp_path: Path, **sections: Any) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(sections))
    return path


def test_a_job_of_options_runs_and_leaves_nothing(folder: Path) -> None:
    outcome = _outcome(["submit", "p > 9.8", "-s", folder, "--symbol", "trades"])
    assert (outcome["state"], outcome["rows"]) == ("succeeded", 3)
    assert outcome["progress"] == {"done": 1, "total": 1}
    assert ts.open(str(folder)).version == 1


def test_a_job_into_a_symbol(folder: Path, tmp_path: Path) -> None:
    command = ["submit", "p > 9.8", "-s", folder, "--symbol", "trades"]
    outcome = _outcome([*command, "--into", "high"])
    assert (outcome["into"], outcome["version"]) == ("high", 2)
    assert ts.open(str(folder)).read("high").to_arrow()["t"].to_pylist() == [1, 2, 4]
    upsert = ["--into", "high", "--verb", "upsert", "--key", "t"]
    assert _outcome([*command, *upsert])["version"] == 3
    write = {"symbol": "trades", "verb": "update"}
    job = _job(tmp_path, read={"symbol": "high"}, write=write, query="t == 2")
    _outcome(["submit", job, "-s", folder])
    store = ts.open(str(folder))
    assert store.read("high").to_arrow()["t"].to_pylist() == [1, 2, 4]
    assert store.read("trades").to_arrow()["t"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_job_of_a_file_writes_a_file(folder: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"found.{ending}"
    read, write = {"store": str(folder), "symbol": "trades"}, {"file": str(target)}
    job = _job(tmp_path, read=read, write=write, query="p > 9.8")
    outcome = _outcome(["submit", job])
    assert (outcome["file"], outcome["rows"]) == (str(target), 3)
    if ending == "parquet":
        found = parquet.read_table(target)
    elif ending == "csv":
        found = csv.read_csv(target)
    else:
        found = pa.ipc.open_file(str(target)).read_all()
    assert found.to_pydict() == TABLE.filter(pa.compute.greater(TABLE["p"], 9.8)).to_pydict()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_plan_alone_is_a_job_and_options_go_over_a_file(folder: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(QUERY.to_json()))
    assert _outcome(["submit", plan, "-s", folder, "--symbol", "trades"])["rows"] == 2
    job = _job(tmp_path, read={"store": "absent", "symbol": "absent"}, query="p > 9.8")
    assert _outcome(["submit", job, "-s", folder, "--symbol", "trades"])["rows"] == 3


def test_yaml_holds_what_json_holds(tmp_path: Path) -> None:
    """No truth value ``on``, no date: the types of JSON, whatever their look in YAML 1.1."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "on: yes\nday: 2024-01-02\nn: 1_0\nm: -12\nx: 1.5e3\nnone:\ntrue_: true\nkeys: [a, b]\n"
    )
    assert read_document(path) == {
        **{"on": "yes", "day": "2024-01-02", "n": "1_0", "m": -12, "x": 1500.0},
        **{"none": None, "true_": True, "keys": ["a", "b"]},
    }


@pytest.mark.parametrize(
    ("sections", "code", "told"),
    [
        ({"raed": {}}, 3, "no section 'raed'"),
        ({"read": {"symbl": "x"}}, 3, "no field of 'read' 'symbl'"),
        ({"read": []}, 4, "holds fields"),
        ({"read": {"store": "s"}}, 4, "the job says no symbol"),
        ({"read": {"store": ["s"], "symbol": "x"}}, 4, "read.store of a job is a text"),
        ({"engine": {"conf": "x"}}, 4, "engine.conf of a job is a list"),
        (
            {"read": {"store": "s", "symbol": "x"}, "engine": {"name": "dask"}},
            3,
            "no engine 'dask'",
        ),
        ({"read": {"store": "s", "symbol": "x"}, "query": "p >"}, 4, "expression-syntax"),
        ({"write": {"verb": "wirte"}}, 3, "no verb 'wirte'"),
        ({"write": {"symbol": "x", "verb": "upsert"}}, 4, "takes keys"),
        ({"write": {"symbol": "x", "file": "y.csv"}}, 4, "not to both"),
        ({"write": {"file": "y.txt"}}, 4, "of no kind that is written"),
    ],
)
def test_what_is_no_job(tmp_path: Path, sections: dict[str, Any], code: int, told: str) -> None:
    if "write" in sections:
        sections = {"read": {"store": "s", "symbol": "x"}, **sections}
    assert told in _outcome(["submit", _job(tmp_path, **sections)], code=code)


def test_a_job_that_fails_tells_its_error_and_exits_with_its_code(folder: Path) -> None:
    outcome = _outcome(["submit", "q > 1", "-s", folder, "--symbol", "trades"], code=3)
    assert outcome["state"] == "failed"
    assert outcome["error"]["kind"] == "column-not-found"
    absent = ["submit", "q > 1", "-s", folder / "absent", "--symbol", "trades"]
    assert _outcome(absent, code=3)["error"]["kind"] == "store-not-found"


def test_a_file_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "absent" / "x.csv"
    command = ["submit", "p > 1", "-s", folder, "--symbol", "trades", "--file", target]
    assert "cannot write" in _outcome(command, code=4)["error"]["message"]


def test_spark_options_beside_the_local_engine(folder: Path) -> None:
    command = ["query", "trades", "p > 1", "-s", folder, "--engine", "local", "--conf", "a=b"]
    assert "--engine spark" in _outcome(command, code=4)
    assert "KEY=VALUE" in _outcome([*command[:-1], "a"], code=4)


@pytest.mark.spark
def test_query_explain_submit_and_check_on_spark(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["-s", folder, "--master", "local[2]", "-o", "json"]
    assert len(_outcome(["query", "trades", "p > 9.8", *place])) == 3
    assert "tasks" in json.dumps(_outcome(["explain", "trades", "p > 9.8", *place]))
    outcome = _outcome(["submit", "p > 9.8", "--symbol", "trades", *place])
    assert (outcome["state"], outcome["rows"]) == ("succeeded", 3)
    equal = {"rows": 3, "equal": "yes", "first difference": None}
    assert _outcome(["check", "trades", "p > 9.8", *place]) == equal
    other = Difference("p", 1, {"p": 1.0}, {"p": 2.0})
    monkeypatch.setattr("tessel.compare.first_difference", lambda *_: other)
    assert "row 1" in _outcome(["check", "trades", "p > 9.8", *place], code=9)["first difference"]
    elsewhere = ["query", "trades", "p > 1", *place[:2], "--master", "local[7]"]
    assert "is running" in _outcome(elsewhere, code=4)


@pytest.mark.spark
def test_by_spark_submit(folder: Path, tmp_path: Path) -> None:
    """The driver and the workers have the package from its archive alone."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("query: p > 9.8\nengine: {conf: {spark.driver.memory: 512m}}\n")
    command = ["submit", plan, "-s", folder, "--symbol", "trades", "--deploy", "spark-submit"]
    assert _outcome([*command, "--master", "local[1]"])["rows"] == 3
    assert "Spark Connect" in _outcome([*command, "--remote", "sc://127.0.0.1"], code=4)
    assert "no Spark master answers" in _outcome(
        [*command, "--master", "spark://127.0.0.1:9"], code=8
    )


def test_the_package_runs_from_its_archive(folder: Path, tmp_path: Path) -> None:
    done = run_script(
        f"""
        import sys

        from tessel.spark_exec import package_archive

        archive = str(package_archive())
        sys.path.insert(0, archive)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tessel"]:
            del sys.modules[name]
        import tessel as ts
        from tessel.spark_exec.submission import package_version

        assert ts.__file__.startswith(archive)
        found = ts.open({str(folder)!r}).scan("trades").filter("p > 9.8").groupby("v").agg(
            n=("p", "count"), m=("p", "mean")
        )
        print(found.collect().to_arrow()["n"].to_pylist(), package_version())
        """,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1, 2] 0.1.0\n" or done.stdout == "[2, 1] 0.1.0\n"


def test_a_server_of_connect_that_accepts_and_says_nothing(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done = run_script(
            f"""
            import os, sys
            os.environ["TESSEL_SPARK_START_TIMEOUT"] = "1"
            from tessel.cli import main

            server = "sc://127.0.0.1:{silent.getsockname()[1]}"
            sys.argv[1:] = ["submit", "p > 9", "-s", {str(folder)!r}, "--symbol", "trades"]
            sys.argv += ["--remote", server]
            main()
            """,
            folder=tmp_path,
        )
    assert done.returncode == 8, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "spark-failed"
    assert "no Spark master answers at 'sc://127.0.0.1:" in error["message"]
    assert "no session within 1 s" in error["detail"]


def test_an_error_of_a_driver_of_spark_submit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives what the driver prints on both streams as one."""
    error = SparkError("it was so", hint="do that")
    told = json.dumps({"state": "failed", "error": error.to_json()}, indent=2)
    done = subprocess.CompletedProcess([], 8, f"a warning\n{told}\n{error}\n", "INFO\n")
    monkeypatch.setattr("tessel.spark_exec.spark_submit", lambda *_, **__: done)
    command = ["submit", "p > 9", "-s", folder, "--symbol", "trades", "--deploy", "spark-submit"]
    outcome = _outcome(command, code=8)
    assert (outcome["state"], outcome["error"]) == ("failed", error.to_json())

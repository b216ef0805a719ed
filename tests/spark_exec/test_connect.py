"""Spark Connect: a server of its own process, a client without a JVM, the answers of threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tessel.spark_exec import choose_java
from tessel.spark_exec.settings import import_folders, spark_home
from tests.spark_exec.scripts import run_script

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("connect")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    environment = {
        **os.environ,
        "JAVA_HOME": str(choose_java().home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYTHONPATH": os.pathsep.join(import_folders()),
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["spark-internal"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        while not _answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def test_queries_and_the_data_source(server: str, tmp_path: Path) -> None:
    done = run_script(
        f"""
        import tessel as ts
        from tessel.spark_exec import SparkExecutor, register_source, spark_session
        from tessel.testing.parity import assert_parity
        from tests.spark_exec.cluster_drivers import Takes

        store = ts.open("store")
        table = {{"t": list(range(400)), "k": ["abc"[n % 3] for n in range(400)]}}
        with ts.options(segment_rows=50, fsync=False):
            store.write("a", table, index="t")
        with ts.options(spark_start_timeout=600):
            spark = spark_session({server!r})
        executor, q = SparkExecutor(), ts.QueryBuilder()
        for query in (
            q.filter("t > 7"),
            q.groupby("k").agg(n=("t", "count")),
            q.groupby("k").agg(n=("t", "nunique")),
            q.tail(60).sort("k"),
            q.distinct("k", "t").tail(9).filter("t > 3"),
            q.distinct("k", "t").shift({{"before": "t"}}, by="k"),
        ):
            assert_parity(store, "a", query, executor)
        job = store.scan("a").submit(executor=executor)
        assert len(job.result()) == 400
        job = store.scan("a").then(Takes(1.0)).submit(executor=executor)
        assert len(job.result()) == 400
        assert job.progress.done == job.progress.total > 0, job.progress
        register_source(spark)
        frame = spark.read.format("tessel").options(store=store.uri, symbol="a").load()
        assert frame.count() == 400
        writer = frame.write.format("tessel").options(store=store.uri, symbol="b", index="t")
        writer.mode("append").save()
        assert store.read("b").to_arrow().equals(store.read("a").to_arrow())
        print("done")
        """,
        folder=tmp_path,
        timeout_seconds=1_500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


def test_submit_from_a_terminal(server: str, tmp_path: Path) -> None:
    done = run_script(
        f"""
        import json
        import tessel as ts
        from typer.testing import CliRunner
        from tessel.cli.app import app

        store = ts.open("store")
        store.write("a", {{"t": list(range(40))}}, index="t")
        ran = CliRunner().invoke(
            app, ["submit", "t < 7", "-s", "store", "--symbol", "a", "--remote", {server!r},
                  "--into", "few"],
            env={{"TESSEL_SPARK_START_TIMEOUT": "600"}},
        )
        assert ran.exit_code == 0, ran.output
        told = json.loads(ran.stdout)
        assert told["state"] == "succeeded", told
        assert store.read("few").to_arrow()["t"].to_pylist() == list(range(7))
        print("done")
        """,
        folder=tmp_path,
        timeout_seconds=1_500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n"), done.stdout


def test_streams(server: str, tmp_path: Path) -> None:
    done = run_script(
        f"""
        import tessel as ts
        from tessel.spark_exec import register_source, spark_session

        store = ts.open("store")
        with ts.options(segment_rows=50, fsync=False):
            store.write("a", {{"t": list(range(400))}}, index="t")
        with ts.options(spark_start_timeout=600):
            spark = spark_session({server!r})
        register_source(spark)

        def copy():
            incoming = spark.readStream.format("tessel").options(store=store.uri, symbol="a")
            writer = incoming.load().writeStream.format("tessel")
            writer = writer.options(store=store.uri, symbol="b", index="t", stream_id="a")
            writer = writer.option("checkpointLocation", store.uri + "-checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()

        copy()
        store.append("a", {{"t": [400, 401]}})
        copy()
        copy()
        assert store.read("b").to_arrow().equals(store.read("a").to_arrow())
        assert len(store.versions("b")) == 2, store.versions("b")
        print("done")
        """,
        folder=tmp_path,
        timeout_seconds=1_500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n"), done.stdout

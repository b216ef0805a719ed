"""A standalone cluster: the answers of threads, whatever is killed or runs twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tessel as ts
from tests.spark_exec.cluster import Cluster, standalone_cluster
from tests.spark_exec.scripts import run_script

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are not told"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def _run(source: str, folder: Path) -> None:
    done = run_script(source, folder=folder, timeout_seconds=1_500)  # against hangs alone
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n"), done.stdout


def _drive(driver: str, cluster: Cluster, folder: Path) -> None:
    """Run a function of ``cluster_drivers`` in a process of its own."""
    source = f"""
        from pathlib import Path
        from tests.spark_exec.cluster_drivers import {driver}

        {driver}({cluster.master!r}, Path({str(folder)!r}))
        print("done")
        """
    _run(source, folder)


def test_answers(cluster: Cluster, tmp_path: Path) -> None:
    _drive("answers", cluster, tmp_path)


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        ({}, {"spark.executor.extraJavaOptions": "-javaagent:/no/such.jar"}, "before a task did"),
        ({"PYSPARK_PYTHON": "/no/python"}, {}, "no Python at '/no/python'"),
    ],
    ids=["executors that end", "no Python"],
)
def test_workers_that_cannot_run_tasks(
    environment: dict[str, str],
    settings: dict[str, str],
    message: str,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    _run(
        f"""
        import os
        from pathlib import Path
        from tests.spark_exec.cluster_drivers import refused

        os.environ.update({environment!r})
        refused({cluster.master!r}, Path({str(tmp_path)!r}), {settings!r}, {message!r})
        print("done")
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_the_first_cluster_of_the_docs_answers(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    block = page.partition("### A first cluster")[2].partition("```sh\n")[2].partition("```")[0]
    store = ts.open(str(tmp_path / "trades"))
    store.write("trades", {"t": range(100), "price": [n % 20 for n in range(100)]}, index="t")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = str(listening.getsockname()[1])
    assert block.count("7077") == 4
    assert block.count("/data/trades") == 1
    lines = block.replace("7077", port).replace("/data/trades", store.uri).splitlines()
    wait = f"until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.2; done"
    script = "\n".join(["trap 'kill $(jobs -p)' EXIT", *lines[:-1], wait, lines[-1]])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TESSEL_SPARK_START_TIMEOUT": "600",  # other work may hold a start up
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=500,  # against hangs alone
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["rows"] == 45, done.stdout


@pytest.mark.slow
def test_executors_come_and_go(cluster: Cluster, tmp_path: Path) -> None:
    _drive("grows", cluster, tmp_path)


@pytest.mark.slow
def test_what_is_killed_or_runs_twice(tmp_path: Path) -> None:
    """The cluster is the driver's own child: it replaces the machine that it kills."""
    _run(
        f"""
        from pathlib import Path
        from tests.spark_exec.cluster import standalone_cluster
        from tests.spark_exec.cluster_drivers import failures

        folder = Path({str(tmp_path)!r})
        with standalone_cluster(folder) as cluster:
            failures(cluster, folder)
        print("done")
        """,
        tmp_path,
    )

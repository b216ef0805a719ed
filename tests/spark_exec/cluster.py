"""A standalone cluster of Spark on the loopback: one master, workers, each a process of its own.

Each has an address of its own: Spark repeats a slow task on another host only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tessel.spark_exec import choose_java
from tessel.spark_exec.settings import spark_home

_CORES = 2


@dataclass
class Cluster:
    """A master and its workers, whose files lie in one folder."""

    folder: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def workers(self) -> list[int]:
        return [process.pid for process in self.processes[1:]]

    def start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{what}-{len(self.processes)}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(choose_java().home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        command = [
            str(spark_home() / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{what.lower()}.{what}",
            *("--host", f"127.0.0.{len(self.processes) + 1}", "--webui-port", "0", *arguments),
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, cwd=self.folder
            )
        self.processes.append(process)
        return process

    def add_worker(self) -> int:
        before = self._registered()
        work = self.folder / f"work-{len(self.processes)}"
        place = ("--cores", str(_CORES), "--memory", "1g", "--work-dir", str(work))
        process = self.start("Worker", *place, self.master)
        while self._registered() == before:
            assert process.poll() is None, "the worker ended"
            time.sleep(0.1)
        return process.pid

    def _registered(self) -> int:
        return (
            (self.folder / "Master-0.log").read_text(errors="replace").count("Registering worker")
        )


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    cluster = Cluster(folder, port)
    try:
        master = cluster.start("Master", "--port", str(port))
        while not _answers(port):
            assert master.poll() is None, "the master ended"
            time.sleep(0.1)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        below = [pid for process in cluster.processes for pid in descendants(process.pid)]
        for process in reversed(cluster.processes):
            process.kill()
            process.wait()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def descendants(pid: int) -> list[int]:
    """Return the processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(place.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def victims(worker: int, what: str) -> list[int]:
    """Return processes of a worker's machine: itself, its executors, or their Python workers."""
    if what == "worker":
        return [worker]
    below = descendants(worker)
    pythons = [pid for pid in below if "daemon" in _command(pid)]
    if what == "executor":
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in _command(pid)]
    return [pid for pid in pythons if not set(descendants(pid)) & set(pythons)]


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""

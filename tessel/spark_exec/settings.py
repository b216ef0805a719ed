"""The settings of our own Spark sessions, each with its reason, and what their processes inherit.

Pure functions of their arguments and of the running interpreter: nothing is started here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import site
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from tessel.errors import MissingDependencyError
from tessel.spark_exec.aot import aot_option
from tessel.spark_exec.java import JavaChoice
from tessel.spark_exec.versions import pyspark_version

DAEMON_MODULE = "tessel.spark_exec.daemon"
"""Module that Spark starts as the parent of its Python workers in our sessions."""

_LONGEST_FOLDER = 60
"""Bytes of a path to which the 43 of a socket's name may be added: it has at most 103 on macOS."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOOPBACK = re.compile(r"spark://(?:127\.\d+\.\d+\.\d+|localhost|\[::1\])(?::\d+)?")


def is_remote_url(master: str) -> bool:
    """Return whether a master is the address of a Spark Connect server."""
    return master.startswith("sc://")


def is_local(master: str) -> bool:
    """Return whether a master runs its tasks in this machine's driver process."""
    return _LOCAL.fullmatch(master) is not None


def slots_of(master: str) -> int | None:
    """Return how many tasks a local master runs at a time; None where a cluster decides."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    if match.group(1) == "*":
        return os.cpu_count() or 1
    return int(match.group(1) or 1)


def session_settings(
    master: str, name: str, folder: Path, java: JavaChoice | None
) -> dict[str, str]:
    """Return the settings of a new session of ours.

    Parameters
    ----------
    master
        Where it runs.
    name
        Name of the application.
    folder
        Temporary folder of the session; all that Spark writes goes there.
    java
        The Java that will run it; None for a JVM that is already running.
    """
    settings = {
        "spark.master": master,
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # failures come back as typed errors, told once
        # Instants on the wire are UTC; Spark's own conversions must not add a zone.
        "spark.sql.session.timeZone": "UTC",
        # The plan's partitions are exact: nothing is left for Spark to adapt, and planning a job
        # without it takes several milliseconds less.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        # Else an RDD's tasks run in workers of their own: this goes into the workers' environment.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # A wire row may hold tens of megabytes: batches are bounded by bytes, and by few rows where
        # Spark knows no bytes. Rows of DataFrames are small, and each batch has a price.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
        "spark.sql.execution.arrow.maxRecordsPerBatch": (
            "32" if pyspark_version().startswith("3.") else "65536"
        ),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": DAEMON_MODULE,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(import_folders()),
        # Nothing may appear in the working folder: no spark-warehouse, metastore_db, derby.log.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    if "SPARK_LOCAL_DIRS" not in os.environ:
        settings["spark.local.dir"] = str(folder / "local")
    if is_local(master) or _LOOPBACK.fullmatch(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    slots = slots_of(master)
    if slots is not None:
        settings["spark.sql.shuffle.partitions"] = str(slots)
        settings["spark.pyspark.python"] = sys.executable
    options = _java_options(folder, java)
    if options:
        settings["spark.driver.extraJavaOptions"] = options
    return settings


def _java_options(folder: Path, java: JavaChoice | None) -> str:
    if java is None:
        return ""  # a running JVM takes no more options
    warm = aot_option(java, metadata.version("pyspark"), spark_home())
    own = [f"-Dderby.system.home={folder}", "-XX:-UsePerfData"]
    if holds_temporary(folder):
        own.append(f"-Djava.io.tmpdir={folder}")
    return " ".join(filter(None, [*own, warm]))


def holds_temporary(folder: Path) -> bool:
    """Return whether the JVM's own temporary files lie in a session's folder, too.

    Its sockets are among them, whose paths may not be long.
    """
    return len(os.fsencode(folder)) <= _LONGEST_FOLDER and " " not in str(folder)


def launch_environment(master: str, java: JavaChoice | None) -> dict[str, str]:
    """Return the variables under which Spark's launcher is started.

    The launcher takes Java from JAVA_HOME, and without PYSPARK_PYTHON would run workers with
    whatever ``python3`` is first on PATH.
    """
    changes = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    # Else the launcher's scripts start Python to look for it, with the path left unquoted.
    changes["SPARK_HOME"] = str(spark_home())
    if java is not None:
        changes["JAVA_HOME"] = str(java.home)
    if is_local(master):
        changes["PYSPARK_PYTHON"] = sys.executable
        changes["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # On a cluster the path of the interpreter is the cluster's; the user may have said.
        changes["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return changes


def spark_home() -> Path:
    """Return the folder of Spark's jars and scripts: SPARK_HOME, else the installed pyspark.

    Raises
    ------
    MissingDependencyError
        If pyspark is not installed.
    """
    said = os.environ.get("SPARK_HOME")
    if said:
        return Path(said)
    specification = importlib.util.find_spec("pyspark")
    if specification is None or specification.origin is None:
        raise MissingDependencyError.for_extra("pyspark", "spark", "running on Spark")
    return Path(specification.origin).parent


def import_folders() -> list[str]:
    """Return the folders that a worker must search to import what this process can import.

    The folder that holds this package first (it may be a checkout), then what is on ``sys.path``
    by other means than the interpreter's own start: scripts' folders, PYTHONPATH, test runners.
    """
    own = Path(__file__).resolve().parents[2]
    standard = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    standard |= {Path(path).resolve() for path in site.getsitepackages()}
    standard |= {Path(sysconfig.get_path("stdlib")) / "lib-dynload"}
    found = [] if own in standard else [own]
    for entry in sys.path:
        path = Path(entry or os.getcwd())
        if not path.exists() or re.fullmatch(r"python\d+\.zip", path.name):
            continue
        resolved = path.resolve()
        if resolved not in standard and resolved not in found:
            found.append(resolved)
    return [str(path) for path in found]

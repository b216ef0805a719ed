"""Tessel where it is not installed: the package as a file, and drivers of spark-submit."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

from tessel.errors import SparkError
from tessel.spark_exec.driver import check_answers
from tessel.spark_exec.java import choose_java
from tessel.spark_exec.settings import launch_environment, session_settings, spark_home
from tessel.user_cache import folder_of_process

INSTALL_HINT = (
    "set PYSPARK_PYTHON to an interpreter that has it, or send it: "
    "spark.sparkContext.addPyFile(str(tessel.spark_exec.package_archive()))"
)
"""What gives workers the package of the driver."""

_OF_THE_INSTALLED = ("spark.python.daemon.module", "spark.executorEnv.PYTHONPATH")
"""Settings that take the package for installed, which an archive makes unnecessary."""


@functools.cache
def package_version() -> str:
    """Return the version of this package; "unknown" where it runs without being installed."""
    try:
        return metadata.version("tessel")
    except metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def package_build() -> str:
    """Return the version with a checksum of the package's modules, in a folder or an archive.

    It differs where a version was changed in place, as in a checkout. It is computed once a process
    and takes 50 ms of processor time.
    """
    checksum = 0
    for name, module in _modules(resources.files("tessel"), ""):
        checksum = zlib.crc32(module.read_bytes(), zlib.crc32(name.encode(), checksum))
    return f"{package_version()}+{checksum:08x}"


def _modules(folder: Traversable, before: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        name = before + entry.name
        if entry.name.endswith(".py"):
            yield name, entry
        elif entry.is_dir():
            yield from _modules(entry, f"{name}/")


def check_same_package(build: str) -> None:
    """Raise ``SparkError`` in a worker whose package is not that of the driver, which has a build.

    The modules of a data source are imported by their name there, whatever their version.
    """
    if package_build() != build:
        raise SparkError(
            f"Spark's workers run {sys.executable} on {socket.gethostname()}, which has Tessel "
            f"{package_build()}; the driver has {build}",
            hint=INSTALL_HINT,
        )


def package_archive() -> Path:
    """Return this package as a zip, for workers that lack it or have another version.

    For ``sparkContext.addPyFile``, ``session.addArtifacts(…, pyfile=True)`` of Spark Connect, or
    ``--py-files`` of spark-submit. What the package stands on (pyarrow, numpy, esper, lark,
    google-crc32c) is not in it, and its machine code is that of this kind of machine. The file goes
    with this process.
    """
    folder = folder_of_process("tessel-package-", os.getpid())
    package = Path(__file__).parents[1]
    version = package_version()
    archive = folder / f"tessel-{version}.zip"
    if archive.exists():
        return archive
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                target.write(path, path.relative_to(package.parent))
        described = f"Metadata-Version: 2.1\nName: tessel\nVersion: {version}\n"
        target.writestr(f"tessel-{version}.dist-info/METADATA", described)
    return archive


def spark_submit(
    program: str, arguments: Sequence[str], *, master: str, configuration: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python by spark-submit, with this package for its driver and its workers.

    Parameters
    ----------
    program
        The source of the program.
    arguments
        What it finds in ``sys.argv``.
    master, configuration
        Where it runs, and settings laid over those of our own sessions.

    Returns
    -------
    subprocess.CompletedProcess
        Its standard output and exit code; Spark's messages are its standard error.

    Raises
    ------
    SparkError
        For a master that does not answer, or a spark-submit that cannot be started.
    """
    check_answers(master)
    java = choose_java()
    with tempfile.TemporaryDirectory(prefix="tessel-submit-") as name:
        folder = Path(name)
        script = folder / "program.py"
        script.write_text(program, encoding="utf-8")
        settings = {**session_settings(master, "tessel submit", folder, java), **configuration}
        for key in ("spark.master", *_OF_THE_INSTALLED):
            settings.pop(key, None)
        command = [os.fspath(spark_home() / "bin" / "spark-submit"), "--master", master]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--py-files", os.fspath(package_archive()), os.fspath(script), *arguments]
        environment = {**os.environ, **launch_environment(master, java)}
        try:
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise SparkError(
                f"spark-submit cannot be started: {error}",
                hint="set SPARK_HOME to the folder of a Spark, or unset it to use pyspark's own",
            ) from error

"""A faster start of Spark's JVM: one training run writes a cache of loaded and linked classes.

JDK 25 can keep, in one file, the classes that a program loaded in a training run, already parsed
and linked (JEP 483, 514 and 515). For Spark that is about 180 MB, and saves half of the time to
the first result. A cache that does not fit the JVM or the jars is ignored by the JVM, so a stale
one costs nothing but disk; it is named after both all the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tessel.errors import InvalidInputError, SparkError
from tessel.lazy import dataclass
from tessel.spark_exec.java import JavaChoice, choose_java
from tessel.user_cache import cache_folders, is_private, make_private

LEAST_AOT_JAVA = 25
"""The first Java that makes such a cache in one run."""

TRAINING_TIMEOUT_SECONDS = 600
"""How long a training run may take, writing the cache included."""

_TRAINING = """
import sys, tempfile, tessel
from tessel.spark_exec import SparkExecutor, spark_session, stop_session

option, seconds = sys.argv[1:]
session = spark_session("local[2]", configuration={"spark.driver.extraJavaOptions": option})
with tempfile.TemporaryDirectory() as folder:
    store = tessel.open(folder)
    store.write("x", {"k": [number % 7 for number in range(1000)], "v": [0.5] * 1000})
    rows = store.scan("x")
    for query in 3 * [rows.filter("k > 3"), rows.groupby("k").agg(v="median(v)")]:
        query.collect(executor=SparkExecutor(session))
stop_session(timeout_seconds=int(seconds))
"""
"""The training run, as a program: queries of one stage and of two; the end of the JVM writes."""


@dataclass(frozen=True, slots=True)
class Warmup:
    """What a warm-up did.

    Attributes
    ----------
    path, size
        The cache, and its bytes.
    training_seconds
        What making it took.
    start_seconds
        From nothing to the first result of a fresh process that uses it.
    """

    path: Path
    size: int
    training_seconds: float
    start_seconds: float


def aot_cache(java: JavaChoice, pyspark_version: str, spark_home: Path) -> Path | None:
    """Return where the cache for a Java and a Spark belongs; None if there can be none."""
    folder = next(cache_folders(os.environ), None)
    if java.major < LEAST_AOT_JAVA or folder is None:
        return None
    identity = f"{java.runtime}\n{java.version}\n{pyspark_version}\n{spark_home}"
    return folder / "spark" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.aot"


def aot_option(java: JavaChoice, pyspark_version: str, spark_home: Path) -> str | None:
    """Return the JVM's option to use the cache, if it was made and nobody else can write it."""
    cache = aot_cache(java, pyspark_version, spark_home)
    # An option for the JVM is cut at blanks by Spark's launcher.
    if cache is None or not cache.is_file() or " " in str(cache):
        return None
    if not (is_private(cache.parent) and is_private(cache)):
        return None
    return f"-XX:AOTCache={cache}"


def warmup() -> Warmup:
    """Make the cache for the Java that would be chosen now; about half a minute, 180 MB of disk.

    The new cache is tried in a fresh process before it takes the place of an older one.

    Raises
    ------
    InvalidInputError
        If the Java is older than 25, or no cache folder is known or usable.
    SparkError
        If the training or the trial fails; the last lines are the ``detail``.
    """
    from tessel.spark_exec.settings import spark_home
    from tessel.spark_exec.versions import pyspark_version

    java, version, home = choose_java(), pyspark_version(), spark_home()
    if java.major < LEAST_AOT_JAVA:
        raise InvalidInputError(
            f"a warm start needs Java {LEAST_AOT_JAVA} or newer; {java.why}",
            hint='pip install "tessel[spark]" brings one; unset JAVA_HOME to have it chosen',
            java=java.version,
        )
    cache = aot_cache(java, version, home)
    if cache is None or " " in str(cache):
        raise InvalidInputError(
            "there is no usable cache folder for a warm start",
            hint="set XDG_CACHE_HOME to an absolute path without blanks",
        )
    make_private(cache.parent.parent)
    make_private(cache.parent)
    working = Path(tempfile.mkdtemp(prefix=".training-", dir=cache.parent))
    try:
        made = working / cache.name
        training = _run_training(f"-XX:AOTCacheOutput={made}")
        if not made.is_file():
            raise SparkError("the training run made no cache", path=str(made))
        made.chmod(0o600)  # others who can write it could have the JVM run anything
        trial = _run_training(f"-XX:AOTCache={made}")
        os.replace(made, cache)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return Warmup(cache, cache.stat().st_size, training, trial)


def _run_training(option: str) -> float:
    from tessel.spark_exec.settings import import_folders

    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_folders())}
    # Ours is a session of its own, whatever this process was told to use.
    environment.pop("SPARK_REMOTE", None)
    try:
        result = subprocess.run(
            [sys.executable, "-c", _TRAINING, option, str(TRAINING_TIMEOUT_SECONDS)],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRAINING_TIMEOUT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise SparkError(
            f"the training run did not end within {TRAINING_TIMEOUT_SECONDS} seconds"
        ) from error
    if result.returncode != 0:
        raise SparkError(
            "the training run failed", detail="\n".join(result.stderr.splitlines()[-20:])
        )
    return time.monotonic() - began

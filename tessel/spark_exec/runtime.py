"""The Spark session that a job runs in: the user's as it is, or one of our own.

A process has at most one Spark context, so there is at most one session of ours: made on first
use, shared by all threads, stopped at exit. A session that the user made is used as it is, never
reconfigured and never stopped; the settings below are those of our own.

A session cannot be shared with a forked child (the socket to the JVM is one), so a child is told
so by an error instead of hanging.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tessel import telemetry
from tessel.errors import InvalidInputError, MissingDependencyError, SparkError, TesselError
from tessel.lazy import dataclass
from tessel.options import current
from tessel.spark_exec.driver import (
    STOP_TIMEOUT_SECONDS,
    Driver,
    DriverLog,
    bounded_start,
    check_answers,
    started_driver,
    within_start_timeout,
)
from tessel.spark_exec.errors_wire import told_by_java
from tessel.spark_exec.java import JavaChoice, choose_java
from tessel.spark_exec.settings import (
    holds_temporary,
    is_local,
    is_remote_url,
    launch_environment,
    session_settings,
)
from tessel.spark_exec.versions import pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _OwnSession:
    session: SparkSession
    master: str
    folder: Path
    driver: Driver | None
    java: JavaChoice | None
    is_contained: bool = False
    """Whether all that its processes write lies in ``folder``, and none outlives the driver."""

    def is_alive(self) -> bool:
        if self.driver is not None and not self.driver.is_alive():
            return False
        if is_remote_url(self.master):
            return not getattr(self.session, "is_stopped", False)
        from pyspark import SparkContext

        # A user may have stopped our session, and even started another in its JVM.
        return SparkContext._active_spark_context is self.session.sparkContext

    def halt(self) -> None:
        """End the JVM at once where that leaves nothing behind and ends nobody else's session."""
        if self.is_contained and self.driver is not None and self.is_alive():
            self.driver.halt()

    def end(self, timeout_seconds: float) -> None:
        from pyspark import SparkContext

        try:
            if self.is_alive():
                if self.driver is not None:
                    self.driver.log.hush()  # workers complain of the connection that ends
                self.session.stop()
        finally:
            own = None if is_remote_url(self.master) else self.session.sparkContext
            inherited = SparkContext._active_spark_context not in (None, own)
            if inherited and self.driver is not None and self.driver.is_alive():
                # A session of the user's lives in our JVM, which still writes to our folder.
                atexit.register(self._remove, os.getpid(), timeout_seconds)
            else:
                self._remove(os.getpid(), timeout_seconds)

    def _remove(self, process: int, timeout_seconds: float) -> None:
        if os.getpid() != process:
            return  # a fork's exit is not the end of its parent's session
        if self.driver is not None:
            self.driver.close(timeout_seconds)
        shutil.rmtree(self.folder, ignore_errors=True)


_PROGRESS_INTERVAL = "250ms"
"""How often a server of Spark Connect tells how far a job is; by itself every two seconds."""

_lock = threading.RLock()
_own: _OwnSession | None = None
_forked_from_session = False


def _after_fork_in_child() -> None:
    global _lock, _own, _forked_from_session
    _lock = threading.RLock()
    _forked_from_session = _forked_from_session or _own is not None
    _own = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def active_session() -> SparkSession | None:
    """Return the session that exists in this process, whoever made it, or None.

    Raises
    ------
    SparkError
        In a process forked from one with a session of ours.
    """
    if _forked_from_session:
        raise SparkError(
            "this process was forked from one with a Spark session, which cannot be shared",
            hint="use the 'spawn' start method, or start the session in the child only",
        )
    with _lock:
        if _own is not None and not _own.is_alive():
            stop_session()  # what is left of it: the user stopped it, or its JVM died
        found = _users_session()
        return _own.session if found is None and _own is not None else found


def _users_session() -> SparkSession | None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()  # in the JVM that spark-submit started
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if is_remote():
        return SparkSession.getActiveSession()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    try:
        return SparkSession.active()
    except PySparkException:
        # A context without a session: the session made here has the context's settings.
        return SparkSession.builder.getOrCreate()


def is_own_session(session: SparkSession) -> bool:
    """Return whether a session was started by :func:`spark_session`, so that ours to configure."""
    return _own is not None and _own.session is session


def spark_session(
    master: str | None = None,
    *,
    name: str = "tessel",
    configuration: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session to run in: the one that exists, else a new one of our own.

    Parameters
    ----------
    master
        ``local[2]``, ``local[*]``, ``spark://host:port``, or ``sc://host:port`` for Spark
        Connect. None takes the session that exists or, where there is none, the option
        ``spark_master``.
    name
        Name of the application, for a new session.
    configuration
        Settings laid over ours, for a new session.

    Raises
    ------
    MissingDependencyError
        If pyspark is not installed or too old.
    JavaNotFoundError
        If no Java can run it.
    InvalidInputError
        If a session exists and another master, or settings, are asked for: a process has one.
    SparkError
        If Spark does not start; the last lines of its log are the ``detail``.
    """
    ignore_pandas_notice()
    pyspark_version()
    with _lock:
        found = active_session()
        if found is not None:
            _refuse_another(found, master, configuration)
            return found
        master = master or os.environ.get("SPARK_REMOTE") or current().spark_master
        return _start(master, name, dict(configuration or {}))


def log_of_executors(session: SparkSession) -> DriverLog | None:
    """Return the log that counts executors of a cluster; None for sessions that are not ours."""
    own = _own
    if own is None or own.session is not session or own.driver is None or is_local(own.master):
        return None
    return own.driver.log


def _refuse_another(
    session: SparkSession, master: str | None, configuration: Mapping[str, str] | None
) -> None:
    own = _own is not None and _own.session is session
    if master is not None:
        running = _own.master if own and _own is not None else None
        running = running or session.conf.get("spark.master", session.conf.get("spark.remote", ""))
        if running != master:
            raise InvalidInputError(
                f"a Spark session on {running!r} is running; {master!r} was asked for",
                hint="a process has one session: leave out master, or stop the session first"
                + (" (tessel.spark_exec.stop_session())" if own else ""),
                running=running,
                asked=master,
            )
    if configuration:
        conf = session.conf
        different = [key for key, value in configuration.items() if conf.get(key, None) != value]
        if different:
            raise InvalidInputError(
                f"a Spark session is running with other settings of {', '.join(different)}",
                hint="stop it first, or leave these settings out",
                settings=different,
            )


def _start(master: str, name: str, configuration: dict[str, str]) -> SparkSession:
    global _own
    if is_remote_url(master) and importlib.util.find_spec("grpc") is None:
        raise MissingDependencyError.for_extra("grpcio", "connect", "Spark Connect")
    check_answers(master)
    began = time.monotonic_ns()
    folder = Path(tempfile.mkdtemp(prefix="tessel-spark-"))
    try:
        if is_remote_url(master):
            own = _OwnSession(_connected(master, configuration), master, folder, None, None)
        else:
            own = _launched(master, name, configuration, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _own = own
    telemetry.emit("spark.start", duration_ns=time.monotonic_ns() - began, master=master)
    return own.session


def _connected(url: str, configuration: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    interval = {"spark.connect.progress.reportInterval": _PROGRESS_INTERVAL}

    def connect() -> SparkSession:
        import grpc  # type: ignore[import-untyped]
        from pyspark.sql.connect.client import DefaultChannelBuilder

        # A client of a server that is silent would hold up the end of the process: it tries for
        # minutes to clean up there. So none is made before the server speaks the protocol.
        with DefaultChannelBuilder(url).toChannel() as channel:
            grpc.channel_ready_future(channel).result()
        builder = SparkSession.builder.remote(url)
        session = builder.config(map={**interval, **configuration}).getOrCreate()
        session.version  # noqa: B018  (the first call that the server answers)
        return session

    try:
        return within_start_timeout(url, connect)
    except TesselError:
        raise
    except Exception as error:
        raise SparkError(
            f"no Spark Connect server answers at {url!r}", detail=str(error), master=url
        ) from error


def _launched(master: str, name: str, configuration: dict[str, str], folder: Path) -> _OwnSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # A JVM that an earlier session of this process left keeps running; its Java is settled.
    java = None if SparkContext._gateway is not None else choose_java()
    settings = {**session_settings(master, name, folder, java), **configuration}
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    driver: Driver | None = None
    with _environment(launch_environment(master, java)):
        try:
            if java is not None:
                driver = started_driver(conf)
            gateway = None if driver is None else driver.gateway
            with bounded_start(master, driver):
                SparkContext(conf=conf, gateway=gateway).setLogLevel("FATAL")
            session = SparkSession.builder.getOrCreate()
        except Exception as error:
            told = told_by_java(error)  # before the JVM ends, which has the text
            if driver is not None:
                driver.close()
            if isinstance(error, TesselError):
                raise
            raise SparkError(
                f"Spark did not start on {master!r}: {told}",
                detail=None if driver is None else driver.log.tail() or None,
                hint="`tessel spark doctor` shows which Java is used and why",
                master=master,
            ) from error
    if "spark.sql.shuffle.partitions" not in settings:
        slots = session.sparkContext.defaultParallelism
        session.conf.set("spark.sql.shuffle.partitions", str(slots))
    if driver is not None:
        driver.log.forward()
        if not is_local(master):
            driver.watch_executors()
    contained = is_local(master) and not configuration and "SPARK_LOCAL_DIRS" not in os.environ
    contained = contained and holds_temporary(folder)
    return _OwnSession(session, master, folder, driver, java, contained)


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    # Spark's launcher takes Java and Python from the environment and from nowhere else.
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def stop_session(*, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
    """Stop our own session, its JVM and its temporary files; nothing if there is none.

    A user's session is left alone. The next :func:`spark_session` starts a new one.

    Parameters
    ----------
    timeout_seconds
        After which a JVM that does not end is killed.
    """
    global _own
    with _lock:
        own, _own = _own, None
        if own is not None:
            own.end(timeout_seconds)


def _end_with_process() -> None:
    # Nobody can use the session any more: Spark's shutdown would only hold up the process.
    if _own is not None:
        _own.halt()
    stop_session()


atexit.register(_end_with_process)


def own_java() -> JavaChoice | None:
    """Return the Java that our running session was started with, if there is such a session."""
    return None if _own is None else _own.java


def ignore_pandas_notice() -> None:
    """Silence pyspark's notice that it does not know pandas 3 yet; we pass it no pandas.

    Called before every ``mapInArrow``, which asks for pandas without using it. A filter is added
    rather than a block used, because such blocks are not safe among threads.
    """
    import warnings

    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )

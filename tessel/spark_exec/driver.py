"""The JVM of our own session: started with its messages kept, ended without a trace.

pyspark lets the JVM write to the caller's terminal and leaves it running until the interpreter
ends. Here its messages go through a pipe: those of the start are kept for the error that may
follow, later ones (prints of user code in workers) are passed on to ``sys.stderr``.

A cluster's master that does not answer is told as that, in bounded time: Spark by itself asks a
standalone master three times for twenty seconds and then ends its JVM; a client of Spark Connect
tries again for minutes. So are executors that end again and again.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from tessel.errors import SparkError
from tessel.lazy import dataclass
from tessel.options import current
from tessel.spark_exec.settings import is_local

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


_KEPT_LINES = 400

_CLIENT = "org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint"
"""The logger that tells of each executor of a standalone cluster, also of those that end before
they have registered; no other part of Spark does."""

_OF_CLIENT = re.compile(r"StandaloneAppClient\$ClientEndpoint: Executor (?:added|updated): ")
_ENDED = re.compile(r"is now (?:EXITED|FAILED|LOST)(?: \((.*)\))?")

STOP_TIMEOUT_SECONDS = 15
"""How long a JVM may take to end before it is killed."""


class DriverLog:
    """The messages of a JVM, read from a pipe in a thread of their own.

    Parameters
    ----------
    descriptor
        Reading end of the pipe; closed when the other end is.

    Attributes
    ----------
    executors_ended
        How many executors have ended by themselves, since :meth:`Driver.watch_executors`.
    last_end
        What Spark says of the last one.
    """

    def __init__(self, descriptor: int) -> None:
        self.executors_ended = 0
        self.last_end = ""
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._forwarding = False
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read, name="tessel-spark-log", daemon=True)
        self._thread.start()

    def forward(self) -> None:
        """From now on, pass messages on to ``sys.stderr``."""
        self._forwarding = True

    def hush(self) -> None:
        """Stop passing messages on; they are still kept."""
        self._forwarding = False

    def tail(self) -> str:
        """Return the last messages, at most 400 lines."""
        return "\n".join(self._lines)

    def join(self) -> None:
        """Wait until the JVM's end of the pipe is closed and all is read."""
        self.hush()
        self._thread.join(timeout=STOP_TIMEOUT_SECONDS)

    def _read(self) -> None:
        with os.fdopen(self._descriptor, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                if _OF_CLIENT.search(line):
                    if ended := _ENDED.search(line):
                        self.last_end = ended[1] or ended[0]
                        self.executors_ended += 1
                    continue
                self._lines.append(line.rstrip("\n"))
                if self._forwarding:
                    # The stream may be closed or gone at exit; the pipe must still be drained,
                    # or the JVM blocks.
                    with contextlib.suppress(ValueError, OSError, AttributeError):
                        sys.stderr.write(line)


@dataclass(frozen=True, slots=True)
class Driver:
    """A JVM that this process started, and the connection to it."""

    gateway: Any
    log: DriverLog

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The JVM's process."""
        process: subprocess.Popen[bytes] = self.gateway.proc
        return process

    def is_alive(self) -> bool:
        """Return whether the JVM is still running."""
        return self.process.poll() is None

    def watch_executors(self) -> None:
        """Let the JVM tell its log which executors of a standalone cluster end."""
        log4j: Any = self.gateway.jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(_CLIENT, log4j.Level.INFO)

    def halt(self) -> None:
        """End the JVM at once, without Spark's shutdown, which takes most of a second.

        What the JVM wrote into temporary folders of its session stays behind: it is for a session
        all of whose files lie in a folder that the caller removes.
        """
        from pyspark import SparkContext

        self.log.hush()  # workers complain of the connection that ends, and so does this server:
        context = SparkContext._active_spark_context
        server: Any = getattr(context, "_accumulatorServer", None)
        if server is not None:
            server.handle_error = lambda request, address: None
        # py4j logs the errors of threads that still wait for an answer, by the root logger. What
        # its module says from now on is left out.
        logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
        # Not asked through the connection, which is of no use after an interrupt within a call.
        self.process.kill()
        self.process.wait()

    def close(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
        """Close the connection and end the JVM; pyspark can then start another.

        Parameters
        ----------
        timeout_seconds
            After which a JVM that does not end is killed.
        """
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        with SparkContext._lock:
            if SparkContext._gateway is self.gateway:
                # pyspark reuses the connection of a stopped context, and offers no way to end it.
                SparkContext._gateway = None
                SparkContext._jvm = None
            if not self.is_alive():
                # Nothing could be asked to stop; pyspark must not go on asking it.
                SparkContext._active_spark_context = None
                SparkSession._instantiatedSession = None
                SparkSession._activeSession = None
        with contextlib.suppress(Exception):  # of a JVM that died there is no more to be said
            self.gateway.shutdown()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()  # the JVM's signal to end
        try:
            self.process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.join()


def started_driver(conf: SparkConf) -> Driver:
    """Start a JVM for a Spark context with ``conf``, by pyspark's own launcher.

    Raises
    ------
    SparkError
        If the JVM ends before it can be talked to; its messages are the ``detail``.
    """
    from pyspark import java_gateway

    reading, writing = os.pipe()
    log = DriverLog(reading)
    try:
        with os.fdopen(writing, "wb") as pipe:
            gateway: Any = java_gateway.launch_gateway(
                conf=conf, popen_kwargs={"stdout": pipe, "stderr": pipe}
            )  # type: ignore[no-untyped-call]
    except Exception as error:
        log.join()
        raise SparkError(
            "the Java process of Spark ended before it could be used",
            detail=log.tail() or str(error),
            hint="`tessel spark doctor` shows which Java is used and why",
        ) from error
    return Driver(gateway, log)


# --- a master that does not answer ----------------------------------------------------------------

Value = TypeVar("Value")

_ADDRESSES = re.compile(r"(?:spark|sc)://([^/;]+)")
_CONNECT_PORT = 15002
_STANDALONE_PORT = 7077
_LONGEST_TRY_SECONDS = 5.0


def check_answers(master: str) -> None:
    """Raise ``SparkError`` where no process accepts connections at a master's addresses.

    Of masters that are no addresses, as ``local[2]`` and ``yarn``, nothing is asked.
    """
    match = _ADDRESSES.match(master)
    if match is None:
        return
    port = _CONNECT_PORT if master.startswith("sc:") else _STANDALONE_PORT
    deadline = time.monotonic() + current().spark_start_timeout
    problems = []
    for address in match[1].split(","):
        has_port = re.search(r":\d*$", address) is not None
        host, _, given = address.rpartition(":") if has_port else (address, "", "")
        patience = min(_LONGEST_TRY_SECONDS, max(0.1, deadline - time.monotonic()))
        try:
            place = (host.strip("[]"), int(given or port))
            with socket.create_connection(place, timeout=patience):
                return
        except (OSError, ValueError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise SparkError.no_answer(master, "\n".join(problems))


@contextlib.contextmanager
def bounded_start(master: str, driver: Driver | None) -> Iterator[None]:
    """End the JVM of a start that a master off this machine does not answer in time."""
    if driver is None or is_local(master) or master.startswith("local"):
        yield
        return
    seconds = current().spark_start_timeout
    over = threading.Event()

    def end() -> None:
        over.set()
        driver.process.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if over.is_set():
            raise _too_late(master, seconds) from error
        raise
    finally:
        timer.cancel()


def within_start_timeout(master: str, work: Callable[[], Value]) -> Value:
    """Return what some work returns, unless the server that it waits for is silent for too long.

    The work then goes on in a thread that nothing waits for: a client of Spark Connect tries again
    for minutes, and cannot be told to end.
    """
    seconds = current().spark_start_timeout
    found: Future[Value] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name="tessel-spark-connect", daemon=True).start()
    if not wait([found], seconds).done:
        raise _too_late(master, seconds)
    return found.result()


def _too_late(master: str, seconds: int) -> SparkError:
    return SparkError.no_answer(
        master, f"no session within {seconds} s (option spark_start_timeout)"
    )


# --- executors that end ---------------------------------------------------------------------------

_MOST_ENDED_EXECUTORS = 10
"""So many executors of a standalone cluster may end before a task does: what Spark's master allows,
too, but its count begins again with each process that starts."""
_WANTED_END = re.compile("killed by driver|decommission", re.IGNORECASE)
"""Why executors end that nobody needs any more."""


class DeadExecutors:
    """Counts executors that end by themselves, as a session tells that somebody else started."""

    def __init__(self, context: SparkContext) -> None:
        self._context: Any = context
        self._next = 0.0
        self._count, self.last_end = 0, ""

    @property
    def executors_ended(self) -> int:
        """How many have ended, looked up once a second."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            with contextlib.suppress(Exception):  # the session may be what failed, as the job tells
                self._look()
        return self._count

    def _look(self) -> None:
        told = self._context._jsc.sc().statusStore().executorList(False)
        dead = [told.apply(at) for at in range(told.size())]
        reasons = [str(each.removeReason().get()) for each in dead if not each.isActive()]
        ended = [each for each in reasons if not _WANTED_END.search(each)]
        # Spark forgets the oldest of many.
        self._count = max(self._count, len(ended))
        self.last_end = ended[-1] if ended else ""


class EndedExecutors:
    """Ends a job whose executors end again and again: a standalone master starts them without end.

    Parameters
    ----------
    log
        What counts them, or None.
    tasks
        Tells how many tasks of the job are done, and how many there are.
    """

    def __init__(
        self, log: DriverLog | DeadExecutors | None, tasks: Callable[[], tuple[int, int]]
    ) -> None:
        self._log = log
        self._tasks = tasks
        self._done = 0
        self._first = self._seen = 0 if log is None else log.executors_ended

    def check(self) -> None:
        """Raise where too many have ended since a task last did."""
        if self._log is None or self._log.executors_ended == self._seen:
            return
        self._seen = self._log.executors_ended
        done, _ = self._tasks()
        if done > self._done:
            self._done, self._first = done, self._seen
        if self._seen - self._first >= _MOST_ENDED_EXECUTORS:
            raise SparkError.executors_ended(self._seen - self._first, self._log.last_end)

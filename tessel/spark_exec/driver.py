"""The JVM of our own session: started with its messages kept, ended without a trace.

pyspark lets the JVM write to the caller's terminal and leaves it running until the interpreter
ends. Here its messages go through a pipe: those of the start are kept for the error that may
follow, later ones (prints of user code in workers) are passed on to ``sys.stderr``.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from tessel.errors import SparkError
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from pyspark import SparkConf

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
                    self._count_end(line)
                    continue
                self._lines.append(line.rstrip("\n"))
                if self._forwarding:
                    # The stream may be closed or gone at exit; the pipe must still be drained,
                    # or the JVM blocks.
                    with contextlib.suppress(ValueError, OSError, AttributeError):
                        sys.stderr.write(line)

    def _count_end(self, line: str) -> None:
        ended = _ENDED.search(line)
        if ended is not None:
            self.last_end = ended[1] or ended[0]
            self.executors_ended += 1


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
        gateway: Any = java_gateway.launch_gateway(
            conf=conf, popen_kwargs={"stdout": writing, "stderr": writing}
        )  # type: ignore[no-untyped-call]
    except Exception as error:
        os.close(writing)
        log.join()
        raise SparkError(
            "the Java process of Spark ended before it could be used",
            detail=log.tail() or str(error),
            hint="`tessel spark doctor` shows which Java is used and why",
        ) from error
    except BaseException:
        os.close(writing)
        raise
    os.close(writing)
    return Driver(gateway, log)

"""A cluster's master that does not answer is told as that, in bounded time.

Sessions of ours are started through here. Spark by itself asks a standalone master three times for
twenty seconds and then ends its JVM; a client of Spark Connect tries again for minutes.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from tessel.errors import SparkError
from tessel.options import current
from tessel.spark_exec.driver import Driver
from tessel.spark_exec.settings import is_local

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
        host, _, given = address.rpartition(":") if _has_port(address) else (address, "", "")
        patience = min(_LONGEST_TRY_SECONDS, max(0.1, deadline - time.monotonic()))
        try:
            place = (host.strip("[]"), int(given or port))
            with socket.create_connection(place, timeout=patience):
                return
        except (OSError, ValueError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise SparkError.no_answer(master, "\n".join(problems))


def _has_port(address: str) -> bool:
    return re.search(r":\d*$", address) is not None and not address.endswith("]")


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

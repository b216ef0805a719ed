"""How an error of a worker reaches the driver as the typed error that it is.

Two ways, because Spark repeats a failed task (four times on a cluster) whatever the reason:

- An error that would come again (a type mismatch, a clause that raises, an overflow) is the
  task's *result*: a wire row whose ``rows`` is -1 and whose blob is the error as JSON. The task
  succeeds, nothing is repeated, and among several the one earliest in the plan is raised, as the
  local pool does.
- An error that may pass (storage that does not answer) is *raised*, so that Spark repeats the
  task, with the JSON between two marks in its text: the text is all that the driver gets.

Failures of Spark itself are known by words of its page, and told in a sentence.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from tessel.errors import (
    CancelledError,
    CorruptStoreError,
    FormatVersionError,
    NotAStoreError,
    SparkError,
    StoreError,
    TesselError,
)
from tessel.spark_exec.submission import INSTALL_HINT
from tessel.spark_exec.wire import ERROR_ROWS, WireRow

# --- what pages of the JVM mean -------------------------------------------------------------------

_PYTHON = "set PYSPARK_PYTHON to an interpreter that all workers have, with what Tessel stands on"
_LOGS = "the folder of the application on a worker has what its executors wrote before they ended"

# A traceback shows the line that raises as well, where the first part is still in braces.
_KNOWN = (
    (
        r"tessel-worker-lacks ([^{]+?): (.*)",
        "Spark's workers run {0}, which lacks Tessel: {1}",
        INSTALL_HINT,
    ),
    (
        r"tessel-worker-differs ([^{]+?): (\S+) (\S+)",
        "Spark's workers run {0}, which has Tessel {1}; the driver has {2}",
        INSTALL_HINT,
    ),
    (r"No module named '(tessel\b[^']*)'", "Spark's workers have no module {0!r}", INSTALL_HINT),
    (
        r"No module named '((?:pyarrow|pandas|numpy|esper|lark|google_crc32c)\b[^']*)'",
        "the Python of Spark's workers has no module {0!r}",
        _PYTHON,
    ),
    (
        r"PYTHON_VERSION_MISMATCH\]? *(.*)",
        "Spark's workers run another Python than the driver: {0}",
        _PYTHON,
    ),
    (r'Cannot run program "(.*?)"', "Spark's workers find no Python at {0!r}", _PYTHON),
    (
        r"Python worker failed to connect back|waiting for the Python worker to connect back",
        "a Python worker of Spark did not start within the time that Spark gives it",
        "the machine is busy: run it again; a stream goes on from its checkpoint",
    ),
    (
        r"Master removed our application: (\w+)",
        "the Spark master removed the application ({0}): its executors failed again and again",
        _LOGS,
    ),
    (
        r"All masters are unresponsive",
        "the Spark master no longer answers",
        "check that it is running, and call stop_session() to start anew",
    ),
    (
        r"failed (\d+) times.*?(?:ExecutorLostFailure|executor \S+ exited).*?Reason: (.*)",
        "a task lost its executor {0} times: {1}",
        _LOGS,
    ),
    (
        r"\(([^()]+)\) is bigger than (?:local maxResultSize|spark\.driver\.maxResultSize) "
        r"\(([^()]+)\)",
        "the result is too large to be collected: {0}, where the session takes {1}",
        'store.write("name", lazy, executor="spark") lets tasks write it; '
        'lazy.iter_batches(executor="spark") brings a part at a time; or raise '
        "spark.driver.maxResultSize",
    ),
    (
        r"SparkContext was shut down|Cannot call methods on a stopped SparkContext",
        "the Spark session was stopped while the query ran, or before it",
        "stop_session() clears it away, and the next query starts another",
    ),
    (
        r"StatusCode\.UNAVAILABLE|DEADLINE_EXCEEDED",
        "the Spark Connect server no longer answers",
        "check that it is running, and connect anew",
    ),
)
_TYPED = re.compile(
    r"^tessel\.errors\.[\w.]+: \[(?P<kind>[a-z][a-z0-9-]*)\] (?P<message>.*)"
    r"(?P<more>(?:\n {2}.*)*)",
    re.MULTILINE,
)
"""One of our errors as the last lines of a traceback."""
_CONTEXT = re.compile(r"  in (\w+): (.*)")
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|cancelled part of cancelled job")


def shown_error(text: str) -> TesselError | None:
    """Return the typed error that a page of Spark shows at the end of a traceback, or None.

    So errors of the data source arrive: Spark runs it in processes of its own.
    """
    shown = list(_TYPED.finditer(text))
    if not shown:
        return None
    found = shown[-1]  # those before it are what it was raised from
    lines = found["more"].splitlines()
    detail = [line[4:] for line in lines if line.startswith("    ")]
    others = [line for line in lines if line and not line.startswith("    ")]
    context = {m[1]: m[2] for line in others if (m := _CONTEXT.fullmatch(line))}
    hint = [line[2:] for line in others if not _CONTEXT.fullmatch(line)]
    return TesselError.from_json(
        {
            "kind": found["kind"],
            "message": found["message"].rstrip(),
            "detail": "\n".join(detail) or None,
            "hint": "\n".join(hint) or None,
            "context": context,
        }
    )


def known_failure(texts: Iterable[str]) -> TesselError | None:
    """Return the error of a failure that is known by its words, or None."""
    for text in texts:
        typed = shown_error(text)
        if typed is not None:
            return typed
        for pattern, message, hint in _KNOWN:
            found = re.search(pattern, text)
            if found:
                return SparkError(
                    message.format(*(part.strip() for part in found.groups())), hint=hint
                )
        if _CANCELLED.search(text):
            return CancelledError.of_run()
    return None


_OPEN, _CLOSE = "<tessel-error:", ":tessel-error>"
_MARKED = re.compile(re.escape(_OPEN) + r"([A-Za-z0-9+/=]+)" + re.escape(_CLOSE))
_EXCEPTION_LINE = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Exception|Warning|Interrupt|Exit)): ?(.*)$"
)
# A payload is echoed several times by Spark's layers, and Connect cuts long texts.
_MOST_MARKED_BYTES = 1_400
_LASTING = (CorruptStoreError, FormatVersionError, NotAStoreError)


class WorkerError(Exception):
    """Raised in a worker to make Spark repeat the task; its text carries the typed error.

    Not a :class:`~tessel.errors.TesselError`: users never see it, since the driver replaces it.
    """

    def __init__(self, error: BaseException) -> None:
        typed = as_tessel_error(error)
        super().__init__(f"{_marked(typed)} {typed.message}")


def as_tessel_error(error: BaseException) -> TesselError:
    """Return the error if it is one of ours, else a SparkError that tells it and where it arose."""
    if isinstance(error, TesselError):
        return error
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    places = traceback.extract_tb(error.__traceback__)
    where = f"{places[-1].filename}:{places[-1].lineno}" if places else None
    return SparkError(f"a task failed: {told}", type=type(error).__name__, where=where)


def may_pass(error: BaseException) -> bool:
    """Return whether repeating a task could end otherwise.

    True for what comes from outside (storage, memory, the operating system); false for damage,
    for errors of a query, and for errors of user code, which would come again.
    """
    if isinstance(error, TesselError):
        return isinstance(error, StoreError) and not isinstance(error, _LASTING)
    return isinstance(error, (OSError, MemoryError)) and not isinstance(
        error, (FileNotFoundError, PermissionError)
    )


def error_row(error: BaseException, *, seq: int, bucket: int = 0) -> WireRow:
    """Return an error as a wire row, at the place in the plan where it arose.

    Raises
    ------
    WorkerError
        If the error may pass: Spark should repeat the task.
    """
    if may_pass(error):
        raise WorkerError(error) from error
    payload = json.dumps(as_tessel_error(error).to_json()).encode()
    return WireRow(bucket, seq, ERROR_ROWS, payload)


def raise_error_rows(rows: Iterable[WireRow]) -> list[WireRow]:
    """Return the rows if none is an error, else raise the one that is earliest in the plan.

    Raises
    ------
    TesselError
        Of the class that was raised in the worker.
    """
    taken = list(rows)
    failures = [row for row in taken if row.rows == ERROR_ROWS]
    if failures:
        raise error_of(min(failures, key=lambda row: row.seq))
    return taken


def error_of(row: WireRow) -> TesselError:
    """Return the error of an error row."""
    return _from_payload(row.blob)


def marked_error(text: str) -> TesselError | None:
    """Return the typed error that :class:`WorkerError` put into a text, or None."""
    for match in _MARKED.finditer(text):
        try:
            return _from_payload(base64.b64decode(match.group(1), validate=True))
        except (binascii.Error, CorruptStoreError):
            continue  # cut by a layer that shortens texts; another copy may be whole
    return None


def from_driver_exception(error: BaseException) -> TesselError:
    """Return the typed error inside an exception that Spark raised in the driver.

    Parameters
    ----------
    error
        What Py4J or Connect raised; its causes are searched too.

    Returns
    -------
    TesselError
        The worker's own error where its text carries one; else what a failure of Spark means, where
        that is known; else a SparkError with the innermost Python message, or with the first line
        of the text where no Python was at fault.
    """
    texts = list(_texts(error))
    for text in texts:
        marked = marked_error(text)
        if marked is not None:
            return marked
    if isinstance(error, TesselError):
        return error
    known = known_failure(texts)
    if known is not None:
        return known
    for text in texts:
        found = [hit for line in text.splitlines() if (hit := _EXCEPTION_LINE.match(line))]
        if found:
            name, told = found[-1].groups()
            return SparkError(f"a task failed: {name}: {told}", type=name)
    first = next((line for text in texts for line in text.splitlines() if line.strip()), "")
    return SparkError(
        f"the Spark job failed: {first.strip() or type(error).__name__}", type=type(error).__name__
    )


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Let errors that Spark raises in a block be the typed errors that are inside."""
    try:
        yield
    except TesselError:
        raise
    except Exception as error:
        raise from_driver_exception(error) from error


def _texts(error: BaseException | None) -> Iterator[str]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # Py4J's text is fetched from the JVM, which may be what failed.
        try:
            yield str(error)
        except Exception as failure:
            yield f"{type(error).__name__} ({failure})"
        error = error.__cause__ or error.__context__


def _marked(error: TesselError) -> str:
    data = error.to_json()
    # Leave out the bulky parts first: kind and message are what matters.
    for dropped in ((), ("detail",), ("detail", "attributes"), ("detail", "attributes", "hint")):
        kept: dict[str, Any] = {key: value for key, value in data.items() if key not in dropped}
        payload = json.dumps(kept).encode()
        if len(payload) <= _MOST_MARKED_BYTES:
            break
    else:
        kept["message"] = str(kept["message"])[: _MOST_MARKED_BYTES // 6]
        kept["context"] = {}
        payload = json.dumps(kept).encode()
    return f"{_OPEN}{base64.b64encode(payload).decode()}{_CLOSE}"


def _from_payload(payload: bytes) -> TesselError:
    try:
        data = json.loads(payload)
        if not isinstance(data, dict):
            raise TypeError("not an object")
        return TesselError.from_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptStoreError(
            f"an error that came through Spark is damaged ({error}): {payload[:200]!r}"
        ) from error


def told_by_java(error: Exception) -> str:
    """Return the text of an error: one sentence of a page of the JVM, or its type without one."""
    try:
        text = str(error)
    except Exception:  # the JVM that has the text is gone
        return type(error).__name__
    thrown = re.search(r"^: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    return thrown[1] if thrown else text

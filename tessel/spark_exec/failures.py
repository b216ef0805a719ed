"""What pages of the JVM mean, in a sentence: errors of ours that they show, failures of Spark.

Each failure of Spark is known by words of its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tessel.errors import CancelledError, SparkError, TesselError
from tessel.spark_exec.submission import INSTALL_HINT

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

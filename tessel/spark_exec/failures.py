"""What failures of Spark itself mean, in a sentence; each is known by words of the JVM's page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tessel.errors import CancelledError, SparkError, TesselError
from tessel.spark_exec.submission import INSTALL_HINT

__all__ = ["known_failure"]

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
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|cancelled part of cancelled job")


def known_failure(texts: Iterable[str]) -> TesselError | None:
    """Return the error of a failure that is known by its words, or None."""
    for text in texts:
        for pattern, message, hint in _KNOWN:
            found = re.search(pattern, text)
            if found:
                return SparkError(
                    message.format(*(part.strip() for part in found.groups())), hint=hint
                )
        if _CANCELLED.search(text):
            return CancelledError.of_run()
    return None

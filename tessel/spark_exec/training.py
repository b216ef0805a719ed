"""The training run of a warm-up, as a program: ``python -m tessel.spark_exec.training OPTION``.

It starts a session whose JVM has the option, runs the jobs whose classes the cache should hold,
and ends the JVM, which writes the cache as it ends (:mod:`tessel.spark_exec.aot`).
"""

from __future__ import annotations

import sys

from tessel.spark_exec.aot import TRAINING_TIMEOUT_SECONDS
from tessel.spark_exec.doctor import run_shuffle
from tessel.spark_exec.runtime import spark_session, stop_session

_RUNS = 3


def main(option: str) -> None:
    """Run small jobs of one and two stages in a JVM started with ``option``."""
    session = spark_session("local[2]", configuration={"spark.driver.extraJavaOptions": option})
    for _ in range(_RUNS):
        run_shuffle(session)
    stop_session(timeout_seconds=TRAINING_TIMEOUT_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])

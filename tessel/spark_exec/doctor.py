"""Whether Spark works here, and if not, why: facts for ``tessel spark doctor`` to show.

Every fact is found by doing the real thing: each Java is run, a session is started (or the one
that exists is used), and one row goes to a worker and back by the same road as a query's data.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.ecs.piece import RowRange
from tessel.errors import SparkError, TesselError
from tessel.lazy import dataclass
from tessel.spark_exec.aot import aot_cache
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.errors_wire import spark_errors
from tessel.spark_exec.java import JavaCandidate, JavaChoice, choose_java, java_candidates
from tessel.spark_exec.runtime import (
    active_session,
    ignore_pandas_notice,
    is_own_session,
    own_java,
    spark_session,
)
from tessel.spark_exec.settings import DAEMON_MODULE, spark_home
from tessel.spark_exec.versions import collected, pyspark_version
from tessel.spark_exec.wire import WIRE_DDL, read_parts, received, sequence, wire_batch, wire_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found; fields stay None from the first thing that does not work.

    Attributes
    ----------
    python, pyspark
        Versions.
    candidates
        Every place where Java was looked for, in order, with what is wrong with it.
    java
        The Java that was chosen, and why.
    warm_cache
        The cache of a warm-up for this Java, if there is one.
    session
        ``"started"`` (ours, now), ``"running"`` (ours, before) or ``"yours"``.
    master
        Where tasks run.
    start_seconds
        What starting the session took; 0 for one that was there.
    first_row_seconds, next_row_seconds
        A row to a worker and back: the first time (workers start), and again.
    worker
        What a worker said of itself: Python, pyarrow and tessel, versions and places.
    problem
        What does not work.
    """

    python: str
    candidates: tuple[JavaCandidate, ...] = ()
    pyspark: str | None = None
    java: JavaChoice | None = None
    warm_cache: Path | None = None
    session: str | None = None
    master: str | None = None
    start_seconds: float | None = None
    first_row_seconds: float | None = None
    next_row_seconds: float | None = None
    worker: dict[str, str] = field(default_factory=dict)
    problem: TesselError | None = None

    @property
    def healthy(self) -> bool:
        """Whether everything worked."""
        return self.problem is None


def diagnose(master: str | None = None) -> Diagnosis:
    """Find out whether a job would run here.

    Parameters
    ----------
    master
        Where; None for the session that exists, or the option ``spark_master``.

    Returns
    -------
    Diagnosis
        Never raises for something that does not work: that is its ``problem``.
    """
    facts: dict[str, Any] = {"python": f"{platform.python_version()} ({sys.executable})"}
    try:
        facts["candidates"] = java_candidates()
        facts["pyspark"] = pyspark_version()
        _examine_java(facts)
        session = _examine_session(facts, master)
        began = time.monotonic()
        facts["worker"] = _one_row(session)
        facts["first_row_seconds"] = time.monotonic() - began
        began = time.monotonic()
        _one_row(session)
        facts["next_row_seconds"] = time.monotonic() - began
    except TesselError as error:
        facts["problem"] = error
    return Diagnosis(**facts)


def _examine_java(facts: dict[str, Any]) -> None:
    # A session that runs has its Java; another choice would be none of its business.
    if active_session() is not None:
        facts["java"] = own_java()
    else:
        facts["java"] = choose_java()
    if facts["java"] is not None:
        cache = aot_cache(facts["java"], facts["pyspark"], spark_home())
        facts["warm_cache"] = cache if cache is not None and cache.is_file() else None


def _examine_session(facts: dict[str, Any], master: str | None) -> SparkSession:
    existing = active_session()
    began = time.monotonic()
    session = spark_session(master)
    facts["start_seconds"] = time.monotonic() - began if existing is None else 0.0
    own = "running" if is_own_session(session) else "yours"
    facts["session"] = "started" if existing is None else own
    facts["master"] = str(session.conf.get("spark.master", "")) or None
    return session


def _one_row(session: SparkSession) -> dict[str, str]:
    ignore_pandas_notice()
    with spark_errors():
        frame = session.range(0, 1, 1, 1).mapInArrow(_introduce_worker, WIRE_DDL)
        answer = collected(frame)
    parts = list(read_parts(received(answer.to_batches())))
    if len(parts) != 1 or parts[0].table.num_rows != 1:
        raise SparkError(f"one row was sent to a worker, and {len(parts)} parts came back")
    row: dict[str, str] = parts[0].table.to_pylist()[0]
    return row


def _introduce_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    for batch in batches:
        row = {
            "python": f"{platform.python_version()} ({sys.executable})",
            "pyarrow": pa.__version__,
            "tessel": str(Path(__file__).parents[1]),
            "daemon": "ours" if getattr(started, "name", "") == DAEMON_MODULE else "pyspark's",
        }
        table = pa.Table.from_pylist([row])
        facts = PartFacts(RowRange(0, batch.num_rows))
        yield wire_batch(wire_rows(table, facts, seq=sequence(0, 0)))

"""Queries that fail while they run, and what they would have needed."""

from __future__ import annotations

import socket
from typing import Self

from tessel.errors.root import TesselError

__all__ = [
    "CancelledError",
    "ClauseFailedError",
    "ExecutionError",
    "ForkUnsafeError",
    "JavaNotFoundError",
    "JobTimeoutError",
    "MissingDependencyError",
    "SchemaPromiseError",
    "SparkError",
    "SpillError",
    "StoreNotVisibleError",
]


class ExecutionError(TesselError, RuntimeError, kind="execution-failed"):
    """A query that failed while it ran."""

    @classmethod
    def no_handles(cls, what: str) -> Self:
        """Make the error for a process that may not open one more file."""
        return cls(
            f"{what}: this process has as many files and connections open as it may",
            hint="close what is not needed, or raise the limit with `ulimit -n` before it starts",
        )


class ClauseFailedError(ExecutionError, kind="clause-failed"):
    """A clause raised an error of its own; it is the ``__cause__``."""


class SchemaPromiseError(ExecutionError, kind="schema-promise"):
    """A clause returned something other than its ``output_schema`` promised."""


class SpillError(ExecutionError, kind="spill-failed"):
    """A query could not put aside, or get back, what does not fit in its byte budget."""


class CancelledError(ExecutionError, kind="cancelled"):
    """The query was cancelled."""

    @classmethod
    def of_run(cls) -> Self:
        """Make the error that ends a run whose flag was set."""
        return cls("the query was cancelled", hint="submit it again to have its answer")


class JobTimeoutError(ExecutionError, TimeoutError, kind="job-timeout"):
    """A job had not ended when the caller no longer wanted to wait; it goes on."""

    @classmethod
    def after(cls, seconds: float, job: str) -> Self:
        """Make the error for a job that did not end in so many seconds."""
        return cls(
            f"job {job} has not ended after {seconds:g} seconds; it still runs",
            hint="wait longer with result(timeout=…), or end it with cancel()",
            job=job,
            timeout=seconds,
        )


class MissingDependencyError(TesselError, ImportError, kind="dependency-missing"):
    """An optional package that is needed for what was asked is not installed."""

    @classmethod
    def for_extra(cls, package: str, extra: str, what: str) -> Self:
        """Make the error: ``what`` needs ``package``, which comes with ``tessel[extra]``."""
        return cls(
            f"{what} needs the package {package!r}, which is not installed",
            hint=f'pip install "tessel[{extra}]"',
            package=package,
            extra=extra,
        )

    @classmethod
    def for_package(cls, package: str, what: str) -> Self:
        """Make the error: ``what`` needs ``package``, which no extra of ours brings."""
        return cls(
            f"{what} needs the package {package!r}, which is not installed",
            hint=f"pip install {package}",
            package=package,
        )


class ForkUnsafeError(TesselError, RuntimeError, kind="fork-unsafe"):
    """What a forked process has of its parent, and cannot use: a query under way, a cloud store."""

    @classmethod
    def of_job(cls, job: str) -> Self:
        """Make the error for a job of the parent process that is waited for in a forked one."""
        return cls(
            f"job {job} runs in the parent process, and its answer does not come here",
            hint="submit the query in this process",
            job=job,
        )


class SparkError(TesselError, RuntimeError, kind="spark-failed"):
    """Spark could not be started, or a job failed outside our own code."""

    @classmethod
    def no_answer(cls, master: str, detail: str) -> Self:
        """Make the error for a master of a cluster that is not there, or does not answer."""
        return cls(
            f"no Spark master answers at {master!r}",
            detail=detail,
            hint="check its address and that it is running; spark_master='local[2]' runs on this "
            "machine",
            master=master,
        )

    @classmethod
    def executors_ended(cls, count: int, told: str) -> Self:
        """Make the error for executors of a cluster that end before they do anything."""
        return cls(
            f"executors of the Spark cluster ended {count} times before a task did; the last one: "
            f"{told}",
            hint="the folder of the application on a worker has what its executors wrote before "
            "they ended; check settings of executors (memory, options of Java), and that workers "
            "reach the driver (spark.driver.host)",
            count=count,
        )


class JavaNotFoundError(SparkError, kind="java-not-found"):
    """No Java runtime that Spark can use."""


class StoreNotVisibleError(SparkError, kind="store-not-visible"):
    """A store that the workers of a Spark job cannot open, such as ``memory://``."""

    @classmethod
    def in_memory(cls, uri: str) -> Self:
        """Make the error for a store in memory that another process was to open."""
        return cls(
            f"{uri!r} is in the memory of this process, and no other process can open it",
            hint="keep the store in a directory or a cloud, and open it there",
            uri=uri,
        )

    @classmethod
    def from_here(cls, uri: str) -> Self:
        """Make the error for a store that this process does not see, where another one does."""
        return cls(
            f"a process on {socket.gethostname()!r} that shares in the work finds no store at "
            f"{uri!r}",
            hint="put the store where every worker sees it under this path, or run the query "
            'locally: executor="local"',
            uri=uri,
        )

"""Queries that fail while they run, and what they would have needed."""

from __future__ import annotations

from typing import Self

from tessel.errors.root import TesselError

__all__ = [
    "CancelledError",
    "ClauseFailedError",
    "ExecutionError",
    "ForkUnsafeError",
    "JavaNotFoundError",
    "MissingDependencyError",
    "SchemaPromiseError",
    "SparkError",
    "SpillError",
    "StoreNotVisibleError",
]


class ExecutionError(TesselError, RuntimeError):
    """A query that failed while it ran."""

    kind = "execution-failed"


class ClauseFailedError(ExecutionError):
    """A clause raised an error of its own; it is the ``__cause__``."""

    kind = "clause-failed"


class SchemaPromiseError(ExecutionError):
    """A clause returned something other than its ``output_schema`` promised."""

    kind = "schema-promise"


class SpillError(ExecutionError):
    """A query could not put aside, or get back, what does not fit in its byte budget."""

    kind = "spill-failed"


class CancelledError(ExecutionError):
    """The query was cancelled."""

    kind = "cancelled"


class MissingDependencyError(TesselError, ImportError):
    """An optional package that is needed for what was asked is not installed."""

    kind = "dependency-missing"

    @classmethod
    def for_extra(cls, package: str, extra: str, what: str) -> Self:
        """Make the error: ``what`` needs ``package``, which comes with ``tessel[extra]``."""
        return cls(
            f"{what} needs the package {package!r}, which is not installed",
            hint=f'pip install "tessel[{extra}]"',
            package=package,
            extra=extra,
        )


class ForkUnsafeError(TesselError, RuntimeError):
    """What a forked process has of its parent, and cannot use: a query under way, a cloud store."""

    kind = "fork-unsafe"


class SparkError(TesselError, RuntimeError):
    """Spark could not be started, or a job failed outside our own code."""

    kind = "spark-failed"


class JavaNotFoundError(SparkError):
    """No Java runtime that Spark can use."""

    kind = "java-not-found"


class StoreNotVisibleError(SparkError):
    """A store that the workers of a Spark job cannot open, such as ``memory://``."""

    kind = "store-not-visible"

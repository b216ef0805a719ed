"""Executors by their names: the local pool, Spark, or one that was made already."""

from __future__ import annotations

from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.pipeline.executor import Executor, LocalExecutor

__all__ = ["ExecutorLike", "named_executor"]

ExecutorLike = str | Executor

_EXECUTORS = ("local", "spark")


def named_executor(executor: ExecutorLike) -> Executor:
    """Return an executor that was asked for by name, or given.

    Raises
    ------
    NameNotFoundError
        For a name that no executor has.
    InvalidInputError
        For what is no executor.
    """
    if not isinstance(executor, str):
        if not callable(getattr(executor, "run", None)):
            raise InvalidInputError(
                f"{executor!r} is no executor", hint='give "local", "spark", or a SparkExecutor'
            )
        return executor
    if executor == "local":
        return LocalExecutor()
    if executor == "spark":
        from tessel.spark_exec import SparkExecutor

        return SparkExecutor()
    raise NameNotFoundError.for_name("executor", executor, _EXECUTORS)

"""How a task reaches a worker that may lack the package, or have another version of it.

What Spark sends is a function of the standard library alone with the task as bytes: only a worker
that has the very package of the driver takes the bytes for a task. Any other says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tessel.spark_exec.submission import package_build
from tessel.spark_exec.tasks import TaskFunction


def shipped(task: TaskFunction) -> TaskFunction:
    """Return a task in the form that is sent; on a worker that cannot run it, it raises.

    The texts of its errors are known to :mod:`tessel.spark_exec.failures`.
    """
    cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    packed: bytes = cloudpickle.dumps(task)
    build = package_build()

    # Nothing of a module is used below: with it, the function would not load without the package.
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle
        import socket
        import sys

        place = f"{sys.executable} on {socket.gethostname()}"
        try:
            from tessel.spark_exec.submission import package_build
        except ImportError as error:
            raise RuntimeError(f"tessel-worker-lacks {place}: {error}") from None
        if package_build() != build:
            raise RuntimeError(f"tessel-worker-differs {place}: {package_build()} {build}")
        from tessel.errors import StoreNotFoundError, StoreNotVisibleError
        from tessel.spark_exec.errors_wire import WorkerError

        try:
            task = pickle.loads(packed)
        except StoreNotFoundError as error:  # that results are written to
            raise WorkerError(StoreNotVisibleError.from_here(error.attributes["uri"])) from error
        yield from task(batches)

    return run

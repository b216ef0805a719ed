"""How a task reaches a worker that may lack the package, or have another version of it.

What Spark sends is a function of the standard library alone with the task as bytes: only a worker
that has the very package of the driver takes the bytes for a task. Any other says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from tessel.spark_exec.submission import package_build
from tessel.spark_exec.tasks import TaskFunction


def shipped(task: TaskFunction) -> TaskFunction:
    """Return a task in the form that is sent; on a worker that cannot run it, it raises.

    The texts of its errors are known to :mod:`tessel.spark_exec.errors_wire`.
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


def of_streams(task: TaskFunction) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """Return a task, as it is sent, that takes and gives Arrow streams: elements of an RDD.

    A stream is of some megabytes where there are more to come: so pyspark sends each by itself.
    """

    def run(streams: Iterable[bytes]) -> Iterator[bytes]:
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            for stream in streams:
                with pa.ipc.open_stream(stream) as reader:
                    yield from reader

        writer: Any = None
        for batch in task(batches()):
            if writer is None:
                sink = pa.BufferOutputStream()
                writer = pa.ipc.new_stream(sink, batch.schema)
            writer.write_batch(batch)
            if sink.tell() >= 1 << 22:
                writer.close()
                writer = None
                yield sink.getvalue().to_pybytes()
        if writer is not None:
            writer.close()
            yield sink.getvalue().to_pybytes()

    return run

"""The parent of Spark's Python workers, with garbage collection made cheap after every task.

Spark starts ``python -m <spark.python.daemon.module>`` once an executor; it forks the workers.
pyspark's own daemon runs a full ``gc.collect()`` after every task, which walks every object of
every imported module: more time than a small task takes. Here the imports are done once, before
the fork, and all objects that exist then, and those left after a worker's first tasks, are moved
to the collector's permanent generation (:func:`gc.freeze`), so that the collection only looks at
what tasks made since.

Importing before the fork is safe as long as no thread of a library holds a lock at that moment.
Spark gives workers ``OMP_NUM_THREADS``, so that numpy starts none, and the threads that pyarrow
can start (pools, allocator) are fork-aware and idle: nothing has been run yet.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
from collections.abc import Callable
from typing import Any

from tessel.spark_exec.submission import package_build

FREEZE_AFTER_TASKS = frozenset({1, 4})
"""Tasks of a worker after which its objects are frozen: the first brings the late imports, a few
more the caches. Later ones would only keep garbage alive."""

_PRELOADED = ("pyarrow", "pyarrow.compute", "pyspark.worker", "pyspark.sql.pandas.serializers")


def freezing(worker: Callable[..., int]) -> Callable[..., int]:
    """Return ``worker`` (one task: a socket in, an exit code out) with freezing after the first.

    Garbage is collected before the freeze, so that nothing dead is kept for the worker's life.
    """
    done = 0

    @functools.wraps(worker)
    def run(*arguments: Any, **options: Any) -> int:
        nonlocal done
        try:
            code = worker(*arguments, **options)
        except (BrokenPipeError, ConnectionResetError):
            # Spark hung up: the task failed or was cancelled, and this process is not wanted any
            # more. pyspark ends it in the same way, after a page of traceback.
            os._exit(1)
        done += 1
        if done in FREEZE_AFTER_TASKS:
            gc.collect()
            gc.freeze()
        return code

    return run


def main() -> None:
    """Run Spark's worker daemon in this process until Spark closes its standard input."""
    daemon: Any = importlib.import_module("pyspark.daemon")
    for name in _PRELOADED:
        importlib.import_module(name)
    package_build()  # which each worker would find out by itself
    gc.collect()
    gc.freeze()
    # manager() looks the function up in its module for every fork.
    daemon.worker = freezing(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()

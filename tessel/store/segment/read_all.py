"""All bytes of a plan at once, for takes: no order, no budget, one wait.

The reader of segments enters here; scans go through :mod:`tessel.store.segment.io_queue`.
"""

from __future__ import annotations

from concurrent.futures import Future, wait

import numpy as np
import pyarrow as pa

from tessel.store.segment.read_plan import ReadPlan
from tessel.store.segment.requests import Batch, read_failed
from tessel.store.segment.sources.base import ReadSource

__all__ = ["read_all"]


def read_all(source: ReadSource, plan: ReadPlan) -> list[pa.Buffer]:
    """Read all ranges of a plan at once and wait for them: for takes, which need all of it.

    Parameters
    ----------
    source
        Where the bytes are.
    plan
        What to read; its bytes are the caller's to bound.

    Returns
    -------
    list
        One buffer per range, in the order of the plan.

    Raises
    ------
    StoreError
        As :meth:`IoQueue.poll`; the first, in the order of the plan, that failed.
    """
    if source.immediate:
        found = source.read(plan.ranges, plan.priority)
        if not any(isinstance(answer, Future) for answer in found):
            return [answer for answer in found if isinstance(answer, pa.Buffer)]
    batch = Batch.of(plan, source.limits)
    priorities = np.array([part.priority for part in batch.parts], np.int64)
    answers = source.read(batch.ranges, priorities) if batch.parts else []
    wait([answer for answer in answers if isinstance(answer, Future)])
    for part, answer in zip(batch.parts, answers, strict=True):
        if isinstance(answer, Future):
            error = answer.exception()
            if error is not None:
                raise read_failed(error, part, {})
            part.buffer = answer.result()
        else:
            part.buffer = answer
    return [batch.bytes_of(entry) for entry in range(len(plan))]

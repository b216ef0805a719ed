"""cum_count: how many values a column has up to each row."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.count import Count
from tessel.clauses.along_rows.cumulative import Cumulative, Running
from tessel.clauses.registry import register
from tessel.clauses.values import missing_rows
from tessel.kernels.running_rows import run_counts
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class CumCount(Cumulative):
    """How many values that are not missing there are up to each row, of the same key; int64.

    It takes every type, and is never missing: a row without a value repeats the number before it.
    """

    name: ClassVar[str] = "cum_count"

    @property
    def aggregate(self) -> MergeableAggregate:
        """The aggregate ``count``."""
        return Count()

    def state_of_all(self, values: pa.Array) -> list[pa.Array]:
        """Count the values."""
        absent = missing_rows(values)
        missing = 0 if absent is None else int(np.count_nonzero(absent))
        return [arrow_array([len(values) - missing])]

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Count what lies up to each row."""
        counts = np.zeros(running.groups, np.int64)
        counts[running.carried] = numpy_array(running.states[0])
        return arrow_array(run_counts(len(running.values), running.present, running.codes, counts))

"""cum_sum: the sum of a column up to each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates import Sum
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.kernels.sums import sums_from
from tessel.clauses.aggregates.kernels.windows import ExactRows
from tessel.clauses.along_rows.cumulative import Cumulative, Running
from tessel.clauses.registry import register

__all__ = ["CumSum"]


@register
@dataclass(frozen=True)
class CumSum(Cumulative):
    """The sum of the values up to each row, of the same key; missing where the row has no value.

    Types are those of the aggregate ``sum``. Each sum is exact, and rounded once where it is a
    float: it does not depend on the order of additions, and nothing drifts. A sum that leaves its
    type raises.
    """

    name: ClassVar[str] = "cum_sum"

    @property
    def aggregate(self) -> MergeableAggregate:
        """The aggregate ``sum``."""
        return Sum()

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Add up what lies up to each row."""
        rows = ExactRows.of_values(running.values)
        if len(running.states[0]):
            carried = ExactRows.of_sums(sums_from(running.states, kind))
            rows = carried.followed_by(rows)
        # A row without a value has no sum, and cannot raise either.
        stops = np.where(running.missing, running.starts, running.stops)
        sums = rows.taken(running.order).window_sums(running.starts, stops)
        found = self.aggregate.finish(sums.to_arrays(), kind, running.column)
        return _without(found, running.missing)


def _without(found: pa.Array, missing: np.ndarray) -> pa.Array:
    if not missing.any():
        return found
    places = np.arange(len(found))
    return found.take(pa.array(places, mask=missing))

"""cum_sum, cum_min, cum_max and cum_count: an aggregate of the rows up to each one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.kernels.sums import state_arrays, sums_from, sums_of
from tessel.clauses.aggregates.reductions import of_some
from tessel.clauses.aggregates.selective import Max, Min
from tessel.clauses.aggregates.sum import Sum
from tessel.clauses.along_rows.cumulative import (
    Cumulative,
    CumulativeExtreme,
    Running,
    running_sums,
)
from tessel.clauses.along_rows.key_order import KeyOrder, in_rows
from tessel.clauses.registry import register
from tessel.clauses.values import integers
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.running_rows import run_counts
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class CumSum(Cumulative):
    """The sum of the values up to each row, of the same key; missing where the row has no value.

    Types are those of the aggregate ``sum``. Each sum is exact, and rounded once where it is a
    float: it does not depend on the order of additions, and nothing drifts. A sum that leaves its
    type raises.
    """

    name: ClassVar[str] = "cum_sum"
    aggregate: ClassVar[MergeableAggregate] = Sum()

    def state_of_all(self, values: pa.Array) -> list[pa.Array] | None:
        """Add up integers whose sum fits 64 bits."""
        kind = values.type
        if not pa.types.is_integer(kind) or values.null_count:
            return None
        numbers = integers(values)
        largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
        if largest * len(numbers) >= 1 << 63:
            return None
        total = np.array([int(numbers.sum())], np.int64)
        return state_arrays(ExactSums.of_parts({0: total}, 1))

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Add up what lies up to each row."""
        found = running_sums(running, kind)
        if found is not None:
            made = arrow_array(found, mask=running.absent)
            wanted = self.aggregate.result_type(kind, running.column)
            return made if made.type == wanted else made.view(wanted)
        return self._limb_by_limb(running, kind)

    def _limb_by_limb(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Add up values of any type and size; refuse sums that leave the type."""
        values, carried = running.values, len(running.carried)
        codes = np.zeros(len(values), np.int64) if running.codes is None else running.codes
        keys = KeyOrder.of_codes(np.concatenate([running.carried, codes]), running.groups)
        places, rows = keys.places_of(carried, carried + len(values))
        starts, stops = keys.start[places], places + 1
        numbers, missing = np.arange(len(values)), np.zeros(len(values), np.bool_)
        if running.present is not None:
            numbers, missing = np.flatnonzero(running.present), ~running.present[rows]
            values = values.filter(arrow_array(running.present))
            stops = np.where(missing, starts, stops)  # no sum, which cannot raise either
        each = sums_of(values, numbers, len(missing))
        order = keys.places if keys.order is None else keys.order
        sums = ExactSums.stacked([sums_from(running.states), each]).windows(starts, stops, order)
        found = Sum().of_reductions({"sum": sums}, kind, running.column)
        return in_rows(of_some(found, ~missing), rows)


@register
@dataclass(frozen=True)
class CumMin(CumulativeExtreme):
    """The least value up to each row, of the same key; missing where the row has no value.

    Types and order are those of the aggregate ``min``: text by code point, a zero is +0.0.
    """

    name: ClassVar[str] = "cum_min"
    aggregate: ClassVar[MergeableAggregate] = Min()
    better: ClassVar[np.ufunc] = np.minimum


@register
@dataclass(frozen=True)
class CumMax(CumulativeExtreme):
    """The greatest value up to each row, of the same key; missing where the row has no value.

    Types and order are those of the aggregate ``max``: text by code point, a zero is +0.0.
    """

    name: ClassVar[str] = "cum_max"
    aggregate: ClassVar[MergeableAggregate] = Max()
    better: ClassVar[np.ufunc] = np.maximum


@register
@dataclass(frozen=True)
class CumCount(Cumulative):
    """How many values that are not missing there are up to each row, of the same key; int64.

    It takes every type, and is never missing: a row without a value repeats the number before it.
    """

    name: ClassVar[str] = "cum_count"
    aggregate: ClassVar[MergeableAggregate] = Count()

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Count what lies up to each row."""
        counts = np.zeros(running.groups, np.int64)
        counts[running.carried] = numpy_array(running.states[0])
        return arrow_array(run_counts(len(running.values), running.present, running.codes, counts))

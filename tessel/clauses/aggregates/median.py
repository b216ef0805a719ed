"""The aggregate ``median``: the middle value, or the mean of the two middle ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes, OrderedValues
from tessel.clauses.aggregates.holistic import GroupValues, HolisticAggregate
from tessel.clauses.aggregates.kernels.mixes import means_of_two
from tessel.clauses.aggregates.mean import Mean, type_of_mean
from tessel.clauses.aggregates.registry import register


@register
class Median(HolisticAggregate):
    """The median of the values that are not missing, by linear interpolation; missing of none.

    Types are those of ``mean``: of an even number of values it *is* the mean of the two in the
    middle, so that it is exact, rounded once, and to the unit for temporal types.
    """

    name: ClassVar[str] = "median"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return type_of_mean(self, value_type, column)

    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:  # noqa: D102
        counts = held.counts
        owners = np.flatnonzero(counts)
        counts = counts[owners]
        # Those of a group side by side: the second is found next to the first.
        places = np.stack([(counts - 1) // 2, counts // 2], axis=1).ravel()
        middle = held.at(np.repeat(owners, 2), places)
        low, high = (middle.take(arrow_array(np.arange(at, len(middle), 2))) for at in (0, 1))
        return spread_out(mean_of_two(low, high, column), owners, groups)

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Look at the one or two values in the middle."""
        middle = sorted({(values.count - 1) // 2, values.count // 2})
        return Mean().compute(values.at(middle), np.zeros(len(middle), np.int64), 1, column)


def mean_of_two(low: pa.Array, high: pa.Array, column: str | None) -> pa.Array:
    """Return the mean of each two values, whatever their type."""
    found = means_of_two(low, high)
    if found is not None:
        return found
    places = np.arange(len(low), dtype=np.int64)
    both = pa.concat_arrays([low, high])
    return Mean().compute(both, np.concatenate([places, places]), len(low), column)


def spread_out(found: pa.Array, owners: Codes, groups: int) -> pa.Array:
    """Return results of some groups as those of all; null for the others."""
    if len(owners) == groups:
        return found
    places, absent = np.zeros(groups, np.int64), np.ones(groups, np.bool_)
    places[owners], absent[owners] = np.arange(len(owners)), False
    return found.take(arrow_array(places, mask=absent))

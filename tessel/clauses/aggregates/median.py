"""The aggregate ``median``: the middle value, or the mean of the two middle ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates.base import (
    Aggregate,
    Codes,
    OrderedValues,
    Values,
    counts_of,
    present,
    register,
)
from tessel.clauses.aggregates.kernels.order_statistics import ordered_rows
from tessel.clauses.aggregates.mean import Mean, mean_type

__all__ = ["Median"]


@register
@dataclass(frozen=True)
class Median(Aggregate):
    """The median of the values that are not missing, by linear interpolation; missing of none.

    Types are those of ``mean``: of an even number of values it *is* the mean of the two in the
    middle, so that it is exact, rounded once, and to the unit for temporal types.
    """

    name: ClassVar[str] = "median"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        found = mean_type(value_type)
        if found is None:
            raise self.refuse(
                column, value_type, "median takes numbers, dates, times and durations"
            )
        return found

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        array, codes, _ = present(values, codes)
        order = ordered_rows(array, codes, groups)
        counts = counts_of(codes, groups)
        owners = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[owners]
        lower = order[starts + (counts[owners] - 1) // 2]
        upper = order[starts + counts[owners] // 2]
        middle = array.take(pa.array(np.concatenate([lower, upper])))
        return Mean().compute(middle, np.concatenate([owners, owners]), groups, column)

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Look at the one or two values in the middle."""
        middle = sorted({(values.count - 1) // 2, values.count // 2})
        return Mean().compute(values.at(middle), np.zeros(len(middle), np.int64), 1, column)

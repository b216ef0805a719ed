"""The aggregate ``median``: the middle value, or the mean of the two middle ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.base import (
    Aggregate,
    Codes,
    Values,
    counts_of,
    present,
    register,
)
from tessel.clauses.aggregates.mean import Mean, mean_type
from tessel.clauses.values import integers, ranks, raw_values

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
        order = _order(_sortable(array), codes, groups)
        counts = counts_of(codes, groups)
        owners = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[owners]
        lower = order[starts + (counts[owners] - 1) // 2]
        upper = order[starts + counts[owners] // 2]
        middle = array.take(pa.array(np.concatenate([lower, upper])))
        return Mean().compute(middle, np.concatenate([owners, owners]), groups, column)


def _sortable(array: pa.Array) -> NDArray[Any]:
    if pa.types.is_floating(array.type):
        return raw_values(array, array.type.to_pandas_dtype())
    if pa.types.is_decimal(array.type):
        return ranks(array)[0]
    return integers(array)


def _order(numbers: NDArray[Any], codes: Codes, groups: int) -> NDArray[np.int64]:
    """Return the rows ordered by group, then by number."""
    by_number = np.argsort(numbers)
    owners = codes[by_number]
    if groups <= 1 << 16:
        # Sixteen bits are sorted by radix, in one pass.
        owners = owners.astype(np.uint16)
    return by_number[np.argsort(owners, kind="stable")]

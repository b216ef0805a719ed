"""The aggregate ``mean``: the exact quotient, rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Aggregate
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.kernels.sums import DAY_MS
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import NUMBERS, is_temporal, of_integers, plain_type


def mean_type(value_type: pa.DataType) -> pa.DataType | None:
    """Return the type of a mean of such values, or None where there is no mean."""
    kind = plain_type(value_type)
    if kind.id in NUMBERS or pa.types.is_decimal128(kind):
        return pa.float64()
    return kind if is_temporal(kind) else None


def type_of_mean(aggregate: Aggregate, value_type: pa.DataType, column: str | None) -> pa.DataType:
    """Return the type of a mean of values; an aggregate refuses values that have no mean."""
    found = mean_type(value_type)
    if found is None:
        hint = f"{aggregate.name} takes numbers, dates, times and durations"
        raise aggregate.refuse(column, value_type, hint)
    return found


@register
class Mean(FromReductions):
    """The mean of the values that are not missing; missing of none.

    Numbers, bools and decimals: the exact quotient rounded once to float64, so it cannot overflow
    on the way; missing where infinities of both signs met. Timestamps, times and durations keep
    their type, exact to the unit, half to even. Dates keep their type, rounded to the nearest day,
    half to the even day number since 1970-01-01.
    """

    name: ClassVar[str] = "mean"
    reductions: ClassVar[tuple[str, ...]] = ("sum", "count")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return type_of_mean(self, value_type, column)

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        sums, counts = reduced["sum"], reduced["count"]
        none = counts == 0
        if not is_temporal(result_type):
            kind = plain_type(value_type)
            means = sums.rounded(counts, scale=kind.scale if pa.types.is_decimal(kind) else 0)
            return arrow_array(means, result_type, mask=none | np.isnan(means))
        units = sums.rounded_integers(counts)
        if pa.types.is_date64(result_type):
            units = units * DAY_MS
        return of_integers(units, result_type, none)

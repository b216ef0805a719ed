"""The aggregate ``weighted_mean``, also called ``vwap``: of values, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.products import (
    ExactNumbers,
    added_sums,
    number_parts,
    rounded_integer,
    rounded_quotient,
    sums_of_numbers,
    sums_of_products,
)
from tessel.clauses.aggregates.kernels.sums import DAY_MS, state_fields
from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.aggregates.present_rows import present_together
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_temporal, plain, plain_type
from tessel.errors import AggregateError, IntegerOverflowError

__all__ = ["WeightedMean"]


@register
class WeightedMean(MergeableAggregate):
    """The sum of value times weight over the sum of weights, both exact, rounded once.

    Rows in which value or weight is missing are skipped; missing of none, and where the weights
    add up to zero. Types are those of ``mean``; weights are numbers or bools, of any sign. An
    infinite weight gives missing; infinite values count as they do in ``mean``.
    """

    name: ClassVar[str] = "weighted_mean"
    aliases: ClassVar[tuple[str, ...]] = ("vwap",)
    further: ClassVar[tuple[str, ...]] = ("weight",)
    stored_facts: ClassVar[tuple[str, ...]] = ("products", "weights")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        values, weights = (value_type.field(place).type for place in range(2))
        found, weighing = mean_type(values), mean_type(weights)
        if found is None:
            hint = "weighted_mean takes numbers, dates, times and durations"
            raise self.refuse(column, values, hint)
        if weighing is None or is_temporal(weighing):
            raise AggregateError(
                f"the weights of {self.name} are of type {weights}",
                hint="weights are numbers or bools: cast them first",
                aggregate=self.name,
                column=column,
                type=str(weights),
            )
        return found

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [
            state.with_name(f"{of}_{state.name}")
            for of in ("products", "weights")
            for state in state_fields(pa.float64())
        ]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        (array, weight), codes = present_together(values, codes)
        left, right = number_parts(array), number_parts(weight)
        weights = sums_of_numbers(right, codes, groups)
        finite = np.isfinite(left[0]) & np.isfinite(right[0])
        found: list[FloatSums] = []
        if not finite.all():
            found.append(_infinite(left[0][~finite], right[0][~finite], codes[~finite], groups))
            left, right = [part[finite] for part in left], [part[finite] for part in right]
            codes = codes[finite]
        products = added_sums([sums_of_products(left, right, codes, groups), *found], groups)
        return [*products.to_arrays(), *weights.to_arrays()]

    def partial_of_facts(  # noqa: D102
        self, counts: NDArray[np.int64], facts: Mapping[str, Any]
    ) -> list[pa.Array]:
        return [*facts["products"].to_arrays(), *facts["weights"].to_arrays()]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        half = len(states) // 2
        return [
            *FloatSums.merged_arrays(states[:half], codes, groups).to_arrays(),
            *FloatSums.merged_arrays(states[half:], codes, groups).to_arrays(),
        ]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        products, weights = _read(states)
        # The scale of decimal weights cancels.
        ratios = _ratios(products, weights, plain_type(value_type.field(0).type))
        infinities = _infinities(products, weights)
        if not is_temporal(result_type):
            floats = [
                None if ratio is None else infinity or rounded_quotient(*ratio)
                for ratio, infinity in zip(ratios, infinities, strict=True)
            ]
            return pa.array(floats, result_type, from_pandas=True)
        units = [None if ratio is None else rounded_integer(*ratio) for ratio in ratios]
        return self._temporal(units, result_type, column)

    def _temporal(
        self, units: list[int | None], result_type: pa.DataType, column: str | None
    ) -> pa.Array:
        if pa.types.is_date64(result_type):
            units = [None if unit is None else unit * DAY_MS for unit in units]
        width = pa.int32() if result_type.bit_width == 32 else pa.int64()
        bound = 1 << (result_type.bit_width - 1)
        for unit in units:
            if unit is not None and not -bound <= unit < bound:
                what = "a column" if column is None else f"column {column!r}"
                raise IntegerOverflowError(
                    f"{self.name} of {what} is {unit} in one group, past {result_type}",
                    hint="negative weights took it there: filter them, or take the sums apart",
                    aggregate=self.name,
                    column=column,
                    value=str(unit),
                    type=str(result_type),
                )
        return arrow_array(units, width).view(result_type)


def _read(states: Sequence[Values]) -> tuple[FloatSums, FloatSums]:
    arrays = [plain(state) for state in states]
    half = len(arrays) // 2
    return FloatSums.from_arrays(arrays[:half]), FloatSums.from_arrays(arrays[half:])


def _infinite(
    left: NDArray[np.float64], right: NDArray[np.float64], codes: Codes, groups: int
) -> FloatSums:
    """Add products with an infinite factor; infinite times zero counts as both infinities."""
    with np.errstate(invalid="ignore"):
        products = left * right
    undefined = np.isnan(products)
    both = np.where(undefined, np.inf, products), np.full(undefined.sum(), -np.inf)
    return FloatSums.of_values(
        np.concatenate(both), np.concatenate([codes, codes[undefined]]), groups
    )


def _infinities(products: FloatSums, weights: FloatSums) -> list[float | None]:
    """Return what infinite factors make of each group: NaN, an infinity, or None without any."""
    found: list[float | None] = []
    nothing = weights.positive_infinity | weights.negative_infinity
    nothing |= products.positive_infinity & products.negative_infinity
    negative = np.array([number < 0 for number in ExactNumbers.of(weights).integers], np.bool_)
    up = np.where(negative, products.negative_infinity, products.positive_infinity)
    down = np.where(negative, products.positive_infinity, products.negative_infinity)
    for lost, is_up, is_down in zip(nothing.tolist(), up.tolist(), down.tolist(), strict=True):
        found.append(np.nan if lost else np.inf if is_up else -np.inf if is_down else None)
    return found


def _ratios(
    products: FloatSums, weights: FloatSums, kind: pa.DataType
) -> list[tuple[int, int, int] | None]:
    """Return numerator, denominator and exponent of each mean; None where weights sum to zero."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    above, below = 10 ** max(0, -scale), 10 ** max(0, scale)
    upper, lower = ExactNumbers.of(products), ExactNumbers.of(weights)
    # Sums of products are kept 2**1074 times as large as they are.
    return [
        (top * above, bottom * below, top_exponent - 1074 - bottom_exponent) if bottom else None
        for top, top_exponent, bottom, bottom_exponent in zip(
            upper.integers, upper.exponents, lower.integers, lower.exponents, strict=True
        )
    ]

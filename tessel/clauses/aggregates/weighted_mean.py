"""The aggregate ``weighted_mean``, also called ``vwap``: of values, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.kernels.mixes import rounded_integer, rounded_quotient
from tessel.clauses.aggregates.kernels.sums import DAY_MS
from tessel.clauses.aggregates.mean import mean_type, type_of_mean
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_temporal, plain_type
from tessel.errors import AggregateError, IntegerOverflowError
from tessel.kernels.exact_sums import NEGATIVE, POSITIVE, ExactSums


@register
class WeightedMean(FromReductions):
    """The sum of value times weight over the sum of weights, both exact, rounded once.

    Rows in which value or weight is missing are skipped; missing of none, and where the weights
    add up to zero. Types are those of ``mean``; weights are numbers or bools, of any sign. An
    infinite weight gives missing; infinite values count as they do in ``mean``.
    """

    name: ClassVar[str] = "weighted_mean"
    aliases: ClassVar[tuple[str, ...]] = ("vwap",)
    further: ClassVar[tuple[str, ...]] = ("weight",)
    reductions: ClassVar[tuple[str, ...]] = ("products", "weights")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        values, weights = (value_type.field(place).type for place in range(2))
        found, weighing = type_of_mean(self, values, column), mean_type(weights)
        if weighing is None or is_temporal(weighing):
            raise AggregateError(
                f"the weights of {self.name} are of type {weights}",
                hint="weights are numbers or bools: cast them first",
                aggregate=self.name,
                column=column,
                type=str(weights),
            )
        return found

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        products, weights = reduced["products"], reduced["weights"]
        # The scale of decimal weights cancels.
        ratios = _ratios(products, weights, plain_type(value_type.field(0).type))
        if not is_temporal(result_type):
            floats = [None if ratio is None else rounded_quotient(*ratio) for ratio in ratios]
            means = arrow_array(floats, result_type)
            infinite = (products.infinities | weights.infinities) != 0
            return _with_infinities(means, products, weights, ratios) if infinite.any() else means
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
                raise IntegerOverflowError.of_group(
                    self.name,
                    column,
                    unit,
                    result_type,
                    hint="negative weights took it there: filter them, or take the sums apart",
                )
        return arrow_array(units, width).view(result_type)


def _with_infinities(
    means: pa.Array,
    products: ExactSums,
    weights: ExactSums,
    ratios: Sequence[tuple[int, int, int] | None],
) -> pa.Array:
    """Put in what infinite factors make of groups whose weights do not add up to zero."""
    found = means.to_pylist()
    flags = zip(products.infinities.tolist(), weights.infinities.tolist(), ratios, strict=True)
    for group, (product, weight, ratio) in enumerate(flags):
        if weight or product == POSITIVE | NEGATIVE:
            found[group] = None
        elif product and ratio is not None:
            found[group] = np.inf if (product == POSITIVE) == (ratio[1] > 0) else -np.inf
    return arrow_array(found, means.type)


def _ratios(
    products: ExactSums, weights: ExactSums, kind: pa.DataType
) -> list[tuple[int, int, int] | None]:
    """Return numerator, denominator and exponent of each mean; None where weights sum to zero."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    above, below = 10 ** max(0, -scale), 10 ** max(0, scale)
    return [
        (top * above, bottom * below, top_exponent - bottom_exponent) if bottom else None
        for top, top_exponent, bottom, bottom_exponent in zip(
            *products.numbers(), *weights.numbers(), strict=True
        )
    ]

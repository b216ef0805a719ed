"""The aggregate ``quantile``: the value that a share of the values does not pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
from tessel.clauses.aggregates.kernels.products import rounded_integer, rounded_quotient
from tessel.clauses.aggregates.kernels.sums import DAY_MS
from tessel.clauses.aggregates.mean import Mean, mean_type
from tessel.clauses.values import integers, is_hashable, is_temporal, normalised, plain_type
from tessel.errors import AggregateError

__all__ = ["Interpolation", "Quantile"]

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]

_HALF = Fraction(1, 2)


@register
@dataclass(frozen=True)
class Quantile(Aggregate):
    """The quantile ``q`` of the values that are not missing; missing of none.

    Of ``n`` values in order, numbered from 0, it lies at the place ``q * (n - 1)``, computed
    exactly from ``q`` as it is written: 0.9 of eleven values is the tenth of them.

    Attributes
    ----------
    q
        From 0 (the least value) to 1 (the greatest).
    interpolation
        Between two places: ``linear`` and ``midpoint`` mix the two values, exactly and rounded
        once, with the types of ``mean``; ``quantile(0.5)`` is the median. ``lower``, ``higher`` and
        ``nearest`` (halfway: the even place) choose one of them, and take every type that has an
        order.
    """

    name: ClassVar[str] = "quantile"
    q: float
    interpolation: Interpolation = "linear"

    def __post_init__(self) -> None:
        if isinstance(self.q, bool) or not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise AggregateError(
                f"the q of a quantile is {self.q!r}", hint="it is a number from 0 to 1"
            )
        if self.interpolation not in get_args(Interpolation):
            raise AggregateError(
                f"the interpolation of a quantile is {self.interpolation!r}",
                hint=f"it is one of {', '.join(get_args(Interpolation))}",
            )
        object.__setattr__(self, "q", float(self.q) + 0.0)

    @property
    def _mixes(self) -> bool:
        return self.interpolation in ("linear", "midpoint")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        if not self._mixes:
            if not is_hashable(value_type):
                raise self.refuse(column, value_type, "quantile takes columns of single values")
            return plain_type(value_type)
        found = mean_type(value_type)
        if found is None:
            hint = (
                'quantile takes numbers, dates, times and durations; interpolation="lower" others'
            )
            raise self.refuse(column, value_type, hint)
        return found

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        array, codes, _ = present(normalised(values), codes)
        order = ordered_rows(array, codes, groups)
        counts = counts_of(codes, groups)
        owners = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[owners]
        places, shares = self._places(counts[owners])
        lower = order[starts + places]
        upper = order[starts + places + (shares > 0)]
        return self._between(array, lower, upper, places, shares, owners, groups, column)

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Look at the two values between which the quantile lies."""
        places, shares = self._places(np.array([values.count], np.int64))
        lower = int(places[0])
        pair = normalised(values.at([lower, lower + 1] if shares[0] else [lower]))
        zero, upper = np.zeros(1, np.int64), np.array([len(pair) - 1], np.int64)
        return self._between(pair, zero, upper, places, shares, zero, 1, column)

    def _between(
        self,
        array: pa.Array,
        lower: NDArray[np.int64],
        upper: NDArray[np.int64],
        places: NDArray[np.int64],
        shares: NDArray[Any],
        owners: NDArray[np.int64],
        groups: int,
        column: str | None,
    ) -> pa.Array:
        """Return the results from the rows at and above each place."""
        if not self._mixes:
            chosen = self._chosen(lower, upper, places, shares)
            rows = np.zeros(groups, np.int64)
            rows[owners] = chosen
            absent = np.ones(groups, np.bool_)
            absent[owners] = False
            return array.take(pa.array(rows, mask=absent))
        if self.interpolation == "midpoint":
            shares[:] = _HALF
        return _mixed(array, lower, upper, shares, owners, groups, column)

    def _places(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the place at or below the quantile of each group, and how far it lies past it."""
        share = Fraction(repr(self.q))
        different, number = np.unique(counts, return_inverse=True)
        exact = [divmod(share * (n - 1), 1) for n in different.tolist()]
        places = np.array([place for place, _ in exact], np.int64)
        shares = np.empty(len(exact), object)
        shares[:] = [rest for _, rest in exact]
        return places[number], shares[number]

    def _chosen(
        self,
        lower: NDArray[np.int64],
        upper: NDArray[np.int64],
        places: NDArray[np.int64],
        shares: NDArray[Any],
    ) -> NDArray[np.int64]:
        if self.interpolation == "lower":
            return lower
        if self.interpolation == "higher":
            return upper
        above = (shares > _HALF) | ((shares == _HALF) & (places % 2 == 1))
        return np.where(above.astype(np.bool_), upper, lower)


def _mixed(
    array: pa.Array,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    shares: NDArray[Any],
    owners: NDArray[np.int64],
    groups: int,
    column: str | None,
) -> pa.Array:
    """Mix two values a group: a share of the upper, the rest of the lower; rounded once."""
    pairs = pa.array(np.concatenate([lower, upper]))
    twice = np.concatenate([owners, owners])
    # Means of two are exact and fast; they are also the answer where both values are one.
    halves = Mean().compute(array.take(pairs), twice, groups, column)
    others = np.flatnonzero((shares != _HALF) & (shares != 0))
    if not len(others):
        return halves
    mixed = _exact_mixes(array, lower[others], upper[others], shares[others].tolist(), halves.type)
    index = np.arange(groups)
    index[owners[others]] = groups + np.arange(len(others))
    return pa.concat_arrays([halves, mixed]).take(pa.array(index))


def _exact_mixes(
    array: pa.Array,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    shares: list[Fraction],
    result_type: pa.DataType,
) -> pa.Array:
    """Mix pairs of values one by one, in integers of any size."""
    low, high = (_numbers(array.take(pa.array(rows))) for rows in (lower, upper))
    if not is_temporal(result_type):
        mixed = [_mixed_float(*each) for each in zip(low, high, shares, strict=True)]
        return pa.array(mixed, result_type, from_pandas=True)
    units = [rounded_integer(*_mixed_ratio(*each)) for each in zip(low, high, shares, strict=True)]
    if pa.types.is_date64(result_type):
        units = [unit * DAY_MS for unit in units]
    width = pa.int32() if result_type.bit_width == 32 else pa.int64()
    return pa.array(units, width).view(result_type)


def _numbers(values: pa.Array) -> list[Any]:
    if is_temporal(values.type):
        units = integers(values)
        numbers: list[Any] = (
            units // DAY_MS if pa.types.is_date64(values.type) else units
        ).tolist()
    else:
        numbers = values.to_pylist()
    return numbers


def _mixed_float(low: Any, high: Any, share: Fraction) -> float:
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return float(low + high)  # NaN, which is missing, between infinities of both signs
    return rounded_quotient(*_mixed_ratio(low, high, share))


def _mixed_ratio(low: Any, high: Any, share: Fraction) -> tuple[int, int]:
    low_numerator, low_denominator = low.as_integer_ratio()
    high_numerator, high_denominator = high.as_integer_ratio()
    numerator = (share.denominator - share.numerator) * low_numerator * high_denominator
    numerator += share.numerator * high_numerator * low_denominator
    return numerator, share.denominator * low_denominator * high_denominator

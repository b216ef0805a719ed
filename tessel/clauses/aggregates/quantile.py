"""The aggregate ``quantile``: the value that a share of the values does not pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes, OrderedValues
from tessel.clauses.aggregates.holistic import GroupValues, HolisticAggregate
from tessel.clauses.aggregates.kernels.mixes import mixes, rounded_integer, rounded_quotient
from tessel.clauses.aggregates.kernels.sums import DAY_MS
from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.aggregates.median import mean_of_two, spread_out
from tessel.clauses.aggregates.registry import register
from tessel.clauses.plain import is_word
from tessel.clauses.values import (
    BoolArray,
    integers,
    is_hashable,
    is_temporal,
    normalised,
    of_integers,
    plain_type,
)
from tessel.errors import AggregateError, shown
from tessel.lazy import dataclass

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]

_HALF = Fraction(1, 2)


@register
@dataclass(frozen=True)
class Quantile(HolisticAggregate):
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
                f"the q of a quantile is {shown(self.q)}", hint="it is a number from 0 to 1"
            )
        if not is_word(self.interpolation, get_args(Interpolation)):
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

    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:  # noqa: D102
        counts = held.counts
        owners = np.flatnonzero(counts)
        places = self._places(counts[owners])
        above = places.numbers + places.told(lambda share: share > 0)
        # The two values of each group, side by side: as if its values started before them.
        wanted = np.stack([places.numbers, above], axis=1).ravel()
        pairs = held.at(np.repeat(owners, 2), wanted)
        starts = 2 * np.arange(len(owners)) - places.numbers
        found = self._between(pairs, starts, places, column)
        return spread_out(found, owners, groups)

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Look at the two values between which the quantile lies."""
        place, rest = self._place(values.count)
        pair = normalised(values.at([place, place + 1] if rest else [place]))
        places = _Places(np.array([place]), np.zeros(1, np.int64), [rest])
        return self._between(pair, np.array([-place]), places, column)

    def _between(
        self, ordered: pa.Array, starts: Codes, places: _Places, column: str | None
    ) -> pa.Array:
        """Return the results of groups whose values in order start somewhere in ``ordered``."""
        lower = starts + places.numbers
        upper = lower + places.told(lambda share: share > 0)
        if self.interpolation == "lower":
            return ordered.take(arrow_array(lower))
        if self.interpolation == "higher":
            return ordered.take(arrow_array(upper))
        if self.interpolation == "nearest":
            halfway = places.told(lambda share: share == _HALF) & (places.numbers % 2 == 1)
            above = halfway | places.told(lambda share: share > _HALF)
            return ordered.take(arrow_array(np.where(above, upper, lower)))
        low, high = (ordered.take(arrow_array(rows)) for rows in (lower, upper))
        halves = mean_of_two(low, high, column)  # also the answer where both values are one
        mixed = places.told(lambda share: share not in (0, _HALF))
        if self.interpolation == "midpoint" or not mixed.any():
            return halves
        others = np.flatnonzero(mixed)
        rows = arrow_array(others)
        found = _mixed(low.take(rows), high.take(rows), places.chosen(others), halves.type)
        return _replaced(halves, others, found)

    def _place(self, count: int) -> tuple[int, Fraction]:
        """Return the place at or below the quantile of so many values, and what is left of it."""
        return divmod(Fraction(repr(self.q)) * (count - 1), 1)

    def _places(self, counts: Codes) -> _Places:
        """Return the places of groups of so many values."""
        different = np.flatnonzero(np.bincount(counts))
        which = np.zeros(int(counts.max(initial=0)) + 1, np.int64)
        which[different] = np.arange(len(different))
        exact = [self._place(count) for count in different.tolist()]
        kinds = which[counts]
        numbers = np.array([place for place, _ in exact], np.int64)
        return _Places(numbers[kinds], kinds, [rest for _, rest in exact])


@dataclass(frozen=True)
class _Places:
    """Where quantiles lie among the values of their groups.

    Attributes
    ----------
    numbers
        The place at or below, int64, shape ``(groups,)``.
    kinds, shares
        How far past it: ``shares[kinds[group]]``; there are few that differ.
    """

    numbers: Codes
    kinds: Codes
    shares: list[Fraction]

    def told(self, question: Callable[[Fraction], bool]) -> BoolArray:
        """Return the answer for the share of each group."""
        answers = np.array([question(share) for share in self.shares], np.bool_)
        told: BoolArray = answers[self.kinds]
        return told

    def chosen(self, groups: Codes) -> _Places:
        """Return the places of some groups."""
        return _Places(self.numbers[groups], self.kinds[groups], self.shares)

    def integers(self) -> tuple[Codes, Codes] | None:
        """Return numerators and denominators of shares; None where they pass 63 bits."""
        if any(share.denominator >= 1 << 63 for share in self.shares):
            return None
        above = np.array([share.numerator for share in self.shares], np.int64)
        below = np.array([share.denominator for share in self.shares], np.int64)
        return above[self.kinds], below[self.kinds]


def _mixed(low: pa.Array, high: pa.Array, places: _Places, result_type: pa.DataType) -> pa.Array:
    """Mix two values a group: a share of the upper, the rest of the lower; rounded once."""
    shares = places.integers()
    found = None if shares is None else mixes(low, high, *shares)
    if found is None:
        exact = [places.shares[kind] for kind in places.kinds.tolist()]
        return _exact_mixes(low, high, exact, result_type)
    results, certain = found
    rest = np.flatnonzero(~certain)
    if not len(rest):
        return results
    rows = arrow_array(rest)
    exact = [places.shares[kind] for kind in places.kinds[rest].tolist()]
    mixed = _exact_mixes(low.take(rows), high.take(rows), exact, result_type)
    return _replaced(results, rest, mixed)


def _replaced(values: pa.Array, rows: Codes, others: pa.Array) -> pa.Array:
    """Return values with others in some rows."""
    index = np.arange(len(values))
    index[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(arrow_array(index))


def _exact_mixes(
    lower: pa.Array, upper: pa.Array, shares: list[Fraction], result_type: pa.DataType
) -> pa.Array:
    """Mix pairs of values one by one, in integers of any size."""
    low, high = _numbers(lower), _numbers(upper)
    if not is_temporal(result_type):
        mixed = [_mixed_float(*each) for each in zip(low, high, shares, strict=True)]
        return pa.array(mixed, result_type, from_pandas=True)
    units = [rounded_integer(*_mixed_ratio(*each)) for each in zip(low, high, shares, strict=True)]
    if pa.types.is_date64(result_type):
        units = [unit * DAY_MS for unit in units]
    return of_integers(np.array(units, np.int64), result_type)


def _numbers(values: pa.Array) -> list[Any]:
    if not is_temporal(values.type):
        return list(values.to_pylist())
    units = integers(values)
    return list((units // DAY_MS if pa.types.is_date64(values.type) else units).tolist())


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

"""What var, std and sem share: the exact sums of values and of their squares.

With ``n`` values, ``n * Σx² - (Σx)²`` over ``n * (n - ddof)`` is the variance. Both sums are exact,
so nothing cancels that should not, and the result is rounded once, at the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates.base import (
    Codes,
    MergeableAggregate,
    Values,
    counts_of,
    merged_counts,
    present,
)
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.products import (
    ExactNumbers,
    number_parts,
    rounded_integer_root,
    rounded_root,
    sums_of_numbers,
    sums_of_products,
)
from tessel.clauses.aggregates.kernels.sums import state_fields
from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.values import is_temporal, plain, plain_type
from tessel.errors import AggregateError, IntegerOverflowError

__all__ = ["RootOfSpread", "Spread", "Variance"]

_DAY_SECONDS = 86_400


class Variance(NamedTuple):
    """An exact variance, ``numerator / denominator * 2**exponent``, of ``values`` values."""

    numerator: int
    denominator: int
    exponent: int
    values: int


@dataclass(frozen=True)
class Spread(MergeableAggregate):
    """An aggregate that follows from count, sum and sum of squares.

    Attributes
    ----------
    ddof
        What is taken from the count before the squared deviations are divided by it: 1 for a
        sample, 0 for a whole population. Missing where no more than ``ddof`` values are there.
    """

    ddof: int = 1

    def __post_init__(self) -> None:
        if type(self.ddof) is not int or self.ddof < 0:
            raise AggregateError(
                f"ddof of {self.name} is {self.ddof!r}",
                hint="it is a whole number: 1 for a sample, 0 for a whole population",
                aggregate=self.name,
            )

    @abstractmethod
    def rounded(self, variance: Variance, *, whole: bool) -> float | int:
        """Make the result of a group; ``whole`` asks for whole units of a duration."""

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        fields = [
            state.with_name(f"{of}_{state.name}")
            for of in ("sum", "squares")
            for state in state_fields(pa.float64())
        ]
        return [*fields, pa.field("count", pa.int64())]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        parts = number_parts(array)
        sums = sums_of_numbers(parts, codes, groups)
        finite_codes = codes
        if sums.positive_infinity.any() or sums.negative_infinity.any():
            finite = np.isfinite(parts[0])
            parts, finite_codes = [part[finite] for part in parts], codes[finite]
        squares = sums_of_products(parts, parts, finite_codes, groups)
        counts = pa.array(counts_of(codes, groups))
        return [*sums.to_arrays(), *squares.to_arrays(), counts]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        *sums, counts = states
        half = len(sums) // 2
        return [
            *FloatSums.merged_arrays(sums[:half], codes, groups).to_arrays(),
            *FloatSums.merged_arrays(sums[half:], codes, groups).to_arrays(),
            pa.array(merged_counts(counts, codes, groups)),
        ]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        whole = pa.types.is_duration(result_type)
        found = [
            None if variance is None else self.rounded(variance, whole=whole)
            for variance in self._variances(states, plain_type(value_type))
        ]
        if not whole:
            return pa.array(found, result_type)
        what = "a column" if column is None else f"column {column!r}"
        for value in found:
            if value is not None and value >= 1 << 63:
                raise IntegerOverflowError(
                    f"{self.name} of {what} is {value} in one group, past {result_type}",
                    hint="cast the column to a coarser unit first",
                    aggregate=self.name,
                    column=column,
                    value=str(value),
                    type=str(result_type),
                )
        return pa.array(found, pa.int64()).view(result_type)

    def _variances(self, states: Sequence[Values], kind: pa.DataType) -> Iterator[Variance | None]:
        """Yield the variance of each group, None where it is missing."""
        sums, squares, count_state = _read(states)
        infinite = sums.positive_infinity | sums.negative_infinity
        above, below = _scale(kind)
        counts = plain(count_state).to_pylist()
        totals, total_squares = ExactNumbers.of(sums), ExactNumbers.of(squares)
        for count, missing, total, exponent, square, square_exponent in zip(
            counts,
            infinite.tolist(),
            totals.integers,
            totals.exponents,
            total_squares.integers,
            total_squares.exponents,
            strict=True,
        ):
            if missing or count <= self.ddof:
                yield None
                continue
            # Sums of products are kept 2**1074 times as large as they are.
            square_exponent += -1074
            lowest = min(2 * exponent, square_exponent)
            numerator = count * square << (square_exponent - lowest)
            numerator -= total * total << (2 * exponent - lowest)
            denominator = count * (count - self.ddof) * below
            yield Variance(numerator * above, denominator, lowest, count)


class RootOfSpread(Spread):
    """A root of the variance: of the unit of the values, so that temporal types have one, too."""

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        found = mean_type(value_type)
        if found is None:
            raise self.refuse(
                column, value_type, f"{self.name} takes numbers, dates, times and durations"
            )
        if not is_temporal(found):
            return found
        return pa.duration("s" if pa.types.is_date(found) else found.unit)

    def rounded(self, variance: Variance, *, whole: bool) -> float | int:  # noqa: D102
        numerator, denominator, exponent, values = variance
        denominator *= self.divisor(values)
        root = rounded_integer_root if whole else rounded_root
        return root(numerator, denominator, exponent)

    def divisor(self, values: int) -> int:
        """Return what the variance of ``values`` values is divided by before the root is taken."""
        return 1


def _read(states: Sequence[Values]) -> tuple[FloatSums, FloatSums, Values]:
    *sums, counts = states
    half = len(sums) // 2
    arrays = [plain(state) for state in sums]
    return FloatSums.from_arrays(arrays[:half]), FloatSums.from_arrays(arrays[half:]), counts


def _scale(kind: pa.DataType) -> tuple[int, int]:
    """Return what squares of the integers behind a type are multiplied and divided by."""
    if pa.types.is_decimal(kind):
        return 100 ** max(0, -kind.scale), 100 ** max(0, kind.scale)
    return (_DAY_SECONDS**2, 1) if pa.types.is_date(kind) else (1, 1)

"""What var, std and sem share: the exact sums of values and of their squares.

With ``n`` values, ``n * Σx² - (Σx)²`` over ``n * (n - ddof)`` is the variance. Both sums are exact,
so nothing cancels that should not, and the result is rounded once, at the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.products import (
    ExactNumbers,
    number_parts,
    rounded_integer_root,
    rounded_root,
    sums_of_numbers,
    sums_of_products,
)
from tessel.clauses.aggregates.kernels.spreads import rounded_spreads
from tessel.clauses.aggregates.kernels.sums import state_fields
from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.aggregates.present_rows import counts_of, merged_counts, present
from tessel.clauses.values import BoolArray, is_temporal, plain, plain_type
from tessel.errors import AggregateError, IntegerOverflowError

__all__ = ["RootOfSpread", "Spread", "Variance"]

_DAY_SECONDS = 86_400
# The largest power of ten that is exact as a double, but one.
_STEP = 10**15

Counts = TypeVar("Counts", int, NDArray[np.int64])


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

    stored_facts: ClassVar[tuple[str, ...]] = ("numbers", "products")

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
        counts = arrow_array(counts_of(codes, groups))
        return [*sums.to_arrays(), *squares.to_arrays(), counts]

    def partial_of_facts(  # noqa: D102
        self, counts: NDArray[np.int64], facts: Mapping[str, Any]
    ) -> list[pa.Array]:
        sums, squares = facts["numbers"].to_arrays(), facts["products"].to_arrays()
        return [*sums, *squares, arrow_array(counts)]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        *sums, counts = states
        half = len(sums) // 2
        return [
            *FloatSums.merged_arrays(sums[:half], codes, groups).to_arrays(),
            *FloatSums.merged_arrays(sums[half:], codes, groups).to_arrays(),
            arrow_array(merged_counts(counts, codes, groups)),
        ]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        whole = pa.types.is_duration(result_type)
        found, missing = self._results(states, plain_type(value_type), whole=whole)
        if not whole:
            return arrow_array(found, result_type, mask=missing)
        what = "a column" if column is None else f"column {column!r}"
        for value in found[~missing]:
            if value >= 1 << 63:
                raise IntegerOverflowError(
                    f"{self.name} of {what} is {value} in one group, past {result_type}",
                    hint="cast the column to a coarser unit first",
                    aggregate=self.name,
                    column=column,
                    value=str(value),
                    type=str(result_type),
                )
        units = np.where(missing, 0, found).astype(np.int64)
        return arrow_array(units, mask=missing).view(result_type)

    @property
    def takes_root(self) -> bool:
        """Whether the result is a root of the variance."""
        return False

    def divisor(self, values: Counts) -> Counts:
        """Return what the variance of so many values is divided by before the root is taken."""
        return values * 0 + 1

    def _results(
        self, states: Sequence[Values], kind: pa.DataType, *, whole: bool
    ) -> tuple[NDArray[Any], BoolArray]:
        """Return the results, as objects where they are whole, and which are missing."""
        sums, squares, count_state = _read(states)
        counts = numpy_array(plain(count_state))
        missing = sums.positive_infinity | sums.negative_infinity | (counts <= self.ddof)
        above, below = _scale(kind)
        # Of groups that are missing anything may come out.
        few = np.where(missing, self.ddof + 1, counts)
        divisors = [few, few - self.ddof, *(np.full(len(few), step) for step in _steps(below))]
        if self.takes_root:
            divisors.append(self.divisor(few))
        quick = rounded_spreads(
            sums,
            squares,
            few,
            factor=above,
            divisors=divisors,
            root=self.takes_root,
            whole=whole,
        )
        found: NDArray[Any] = quick.values
        if whole:
            found = np.where(quick.certain, found, 0.0).astype(np.int64).astype(object)
        rest = np.flatnonzero(~missing & ~quick.certain)
        exact = _variances(sums.chosen(rest), squares.chosen(rest), counts[rest], self.ddof, kind)
        for group, variance in zip(rest.tolist(), exact, strict=True):
            found[group] = self.rounded(variance, whole=whole)
        return found, missing


def _steps(divisor: int) -> Iterator[int]:
    """Give factors of a power of ten that doubles hold."""
    while divisor > 1:
        step = min(divisor, _STEP)
        yield step
        divisor //= step


def _variances(
    sums: FloatSums, squares: FloatSums, counts: NDArray[np.int64], ddof: int, kind: pa.DataType
) -> Iterator[Variance]:
    """Yield the variance of each group, exactly."""
    above, below = _scale(kind)
    totals, total_squares = ExactNumbers.of(sums), ExactNumbers.of(squares)
    for count, total, exponent, square, square_exponent in zip(
        counts.tolist(),
        totals.integers,
        totals.exponents,
        total_squares.integers,
        total_squares.exponents,
        strict=True,
    ):
        # Sums of products are kept 2**1074 times as large as they are.
        square_exponent += -1074
        lowest = min(2 * exponent, square_exponent)
        numerator = count * square << (square_exponent - lowest)
        numerator -= total * total << (2 * exponent - lowest)
        denominator = count * (count - ddof) * below
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

    @property
    def takes_root(self) -> bool:  # noqa: D102
        return True


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

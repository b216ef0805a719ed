"""The aggregates ``var``, ``std`` and ``sem``: of exact sums of values and of their squares.

With ``n`` values, ``n * Σx² - (Σx)²`` over ``n * (n - ddof)`` is the variance. Both sums are exact,
so nothing cancels that should not, and the result is rounded once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.kernels.mixes import rounded_integer_root
from tessel.clauses.aggregates.mean import mean_type, type_of_mean
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_temporal, plain_type
from tessel.errors import AggregateError, IntegerOverflowError
from tessel.kernels.exact_results import decimal_steps
from tessel.kernels.exact_spreads import exact_spreads
from tessel.kernels.exact_sums import ExactSums
from tessel.lazy import dataclass

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Spread(FromReductions):
    """An aggregate that follows from count, sum and sum of squares.

    Class attributes
    ----------------
    takes_root
        Whether the result is a root of the variance.
    of_mean
        Whether the variance is divided by the number of values once more: that of their mean.

    Attributes
    ----------
    ddof
        What is taken from the count before the squared deviations are divided by it: 1 for a
        sample, 0 for a whole population. Missing where no more than ``ddof`` values are there.
    """

    reductions: ClassVar[tuple[str, ...]] = ("sum", "products", "count")
    takes_root: ClassVar[bool] = False
    of_mean: ClassVar[bool] = False

    ddof: int = 1

    def __post_init__(self) -> None:
        if type(self.ddof) is not int or self.ddof < 0:
            raise AggregateError(
                f"ddof of {self.name} is {self.ddof!r}",
                hint="it is a whole number: 1 for a sample, 0 for a whole population",
                aggregate=self.name,
            )

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type = self.result_type(value_type, column)
        whole = pa.types.is_duration(result_type)
        sums, squares, counts = (reduced[which] for which in self.reductions)
        above, below = _scale(plain_type(value_type))
        found, fits = exact_spreads(
            sums,
            squares,
            counts,
            ddof=self.ddof,
            of_mean=self.of_mean,
            root=self.takes_root,
            whole=whole,
            factors=above,
            divisors=below,
        )
        missing = (sums.infinities != 0) | (counts <= self.ddof)
        past = np.flatnonzero(~fits & ~missing)
        if len(past):
            self._refuse_root(sums, squares, counts, int(past[0]), above, result_type, column)
        return arrow_array(found, mask=missing).view(result_type)

    def _refuse_root(
        self,
        sums: ExactSums,
        squares: ExactSums,
        counts: NDArray[np.int64],
        group: int,
        factors: NDArray[np.int64],
        result_type: pa.DataType,
        column: str | None,
    ) -> NoReturn:
        """Raise the error for a duration that does not fit its type."""
        count = int(counts[group])
        numerator = count * squares.number(group) - sums.number(group) ** 2
        denominator = count * (count - self.ddof) * (count if self.of_mean else 1)
        value = rounded_integer_root(numerator * math.prod(factors.tolist()), denominator)
        raise IntegerOverflowError.of_group(
            self.name, column, value, result_type, hint="cast the column to a coarser unit first"
        )


class RootOfSpread(Spread):
    """A root of the variance: of the unit of the values, so that temporal types have one, too."""

    takes_root: ClassVar[bool] = True

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        found = type_of_mean(self, value_type, column)
        if not is_temporal(found):
            return found
        return pa.duration("s" if pa.types.is_date(found) else found.unit)


@register
class Var(Spread):
    """The variance of the values that are not missing, with ``ddof`` (1: of a sample).

    Numbers, bools and decimals: the exact variance rounded once to float64. Missing where no more
    than ``ddof`` values are there, or one is infinite. Temporal types are refused: their squares
    have no type.
    """

    name: ClassVar[str] = "var"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        found = mean_type(value_type)
        if found is None or is_temporal(found):
            hint = "var takes numbers" if found is None else "take std, which is a duration"
            raise self.refuse(column, value_type, hint)
        return found


@register
class Std(RootOfSpread):
    """The standard deviation of the values that are not missing, with ``ddof`` (1: of a sample).

    Numbers, bools and decimals: the root of the exact variance, rounded once to float64. Of
    timestamps, times and durations it is a duration of their unit, of dates one of seconds, exact
    to the unit, half to even. Missing where no more than ``ddof`` values are there, or one is
    infinite.
    """

    name: ClassVar[str] = "std"


@register
class Sem(RootOfSpread):
    """The standard error of the mean: the root of the exact variance over the count of values.

    Types, ``ddof`` and what is missing are those of ``std``; rounded once as well.
    """

    name: ClassVar[str] = "sem"
    of_mean: ClassVar[bool] = True


def _scale(kind: pa.DataType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what squares of the integers behind a type are multiplied with and divided by."""
    scale = 2 * kind.scale if pa.types.is_decimal(kind) else 0
    above = [_DAY_SECONDS] * 2 if pa.types.is_date(kind) else decimal_steps(max(0, -scale))
    return np.array(above, np.int64), decimal_steps(max(0, scale))

"""The aggregate ``sum``: exact, and rounded once where the result is a float."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_temporal, plain_type
from tessel.errors import IntegerOverflowError
from tessel.kernels.exact_sums import ExactSums

_DECIMAL_DIGITS = 38
# The high word of 10**38: a decimal below it in size fits, one above it does not.
_DECIMAL_HIGH_WORD = 10**_DECIMAL_DIGITS >> 64


@register
class Sum(FromReductions):
    """The sum of the values that are not missing; 0 of none.

    Integers, bools and durations add up exactly and raise when the final sum leaves its type;
    partial sums may. Floats give the correctly rounded exact sum, +0.0 for zero, ±inf past the
    range, missing where infinities of both signs met. Decimals keep their scale and raise past 38
    digits.
    """

    name: ClassVar[str] = "sum"
    reductions: ClassVar[tuple[str, ...]] = ("sum",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        kind = plain_type(value_type)
        if pa.types.is_floating(kind):
            return pa.float64()
        if pa.types.is_unsigned_integer(kind):
            return pa.uint64()
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            return pa.int64()
        if pa.types.is_decimal128(kind):
            return pa.decimal128(_DECIMAL_DIGITS, kind.scale)
        if pa.types.is_duration(kind):
            return kind
        hint = "take min, max or mean of it" if is_temporal(kind) else "sum takes numbers"
        raise self.refuse(column, value_type, hint)

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        result_type, sums = self.result_type(value_type, column), reduced["sum"]
        if pa.types.is_floating(result_type):
            rounded = sums.rounded()
            return arrow_array(rounded, result_type, mask=np.isnan(rounded))
        if pa.types.is_decimal(result_type):
            return self._decimals(sums, result_type, column)
        unsigned = pa.types.is_unsigned_integer(result_type)
        numbers, overflow = sums.integers(signed=not unsigned)
        if overflow.any():
            raise self._overflow(sums, int(np.argmax(overflow)), result_type, column)
        return arrow_array(numbers).view(result_type)

    def _decimals(self, sums: ExactSums, result_type: pa.DataType, column: str | None) -> pa.Array:
        words, fits = sums.words(2)
        high = words[:, 1]
        suspect = ~fits | (high >= _DECIMAL_HIGH_WORD) | (high < -_DECIMAL_HIGH_WORD)
        for group in np.flatnonzero(suspect).tolist():
            if abs(sums.number(group)) >= 10**_DECIMAL_DIGITS:
                raise self._overflow(sums, group, result_type, column)
        buffer = pa.py_buffer(words)
        return pa.Array.from_buffers(result_type, sums.groups, [None, buffer])

    def _overflow(
        self, sums: ExactSums, group: int, result_type: pa.DataType, column: str | None = None
    ) -> IntegerOverflowError:
        return IntegerOverflowError.of_group(
            self.name,
            column,
            sums.number(group),
            result_type,
            hint="cast the column to float64 (rounded) or a wider decimal before it is summed",
        )

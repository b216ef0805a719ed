"""Values of any type that has an order as plain numbers of the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.values import (
    BoolArray,
    integers,
    is_temporal,
    missing_rows,
    of_integers,
    ranks,
    raw_values,
)
from tessel.lazy import dataclass

_SIGN = np.int64(-(1 << 63))


@dataclass(frozen=True)
class OrderedNumbers:
    """Numbers that compare as the values do, and the way back.

    Attributes
    ----------
    numbers
        Integers or floats, shape ``(rows,)``; of missing values anything but NaN.
    ordered
        The distinct values, ascending, where numbers are positions in them; None where numbers are
        the values themselves, or the integers behind them.
    """

    numbers: NDArray[Any]
    kind: pa.DataType
    ordered: pa.Array | None = None

    @classmethod
    def of_values(cls, values: pa.Array) -> OrderedNumbers:
        """Take plain values, of a type that :func:`~tessel.clauses.values.is_hashable` takes."""
        kind = values.type
        if pa.types.is_floating(kind):
            # Adding zero makes one of both zeros.
            numbers = raw_values(values, kind.to_pandas_dtype()) + kind.to_pandas_dtype()(0)
            absent = missing_rows(values)
            return cls(numbers if absent is None else np.where(absent, 0, numbers), kind)
        types = pa.types
        if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
            return cls(integers(values), kind)
        if is_temporal(kind):
            return cls(integers(values), kind)
        present = numpy_array(values.is_valid())
        places, ordered = ranks(values.drop_null())
        numbers = np.zeros(len(values), np.int64)
        numbers[present] = places
        return cls(numbers, kind, ordered)

    @property
    def in_64_bits(self) -> NDArray[Any]:
        """The numbers as int64 or float64, in the same order."""
        numbers = self.numbers
        if numbers.dtype.kind == "f":
            return numbers.astype(np.float64, copy=False)
        if numbers.dtype == np.uint64:
            return numbers.view(np.int64) ^ _SIGN
        return numbers.astype(np.int64, copy=False)

    def of_64_bits(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return what some of the numbers of :attr:`in_64_bits` are here."""
        if self.numbers.dtype == np.uint64:
            return (numbers ^ _SIGN).view(np.uint64)
        return numbers.astype(self.numbers.dtype, copy=False)

    def values(self, numbers: NDArray[Any], missing: BoolArray | None) -> pa.Array:
        """Return the values of some of the numbers, null where ``missing``; None for nowhere."""
        if pa.types.is_null(self.kind):
            return pa.nulls(len(numbers))
        if self.ordered is not None:
            places = numbers if missing is None else np.where(missing, 0, numbers)
            return self.ordered.take(arrow_array(places, mask=missing))
        if pa.types.is_floating(self.kind):
            return arrow_array(numbers, mask=missing).cast(self.kind)
        return of_integers(numbers, self.kind, missing)

"""The values of each group in order: what median and quantiles stand on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.kernels.rows_by_code import rows_by_code
from tessel.kernels.sort_runs import sort_runs

__all__ = ["ordered_values"]

Codes = NDArray[np.int64]

_SIGN = -1 << 63


def ordered_values(values: pa.Array, codes: Codes, groups: int) -> pa.Array:
    """Return the values ordered by group, then by value; a zero may change its sign.

    Parameters
    ----------
    values
        Plain, of a type that has an order, nothing missing, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.
    """
    held = OrderedNumbers.of_values(values)
    rows, starts = rows_by_code(codes, groups)
    numbers = _as_integers(held.numbers)[rows]
    sort_runs(numbers, starts)
    found = _from_integers(numbers, held.numbers.dtype)
    return held.values(found, np.zeros(len(found), np.bool_))


def _as_integers(numbers: NDArray[Any]) -> Codes:
    """Return integers that compare as numbers do."""
    if numbers.dtype.kind == "f":
        bits = numbers.astype(np.float64, copy=False).view(np.int64)
        # Of negative numbers the larger have the smaller bits.
        return bits ^ ((bits >> 63) & ~_SIGN)
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64) ^ _SIGN
    return numbers.astype(np.int64, copy=False)


def _from_integers(found: Codes, dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        bits = found ^ ((found >> 63) & ~_SIGN)
        return bits.view(np.float64).astype(dtype, copy=False)
    if dtype == np.uint64:
        return (found ^ _SIGN).view(np.uint64)
    return found.astype(dtype, copy=False)

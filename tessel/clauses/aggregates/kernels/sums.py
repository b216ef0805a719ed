"""Which exact sum a column type takes, and how its state is laid out as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import (
    DECIMAL_WIDTH,
    INTEGER_WIDTH,
    IntegerSums,
)
from tessel.clauses.values import decimal_words, integers, plain, plain_type, raw_values

__all__ = ["DAY_MS", "Sums", "merged_sums", "state_fields", "sums_from", "sums_of"]

# date64 counts milliseconds, but only whole days are dates: its days are summed.
DAY_MS = 86_400_000

Sums = FloatSums | IntegerSums


def state_fields(value_type: pa.DataType) -> list[pa.Field]:
    """Return names and types of the state columns of an exact sum of such values."""
    kind = plain_type(value_type)
    if pa.types.is_floating(kind):
        return [
            pa.field("first_limb", pa.int32()),
            pa.field("limbs", pa.list_(pa.uint32())),
            pa.field("negative", pa.bool_()),
            pa.field("positive_infinity", pa.bool_()),
            pa.field("negative_infinity", pa.bool_()),
        ]
    words, top = divmod(DECIMAL_WIDTH if pa.types.is_decimal(kind) else INTEGER_WIDTH, 2)
    fields = [pa.field(f"word_{place}", pa.int64()) for place in range(words)]
    return [*fields, pa.field("top", pa.int32())] if top else fields


def sums_of(values: pa.Array, codes: NDArray[np.int64], groups: int) -> Sums:
    """Sum plain values without missing ones by group.

    Parameters
    ----------
    values
        Plain array of numbers, bool, null or a temporal type, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        doubles = raw_values(values, kind.to_pandas_dtype()).astype(np.float64, copy=False)
        return FloatSums.of_values(doubles, codes, groups)
    if pa.types.is_decimal(kind):
        return IntegerSums.of_decimals(decimal_words(values), codes, groups)
    numbers = integers(values)
    if pa.types.is_date64(kind):
        numbers = numbers // DAY_MS
    return IntegerSums.of_integers(numbers, codes, groups)


def sums_from(states: Sequence[Any], value_type: pa.DataType) -> Sums:
    """Rebuild sums from the state columns of :func:`state_fields`."""
    arrays = [plain(state) for state in states]
    if pa.types.is_floating(plain_type(value_type)):
        return FloatSums.from_arrays(arrays)
    return IntegerSums.from_arrays(arrays)


def merged_sums(
    states: Sequence[Any], value_type: pa.DataType, codes: NDArray[np.int64], groups: int
) -> Sums:
    """Add the state columns of :func:`state_fields` into final groups.

    Parameters
    ----------
    states
        Arrays or chunked arrays, cut alike, ``rows`` long.
    value_type
        Type of what was summed.
    codes
        int64, shape ``(rows,)``: the final group of each row.
    groups
        How many final groups there are.
    """
    if pa.types.is_floating(plain_type(value_type)):
        return FloatSums.merged_arrays(states, codes, groups)
    return IntegerSums.merged(states, codes, groups)

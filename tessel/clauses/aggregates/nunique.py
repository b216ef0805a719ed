"""The aggregate ``nunique``: how many different values there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from tessel.clauses.values import is_hashable, normalised, raw_values

__all__ = ["NUnique"]

# A table of all pairs is used up to this many cells a row, or this many in all.
_CELLS_A_ROW = 4
_CELLS = 1 << 20


@register
@dataclass(frozen=True)
class NUnique(Aggregate):
    """How many different values that are not missing there are, int64; 0 of none.

    −0.0 and 0.0 are one value. Takes every type that can be a key.
    """

    name: ClassVar[str] = "nunique"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        if not is_hashable(value_type):
            raise self.refuse(column, value_type, "nunique takes columns of single values")
        return pa.int64()

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        array, codes, _ = present(normalised(values), codes)
        if not len(array):
            return pa.array(np.zeros(groups, np.int64))
        encoded = array.dictionary_encode()
        numbers = raw_values(encoded.indices, np.int32)
        # Both factors are below 2**31.
        pairs = codes * len(encoded.dictionary) + numbers
        return pa.array(_distinct_pairs(pairs, groups, len(encoded.dictionary)))

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Count the different values of each chunk; the last one may go on in the next."""
        found = 0
        before: pa.Array | None = None
        for chunk in values.chunks():
            array = normalised(chunk)
            found += len(array.unique())
            if before is not None and before.equals(array.slice(0, 1)):
                found -= 1
            before = array.slice(len(array) - 1)
        return pa.array([found], pa.int64())


def _distinct_pairs(pairs: NDArray[np.int64], groups: int, distinct: int) -> NDArray[np.int64]:
    """Count the different numbers in each run of ``distinct`` numbers."""
    cells = groups * distinct
    if cells <= max(_CELLS, _CELLS_A_ROW * len(pairs)):
        seen = np.zeros(cells, np.bool_)
        seen[pairs] = True
        counted: NDArray[np.int64] = seen.reshape(groups, distinct).sum(axis=1, dtype=np.int64)
        return counted
    different = pa.array(pairs).unique().to_numpy()
    return counts_of(different // distinct, groups)

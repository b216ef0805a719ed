"""Which rows of each group hold its values in order: what median and quantiles stand on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.values import integers, is_temporal, ranks, raw_values

__all__ = ["ordered_rows"]

Codes = NDArray[np.int64]


def ordered_rows(values: pa.Array, codes: Codes, groups: int) -> Codes:
    """Return the rows ordered by group, then by value.

    Parameters
    ----------
    values
        Plain, of a type that has an order, nothing missing, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``. Rows of equal values are in any order.
    """
    by_value = np.argsort(_sortable(values))
    owners = codes[by_value]
    if groups <= 1 << 16:
        # Sixteen bits are sorted by radix, in one pass.
        owners = owners.astype(np.uint16)
    return by_value[np.argsort(owners, kind="stable")]


def _sortable(array: pa.Array) -> NDArray[Any]:
    kind = array.type
    if pa.types.is_floating(kind):
        return raw_values(array, kind.to_pandas_dtype())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or is_temporal(kind):
        return integers(array)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    return ranks(array)[0]

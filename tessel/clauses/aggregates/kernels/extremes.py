"""The least and the greatest value of every group, for every type that has an order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.values import integers, is_temporal, ranks, raw_values

__all__ = ["greatest", "least"]


def least(values: pa.Array, codes: NDArray[np.int64], groups: int) -> pa.Array:
    """Return the least value of every group.

    Parameters
    ----------
    values
        Plain, nothing missing, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.

    Returns
    -------
    pyarrow.Array
        ``groups`` long, of the type of ``values``; null for a group without rows. A zero is +0.0;
        text is ordered by code point, binary by byte.
    """
    return _extreme(values, codes, groups, np.minimum)


def greatest(values: pa.Array, codes: NDArray[np.int64], groups: int) -> pa.Array:
    """Return the greatest value of every group; see :func:`least`."""
    return _extreme(values, codes, groups, np.maximum)


def _extreme(values: pa.Array, codes: NDArray[np.int64], groups: int, better: np.ufunc) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(groups)
    empty = np.ones(groups, np.bool_)
    empty[codes] = False
    if pa.types.is_floating(kind):
        raw = raw_values(values, kind.to_pandas_dtype())
        start = np.inf if better is np.minimum else -np.inf
        best = np.full(groups, start, raw.dtype)
        better.at(best, codes, raw)
        # −0.0 and 0.0 are equal, and which of them came first must not show.
        return arrow_array(best + raw.dtype.type(0), kind, mask=empty)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or is_temporal(kind):
        best = _extreme_integer(integers(values), codes, groups, better)
        found = arrow_array(best, mask=empty)
        return found.cast(kind) if pa.types.is_boolean(kind) else found.view(kind)
    places, ordered = ranks(values)
    best = _extreme_integer(places, codes, groups, better)
    return ordered.take(arrow_array(best, mask=empty))


def _extreme_integer(
    numbers: NDArray[np.integer], codes: NDArray[np.int64], groups: int, better: np.ufunc
) -> NDArray[np.integer]:
    limits = np.iinfo(numbers.dtype)
    start = limits.max if better is np.minimum else limits.min
    best = np.full(groups, start, numbers.dtype)
    better.at(best, codes, numbers)
    return best

"""The stable order of many numbers: of integers, and of floats as the integers in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.order_words import order_of_integers

Rows = NDArray[np.int64]

_FEW_ROWS = 1024
"""Fewer rows are ordered in less time than a kernel takes to be called."""

_SIGN = np.int64(-1 << 63)


def stable_order(values: NDArray[Any]) -> Rows:
    """Return the rows in the order of their values, equal ones as they come.

    Parameters
    ----------
    values
        Bool, integers or floats without NaN, shape ``(rows,)``.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    if len(values) < _FEW_ROWS:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)
    if values.dtype.kind == "f":
        # Adding zero makes one of both zeros. The bits of positive floats are in their order as
        # integers, those of negative ones, but for the sign, in the opposite one.
        found: Rows = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)
        turned = found >> 63
        turned &= ~_SIGN
        found ^= turned
    elif values.dtype == np.uint64:
        found = values.view(np.int64) ^ _SIGN
    else:
        found = values.astype(np.int64, copy=False)
    return order_of_integers(found)

"""The entries of a dictionary as numbers that codes are places of.

Columns of a program (:mod:`tessel.expression.block_columns`) enter here where a column is kept as
codes and its numbers are wanted, or the order of its texts: both are looked up by code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.expression.stored_ranges import GREATEST

__all__ = ["entry_numbers", "entry_ranks", "known_entries"]


def known_entries(entries: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which entries are values, neither null nor NaN; None where all are."""
    if not entries.null_count and not pa.types.is_floating(entries.type):
        return None
    known = numpy_array(entries.is_valid())
    if pa.types.is_floating(entries.type):
        known = known & ~np.isnan(numpy_array(entries))
    return None if known.all() else known


def entry_numbers(entries: pa.Array) -> tuple[npt.NDArray[Any], Any, Any] | None:
    """Return entries as numbers, with the least and the greatest of those that are values.

    Returns
    -------
    tuple or None
        float64 of floats, int64 of integers and of what counts a unit; 0 in the place of what is no
        value. None for other types, for integers past 63 bits, and where there is no entry.
    """
    kind = entries.type
    if not len(entries):
        return None
    known = known_entries(entries)
    if pa.types.is_floating(kind):
        numbers = numpy_array(entries).astype(np.float64)
    elif pa.types.is_integer(kind):
        held = numpy_array(fill_null(entries, 0))
        if held.dtype == np.uint64 and int(held.max()) > GREATEST:
            return None
        numbers = held.astype(np.int64)
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        numbers = numpy_array(fill_null(entries.view(width), 0)).astype(np.int64)
    else:
        return None
    if known is not None:
        numbers = np.where(known, numbers, numbers.dtype.type(0))
    values = numbers if known is None else numbers[known]
    if not len(values):
        return numbers, numbers.dtype.type(0).item(), numbers.dtype.type(0).item()
    low, high = values.min().item(), values.max().item()
    return numbers, low, high


def entry_ranks(entries: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
    """Return the place of each entry in their order, and the entries in order.

    None for types that have no order here, and where there is no entry.
    """
    types = pa.types
    kind = entries.type
    if not len(entries) or not (types.is_string(kind) or types.is_binary(kind)):
        return None
    order = numpy_array(pc.sort_indices(entries)).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks, entries.take(arrow_array(order))

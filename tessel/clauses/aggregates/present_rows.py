"""The rows of a column that have a value, and how many of them each group has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.base import Codes
from tessel.clauses.values import BoolArray, missing_rows, plain
from tessel.kernels.exact_sums import add_by_group

__all__ = [
    "counts_of",
    "merged_counts",
    "present",
    "present_together",
    "whole_structs",
]

Values = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs


def present(values: Values, codes: Codes) -> tuple[pa.Array, Codes, BoolArray | None]:
    """Return plain values and codes without the missing rows, and which rows were kept.

    Returns
    -------
    values : pyarrow.Array
        Plain, without nulls and NaN.
    codes : numpy.ndarray
        Of those rows.
    kept : numpy.ndarray or None
        Bool, shape ``(rows,)``; None when all were kept.
    """
    array = plain(values)
    missing = missing_rows(array)
    if missing is None:
        return array, codes, None
    kept = ~missing
    return array.filter(arrow_array(kept)), codes[kept], kept


def whole_structs(values: Values) -> pa.StructArray:
    """Return structs that are null where one of their fields is missing: no value of the row."""
    columns = [plain(column) for column in values.flatten()]
    missing = [rows for rows in map(missing_rows, columns) if rows is not None]
    mask = arrow_array(np.logical_or.reduce(missing)) if missing else None
    names = [field.name for field in values.type]
    return pa.StructArray.from_arrays(columns, names, mask=mask)


def present_together(values: Values, codes: Codes) -> tuple[list[pa.Array], Codes]:
    """Take structs apart and return the rows in which no field is missing.

    Returns
    -------
    columns : list of pyarrow.Array
        One plain array a field, without nulls and NaN.
    codes : numpy.ndarray
        Of those rows.
    """
    columns = [plain(column) for column in values.flatten()]
    missing = [rows for rows in map(missing_rows, columns) if rows is not None]
    if not missing:
        return columns, codes
    kept = ~np.logical_or.reduce(missing)
    mask = arrow_array(kept)
    return [column.filter(mask) for column in columns], codes[kept]


def counts_of(codes: Codes, groups: int) -> NDArray[np.int64]:
    """Return how many rows each group has: int64, shape ``(groups,)``."""
    return np.bincount(codes, minlength=groups).astype(np.int64, copy=False)


def merged_counts(counts: Values, codes: Codes, groups: int) -> NDArray[np.int64]:
    """Add a column of counts into final groups."""
    sums = np.zeros(groups, np.int64)
    add_by_group(sums, codes, numpy_array(plain(counts)))
    return sums

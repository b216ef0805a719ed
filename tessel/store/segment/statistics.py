"""What a manifest remembers of one column of one segment, and how it is computed.

Minimum and maximum ignore nulls and NaN; a column of nothing else has no bounds. Text and binary
bounds hold at most 64 bytes: a cut minimum is a prefix, hence not greater than any value; a cut
maximum is a prefix with its last character raised, hence not less. A cut bound is never exact, and
where nothing can be raised there is no maximum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_scalar
from tessel.lazy import dataclass

BOUND_BYTES = 64
"""The longest text or binary bound, in bytes of UTF-8."""

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The facts of one column of one segment.

    Attributes
    ----------
    minimum, maximum
        Bounds of the values that are not missing, as scalars of :func:`bounds_type`; None where
        there is no such value, no order, or no bound short enough.
    minimum_exact, maximum_exact
        Whether the bound is itself a value of the column.
    nulls, nans
        How many values are null, and how many are a float NaN.
    """

    minimum: pa.Scalar | None
    maximum: pa.Scalar | None
    minimum_exact: bool
    maximum_exact: bool
    nulls: int
    nans: int


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """Statistics of one column, one value per row slice or page.

    Attributes
    ----------
    minimum, maximum
        Bounds, null where unknown or where everything is missing; of null type for columns
        without an order. pa.Array.
    minimum_exact, maximum_exact
        Whether the bound is a value of the column.
    missing
        How many values are null or NaN; -1 where nothing is known. int64.
    numbers
        Bounds are Arrow arrays alone.
    """

    minimum: pa.Array
    maximum: pa.Array
    minimum_exact: npt.NDArray[np.bool_]
    maximum_exact: npt.NDArray[np.bool_]
    missing: npt.NDArray[np.int64]
    numbers: None = None


def bounds_type(type_: pa.DataType) -> pa.DataType | None:
    """Return the type of a column's bounds: its own, or its dictionary's.

    None where there is no order, and for bytes of a fixed length past ``BOUND_BYTES``: no bound of
    their type would be short enough.
    """
    if pat.is_dictionary(type_):
        return bounds_type(type_.value_type)
    if pat.is_nested(type_) or pat.is_null(type_):
        return None
    if pat.is_fixed_size_binary(type_) and type_.byte_width > BOUND_BYTES:
        return None
    return type_


def summarise(column: pa.ChunkedArray, distinct: pa.Array | None = None) -> ColumnStatistics:
    """Compute the statistics of a column.

    Parameters
    ----------
    distinct
        The values that are in it, if they are known, without nulls: fewer to look at.
    """
    kind = bounds_type(column.type)
    nulls = int(column.null_count)
    if kind is None:
        return ColumnStatistics(None, None, False, False, nulls, 0)
    nans = 0
    if pat.is_floating(kind) and not pat.is_dictionary(column.type):
        nans = int(pc.sum(pc.is_nan(column), min_count=0).as_py())
    elif pat.is_floating(kind):
        nans = int(pc.sum(pc.is_nan(column.cast(kind)), min_count=0).as_py())
    if nulls + nans == len(column):
        return ColumnStatistics(None, None, False, False, nulls, nans)
    low, high = _bounds(column if distinct is None else pa.chunked_array([distinct]), kind)
    minimum, minimum_exact = _cut_below(low, kind)
    maximum, maximum_exact = _cut_above(high, kind)
    return ColumnStatistics(minimum, maximum, minimum_exact, maximum_exact, nulls, nans)


def known_statistics(
    type_: pa.DataType, rows: int, nulls: int, nans: int, low: Any, high: Any
) -> ColumnStatistics | None:
    """Return what :func:`summarise` does of numbers whose bounds are known; None where in doubt.

    Parameters
    ----------
    low, high
        As Python numbers, in the unit of the type; None where all values are missing. Of zeros it
        is not known which sign they have.
    """
    kind = bounds_type(type_)
    if kind is None or pat.is_dictionary(type_) or pat.is_float16(type_):
        return None
    if nulls + nans == rows:
        return ColumnStatistics(None, None, False, False, nulls, nans)
    if low is None or high is None or (pat.is_floating(kind) and 0.0 in (low, high)):
        return None
    sort = "f" if pat.is_floating(kind) else "u" if pat.is_unsigned_integer(kind) else "i"
    held = np.array([low, high], f"<{sort}{kind.bit_width // 8}")
    bounds = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(held)])
    return ColumnStatistics(bounds[0], bounds[1], True, True, nulls, nans)


def _bounds(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the exact minimum and maximum; there is at least one value that is not missing."""
    if pat.is_dictionary(column.type):
        column = _used_values(column)
    if pat.is_fixed_size_binary(kind):
        bounds = pc.min_max(column.cast(pa.binary()))
        return arrow_scalar(bounds["min"].as_py(), kind), arrow_scalar(bounds["max"].as_py(), kind)
    if pat.is_floating(kind):
        # The kernel skips NaN only where something else is in the same chunk.
        column = column.filter(pc.invert(pc.is_nan(column)))
    if pat.is_duration(kind):
        bounds = pc.min_max(column.cast(pa.int64()))
        return bounds["min"].cast(kind), bounds["max"].cast(kind)
    bounds = pc.min_max(column)
    return bounds["min"], bounds["max"]


def _used_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the dictionary values that some row refers to."""
    values = []
    for chunk in column.chunks:
        used = chunk.indices.drop_null().unique()
        values.append(chunk.dictionary.take(used))
    return pa.chunked_array(values, type=column.type.value_type)


def _cut_below(bound: pa.Scalar, kind: pa.DataType) -> tuple[pa.Scalar | None, bool]:
    value: Any = bound.as_py() if _is_bytes(kind) else None
    if value is None or _length(value) <= BOUND_BYTES:
        return bound, True
    return arrow_scalar(_prefix(value, BOUND_BYTES), kind), False


def _cut_above(bound: pa.Scalar, kind: pa.DataType) -> tuple[pa.Scalar | None, bool]:
    value: Any = bound.as_py() if _is_bytes(kind) else None
    if value is None or _length(value) <= BOUND_BYTES:
        return bound, True
    raised = _raised(_prefix(value, BOUND_BYTES))
    return (None if raised is None else arrow_scalar(raised, kind)), False


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_binary(kind))


def _length(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


def _prefix(value: Any, length: int) -> Any:
    """Return the longest start of ``value`` within ``length`` bytes, at a character's end."""
    if isinstance(value, bytes):
        return value[:length]
    return value.encode()[:length].decode(errors="ignore")


def _raised(prefix: Any) -> Any:
    """Return the least text (or bytes) of at most that many characters above all with ``prefix``.

    None where there is none: every byte is 0xFF, or every character the last one.
    """
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    while prefix:
        code = ord(prefix[-1]) + 1
        code = _SURROGATES[1] if code == _SURROGATES[0] else code
        if code <= _LAST_CHARACTER:
            candidate = prefix[:-1] + chr(code)
            # A raised character can take one byte more; then the one before is raised.
            if _length(candidate) <= BOUND_BYTES:
                return candidate
        prefix = prefix[:-1]
    return None

"""What values are, whatever holds them: an oracle for types that are mapped to Spark's and back.

Nothing is cast from one type to another here: instants, times and durations are numbers of
nanoseconds, dates are days, everything else is what Python has for it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

__all__ = ["columns_of", "fits_spark", "values_of"]

_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_MS = 86_400_000


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of each column."""
    return {
        name: [value for chunk in column.chunks for value in values_of(chunk)]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def values_of(array: pa.Array) -> list[Any]:
    """Return the values of an array."""
    kind = array.type
    if pat.is_dictionary(kind):
        entries = values_of(array.dictionary)
        return [None if code is None else entries[code] for code in array.indices.to_pylist()]
    if pat.is_list(kind) or pat.is_fixed_size_list(kind):
        return [values_of(item.values) if item.is_valid else None for item in array]
    if pat.is_struct(kind):
        children = [values_of(child) for child in array.flatten()]
        names = [field.name for field in kind]
        rows = zip(*children, strict=True) if children else [()] * len(array)
        return [
            dict(zip(names, row, strict=True)) if known else None
            for known, row in zip(array.is_valid().to_pylist(), rows, strict=True)
        ]
    if pat.is_date64(kind):
        return _scaled([n and n // _DAY_MS for n in array.cast(pa.int64()).to_pylist()], 1)
    if pat.is_date32(kind):
        return list(array.cast(pa.int32()).to_pylist())
    if pat.is_time32(kind):
        return _scaled(array.cast(pa.int32()).to_pylist(), _NANOSECONDS[kind.unit])
    if pat.is_temporal(kind):
        return _scaled(array.cast(pa.int64()).to_pylist(), _NANOSECONDS[kind.unit])
    if pat.is_floating(kind):
        return ["NaN" if value != value else value for value in array.to_pylist()]
    return list(array.to_pylist())


def fits_spark(array: pa.Array) -> bool:
    """Return whether Spark's types hold all values: its instants are whole microseconds."""
    kind = array.type
    if pat.is_dictionary(kind):
        return fits_spark(array.dictionary)
    if pat.is_list(kind) or pat.is_fixed_size_list(kind):
        return fits_spark(array.flatten())
    if pat.is_struct(kind):
        return all(map(fits_spark, array.flatten()))
    if pat.is_timestamp(kind) or pat.is_duration(kind):
        return all(value is None or value % 1_000 == 0 for value in values_of(array))
    return True


def _scaled(numbers: list[int | None], scale: int) -> list[int | None]:
    return [None if number is None else number * scale for number in numbers]

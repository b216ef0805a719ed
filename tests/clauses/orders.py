"""The order of rows, found out the slow way: one comparison at a time, on Python's own values."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tessel.clauses.values import is_temporal, plain_type

__all__ = ["key_values", "order_of_rows"]


def key_values(column: pa.ChunkedArray) -> list[Any]:
    """Return values that compare as the semantics say; None is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = plain_type(column.type)
    if is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = column.to_pylist()
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


def order_of_rows(
    table: pa.Table, by: Sequence[str], descending: Sequence[bool], missing: str
) -> list[int]:
    """Return the rows in order: Python's stable sort and a comparison written out."""
    columns = [key_values(table.column(name)) for name in by]

    def compare(one: int, other: int) -> int:
        for values, downwards in zip(columns, descending, strict=True):
            a, b = values[one], values[other]
            if a is None or b is None:
                if a is b:
                    continue
                return -1 if (a is None) == (missing == "first") else 1
            if a != b:
                return -1 if (a < b) != downwards else 1
        return 0

    return sorted(range(table.num_rows), key=functools.cmp_to_key(compare))

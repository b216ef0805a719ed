"""Whether two engines gave the same answer.

Engines return integers of several widths, text as plain or as dictionary, and float sums that
differ in their last digits (only Tessel's are the exact ones). Those differences are adapted here,
by name; everything else must be equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads import Query

RELATIVE_TOLERANCE = 1e-9
"""Of floats: engines add in different orders."""


def canonical(table: pa.Table, query: Query) -> pa.Table:
    """Return the answer in plain types, in the order of its key if it has one."""
    columns = {name: _plain(table[name]) for name in table.column_names}
    plain = pa.table(columns)
    return plain.sort_by([(name, "ascending") for name in query.key]) if query.key else plain


def _plain(column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    return column.cast(pa.string())


def difference(left: pa.Table, right: pa.Table) -> str | None:
    """Say how two canonical answers differ; None where they are the same."""
    if left.column_names != right.column_names:
        return f"columns {left.column_names} against {right.column_names}"
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} rows against {right.num_rows}"
    for name in left.column_names:
        differing = np.flatnonzero(_differing(left[name], right[name]))
        if len(differing):
            row = int(differing[0])
            return (
                f"column {name!r}, row {row} (and {len(differing) - 1} more): "
                f"{left[name][row]} against {right[name][row]}"
            )
    return None


def _differing(left: Any, right: Any) -> Any:
    if pa.types.is_string(left.type) != pa.types.is_string(right.type):
        return np.ones(max(1, len(left)), bool)
    if pa.types.is_string(left.type):
        same = pc.fill_null(pc.equal(left, right), False)
        both_missing = pc.and_(pc.is_null(left), pc.is_null(right))
        return ~pc.or_(same, both_missing).to_numpy()
    if pa.types.is_int64(left.type) and pa.types.is_int64(right.type):
        missing_differs = left.is_null().to_numpy() != right.is_null().to_numpy()
        return missing_differs | (left.fill_null(0).to_numpy() != right.fill_null(0).to_numpy())
    # A column of integers with missing values is one of floats in some engines.
    floats = [
        column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
        for column in (left, right)
    ]
    return ~np.isclose(*floats, rtol=RELATIVE_TOLERANCE, atol=0.0, equal_nan=True)

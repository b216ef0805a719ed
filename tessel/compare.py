"""Whether two answers are the same table, row for row, and where they first differ.

What the demo says of the local pool and Spark, and what the tests of executors assert. It knows
tables and nothing else of the package.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tessel.lazy import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Difference", "first_difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two tables differ.

    Attributes
    ----------
    what
        ``"schema"``, ``"rows"`` (one table is longer) or the name of a column.
    row
        The row, from 0; None where the schemas differ.
    left, right
        What stands there: a row as a dictionary, or the text of a schema; None past the end.
    """

    what: str
    row: int | None
    left: Any
    right: Any

    def __str__(self) -> str:
        place = f"schema:\n{self.left}\nagainst\n{self.right}"
        if self.row is None:
            return place
        return f"row {self.row} ({self.what}):\n  {self.left}\n  {self.right}"


def first_difference(left: pa.Table, right: pa.Table) -> Difference | None:
    """Compare two tables: names, types, order and every value; metadata and chunks do not count.

    Floats are equal if their bits are, so 0.0 and -0.0 differ, and one NaN equals itself.

    Returns
    -------
    Difference or None
        The first row that differs (or the schemas, if they do), None where the tables are equal.
    """
    if not left.schema.remove_metadata().equals(right.schema.remove_metadata()):
        return Difference(
            "schema",
            None,
            left.schema.to_string(show_schema_metadata=False),
            right.schema.to_string(show_schema_metadata=False),
        )
    rows = min(left.num_rows, right.num_rows)
    first: tuple[int, str] | None = None
    for name in left.column_names:
        limit = rows if first is None else first[0]
        row = _first_differing(left[name].slice(0, limit), right[name].slice(0, limit))
        if row is not None:
            first = (row, name)
    if first is None and left.num_rows != right.num_rows:
        first = (rows, "rows")
    if first is None:
        return None
    row, what = first
    return Difference(what, row, _row(left, row), _row(right, row))


def _row(table: pa.Table, row: int) -> dict[str, Any] | None:
    if row >= table.num_rows:
        return None
    return {name: str(table[name][row]) for name in table.column_names}


def _first_differing(left: Any, right: Any) -> int | None:
    import numpy as np
    import pyarrow as pa

    if pa.types.is_floating(left.type):
        missing = left.is_null().to_numpy(), right.is_null().to_numpy()
        values = _float_bits(left), _float_bits(right)
        differing = np.flatnonzero((missing[0] != missing[1]) | (values[0] != values[1]))
        return int(differing[0]) if len(differing) else None
    if not pa.types.is_nested(left.type) and left.equals(right):
        return None
    pairs = zip(left, right, strict=True)
    return next((row for row, (a, b) in enumerate(pairs) if _bits(a) != _bits(b)), None)


def _float_bits(column: Any) -> Any:
    values = column.fill_null(0.0).to_numpy()
    return values.view(f"i{values.itemsize}")


def _bits(scalar: Any) -> Any:
    """Return something that is equal for equal values only, also for floats inside nested ones."""
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if pa.types.is_dictionary(scalar.type):
        return _bits(scalar.value)
    if pa.types.is_floating(scalar.type):
        return struct.pack("<d", float(scalar.as_py()))
    if pa.types.is_struct(scalar.type):
        return [_bits(value) for value in scalar.values()]
    if pa.types.is_nested(scalar.type):
        return [_bits(value) for value in scalar.values]
    # Python's datetime would drop nanoseconds, the stored number does not.
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()

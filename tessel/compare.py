"""Whether two answers are the same table, row for row, and where they first differ.

What the demo says of the local pool and Spark, and what the tests of executors assert. It knows
tables and nothing else of the package.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tessel.lazy import dataclass

__all__ = ["Difference", "bits", "first_difference"]


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


def _first_differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    kind = left.type
    if not (pat.is_nested(kind) or pat.is_floating(kind)) and left.equals(right):
        return None
    pairs = zip(bits(left), bits(right), strict=True)
    return next((row for row, (a, b) in enumerate(pairs) if a != b), None)


def bits(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column with floats as the integers of their bits.

    Two columns are the same exactly when their types and their bits are equal.
    """
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in bits(chunk)]
    kind = column.type
    if pat.is_dictionary(kind):
        return bits(column.dictionary_decode())
    if pat.is_floating(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pat.is_struct(kind):
        children = [bits(child) for child in column.flatten()]
        valid = column.is_valid().to_pylist()
        return [
            tuple(child[row] for child in children) if valid[row] else None
            for row in range(len(column))
        ]
    if pat.is_nested(kind):
        return [None if not item.is_valid else bits(item.values) for item in column]
    if pat.is_temporal(
        kind
    ):  # Python's datetime would drop nanoseconds, the stored number does not
        narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
        return column.view(narrow).to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = column.to_pylist()
    return values

"""The first and last rows of an Arrow table as a document: what reprs of results show."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.types as arrow_types

from tessel.arrays import arrow_array, is_number
from tessel.display.documents import ELLIPSIS, Table
from tessel.errors import InvalidInputError

_SHOWN_ITEMS = 8
_SHOWN_COLUMNS = 40
"""Of a table of more columns the middle ones are left out; text also keeps to its width."""
_FRACTION = re.compile(r"(?P<moment>[^.]*)[.](?P<fraction>\d+)(?P<zone>.*)")


def preview(table: pa.Table, max_rows: int = 10, *, index: str | None = None) -> Table:
    """Return a table's shape, types and first rows; of a long one also the last.

    Parameters
    ----------
    table
        Any Arrow table.
    max_rows
        Rows shown at most, at least 1; of a longer table the first and the last half each.
    index
        Name of the time index, marked in its heading.

    Returns
    -------
    Table
        Integers, floats, decimals and truths stay what they are, missing values are None, all other
        values are text.
    """
    if max_rows < 1:
        raise InvalidInputError(f"a preview shows at least 1 row, not {max_rows}")
    table = _index_first(table, index)
    count, width = table.num_rows, table.num_columns
    wide = width > _SHOWN_COLUMNS
    if wide:
        half = _SHOWN_COLUMNS // 2
        table = table.select([*range(half), *range(width - half, width)])
    long = count > max_rows
    front = (max_rows + 1) // 2 if long else count
    shown = [table.slice(0, front)]
    if long:
        shown.append(table.slice(count - (max_rows - front)))
    columns = [
        _column([part.column(at) for part in shown], long) for at in range(table.num_columns)
    ]
    headings = [
        f"{field.name}\n{_type_text(field.type)}{' (index)' if field.name == index else ''}"
        for field in table.schema
    ]
    left_out = [_counted(count - max_rows, "row")] if long and columns else []
    if wide:
        headings.insert(half, ELLIPSIS)
        columns.insert(half, [ELLIPSIS] * len(columns[0]))
        left_out.append(_counted(width - _SHOWN_COLUMNS, "column"))
    return Table(
        f"{_counted(count, 'row')} × {_counted(width, 'column')}",
        tuple(headings),
        tuple(zip(*columns, strict=True)),
        (f"{' and '.join(left_out)} not shown",) if left_out else (),
    )


def _index_first(table: pa.Table, index: str | None) -> pa.Table:
    names = table.column_names
    if index is None or names.count(index) != 1:
        return table
    at = names.index(index)
    return table.select([at, *(each for each in range(len(names)) if each != at)])


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _type_text(kind: pa.DataType) -> str:
    # Arrow's own text for a dictionary is long and leads with what matters least.
    return f"dictionary<{kind.value_type}>" if arrow_types.is_dictionary(kind) else str(kind)


def _column(parts: list[pa.ChunkedArray], long: bool) -> list[object]:
    # All shown values are formatted together, so that they get the same form.
    values = _values(pa.chunked_array([c for p in parts for c in p.chunks], parts[0].type))
    return [*values[: len(parts[0])], ELLIPSIS, *values[len(parts[0]) :]] if long else values


def _values(column: pa.ChunkedArray | pa.Array) -> list[object]:
    """Return the values as numbers, truths, text or None."""
    kind = column.type
    if isinstance(kind, pa.ExtensionType):
        storage = column.cast(kind.storage_type)
        return _values(storage)
    if arrow_types.is_dictionary(kind):
        return _values(column.cast(kind.value_type))
    if arrow_types.is_timestamp(kind) or arrow_types.is_time(kind):
        return _without_zero_fraction(_moments(column))
    if arrow_types.is_date(kind):
        return list(_moments(column))
    if arrow_types.is_duration(kind):
        numbers = column.cast(pa.int64()).to_pylist()
        return [None if number is None else f"{number} {kind.unit}" for number in numbers]
    if arrow_types.is_nested(kind):
        return [_nested(scalar) for scalar in column]
    plain = column.to_pylist()
    if arrow_types.is_null(kind) or is_number(kind) or arrow_types.is_boolean(kind):
        return list(plain)
    return [
        value if value is None else value.hex() if isinstance(value, bytes) else str(value)
        for value in plain
    ]


def _moments(column: pa.ChunkedArray | pa.Array) -> list[str | None]:
    # Arrow's own text: Python's has no nanoseconds, and ends with the year 9999, dates as well.
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts


def _without_zero_fraction(texts: list[str | None]) -> list[object]:
    """Cut fractions of a second where all of the column are zero."""
    matches = [None if text is None else _FRACTION.fullmatch(text) for text in texts]
    if any(match is not None and match["fraction"].strip("0") for match in matches):
        return list(texts)
    return [
        text if match is None else match["moment"] + match["zone"]
        for text, match in zip(texts, matches, strict=True)
    ]


def _nested(scalar: pa.Scalar) -> str | None:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if arrow_types.is_struct(kind):
        inner = [f"{field.name}: {_one(scalar[at])}" for at, field in enumerate(kind)]
        return "{" + ", ".join(inner) + "}"
    if not hasattr(scalar, "values"):  # unions
        return str(scalar)
    items: Any = scalar.values
    texts = ["null" if value is None else str(value) for value in _values(items[:_SHOWN_ITEMS])]
    more = [ELLIPSIS] if len(items) > _SHOWN_ITEMS else []
    return "[" + ", ".join([*texts, *more]) + "]"


def _one(scalar: pa.Scalar) -> str:
    (value,) = _values(arrow_array([scalar], scalar.type))
    return "null" if value is None else str(value)

"""Whatever people hold their tables in, taken as Arrow: the one door for data to be written.

Accepted: pandas and Polars frames, pyarrow tables, record batches and readers of them, anything
with ``__arrow_c_stream__`` or ``__arrow_c_array__``, dictionaries of columns, and iterables of any
of these (all of one schema). Neither pandas nor Polars is imported here.

Rules
-----
* Column names are text, and no two are equal; anything else is refused.
* A table without columns is refused; one without rows is taken, and gives the symbol its schema.
* A pandas ``RangeIndex`` is dropped. Any other index of one level becomes the first column and
  must have a name; a ``DatetimeIndex`` becomes the time index unless ``index=`` names another
  column. A ``MultiIndex``, of rows or of columns, is refused.
* Types are those of :mod:`tessel.store.segment.types`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tessel.errors import (
    DuplicateColumnError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    UnicodeTextError,
)
from tessel.errors.arguments import check_nesting
from tessel.expression.scalars import array_of
from tessel.lazy import dataclass
from tessel.store.segment.types import normalise, normalise_schema

__all__ = ["Frame", "check_column_names", "describe_differences", "read_frame"]


@dataclass(frozen=True)
class Frame:
    """A table that is about to be written.

    Attributes
    ----------
    schema
        Names and types as stored.
    index
        The time index that the frame itself brings along (a pandas ``DatetimeIndex``), or None.
    tables
        The rows, as tables of ``schema``; can be gone through once.
    """

    schema: pa.Schema
    index: str | None
    tables: Iterator[pa.Table]


_NO_TABLES = str | bytes | bytearray | memoryview


def read_frame(data: Any) -> Frame:
    """Take a table of any accepted kind.

    Raises
    ------
    InvalidInputError
        For anything that is no table, has no columns, or values that Arrow cannot hold.
    DuplicateColumnError
        For two columns of one name.
    UnsupportedTypeError
        For a column type that is not stored.
    SchemaMismatchError
        While going through ``tables``, when the parts of an iterable differ.
    """
    is_one = _is_table(data) or _is_column(data) or isinstance(data, _NO_TABLES)
    if not is_one and isinstance(data, Iterable):
        if getattr(data, "ndim", 1) == 0:  # numpy says that it can be iterated
            raise _no_table(data)
        return _from_parts(iter(data))
    schema, index, tables = _open(data)
    stored = _stored_schema(schema)
    return Frame(stored, index, (normalise(table, stored) for table in tables))


def _from_parts(parts: Iterator[Any]) -> Frame:
    first = next(parts, None)
    if first is None:
        raise InvalidInputError(
            "an iterable without any tables has no columns",
            hint="give at least one table; it may be without rows",
        )
    head = read_frame(_required_table(first))

    def tables() -> Iterator[pa.Table]:
        yield from head.tables
        for part in parts:
            frame = read_frame(_required_table(part))
            differences = describe_differences(head.schema, frame.schema)
            if differences:
                raise SchemaMismatchError(
                    "the tables of an iterable have different columns",
                    detail="\n".join(differences),
                    hint="bring them to one schema first",
                )
            for table in frame.tables:
                yield table.select(head.schema.names)

    return Frame(head.schema, head.index, tables())


def _required_table(part: Any) -> Any:
    if not _is_table(part):
        raise _no_table(part)
    return part


def _is_table(data: Any) -> bool:
    return (
        isinstance(data, Mapping | pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or _pandas_frame(data)
    )


def _is_column(data: Any) -> bool:
    """Return whether these are the values of one column, which has no name of its own."""
    module, name = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return not pa.types.is_struct(data.type)
    return name == "Series" and module in ("pandas", "polars")


def _open(data: Any) -> tuple[pa.Schema, str | None, Iterator[pa.Table]]:
    """Return schema, index and rows of one table, in the types it has."""
    if _is_column(data):
        raise InvalidInputError(
            f"a {type(data).__name__} is one column, and a table was asked for",
            hint='name it: write("symbol", {"price": values}); a Series of pandas keeps its index '
            "with to_frame()",
        )
    try:
        if _pandas_frame(data):
            table, index = _from_pandas(data)
            return table.schema, index, iter([table])
        if isinstance(data, pa.RecordBatchReader):
            return data.schema, None, (pa.Table.from_batches([batch]) for batch in data)
        table = _as_table(data)
    except TesselError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"a {type(data).__name__} could not be taken as a table: {error}",
            hint="give every column values of one type",
        ) from error
    return table.schema, None, iter([table])


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        check_column_names(list(data))
        check_nesting(dict(data))
        # Anything but a list has a type of its own.
        return pa.table(
            {n: array_of(v) if isinstance(v, list | tuple) else v for n, v in data.items()}
        )
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    raise _no_table(data)


def _pandas_frame(data: Any) -> bool:
    # Another thread may be importing it right now: then nothing can be one of its frames.
    kind = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return kind is not None and isinstance(data, kind)


def _from_pandas(frame: Any) -> tuple[pa.Table, str | None]:
    pandas = sys.modules["pandas"]
    if isinstance(frame.columns, pandas.MultiIndex) or isinstance(frame.index, pandas.MultiIndex):
        raise InvalidInputError(
            "a frame with a MultiIndex cannot be written",
            hint="reset_index() turns the levels into columns",
        )
    check_column_names(list(frame.columns))
    if isinstance(frame.index, pandas.RangeIndex):
        return pa.Table.from_pandas(frame, preserve_index=False), None
    name = frame.index.name
    if not isinstance(name, str):
        raise InvalidInputError(
            f"the index of the frame has no name (a {type(frame.index).__name__})",
            hint='name it with rename_axis("time"), or drop it with reset_index(drop=True)',
        )
    check_column_names([name, *frame.columns])
    table = pa.Table.from_pandas(frame, preserve_index=True)
    timed = isinstance(frame.index, pandas.DatetimeIndex)
    return table.select([name, *frame.columns]), name if timed else None


def check_column_names(names: list[Any]) -> None:
    """Raise ``InvalidInputError`` or ``DuplicateColumnError`` for names that no columns have."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"the column name {name!r} is no text but {type(name).__name__}",
                hint="rename the columns to text",
            )
        UnicodeTextError.require(name, "a column name")
        if not name.isprintable() and "\0" in name:
            raise InvalidInputError(f"the column name {name!r} holds a NUL character")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DuplicateColumnError(
                f"two columns are named {name!r}",
                hint="rename one of them",
                column=name,
            )
        seen.add(name)


def _stored_schema(schema: pa.Schema) -> pa.Schema:
    if not schema.names:
        raise InvalidInputError(
            "a table without columns cannot be written",
            hint="give it at least one column; it may be without rows",
        )
    check_column_names(schema.names)
    return normalise_schema(schema)


def _no_table(data: Any) -> InvalidInputError:
    collect = " (collect() it first)" if hasattr(data, "collect") else ""
    return InvalidInputError(
        f"a {type(data).__name__} is no table{collect}",
        hint="give a pandas or Polars frame, a pyarrow table or reader, a dictionary of columns, "
        "or an iterable of such",
    )


def describe_differences(expected: pa.Schema, given: pa.Schema) -> list[str]:
    """Return what differs between two sets of columns, one line each; order does not count."""
    known, found = set(expected.names), set(given.names)
    lines = [f"column {name!r} is missing" for name in expected.names if name not in found]
    lines += [
        f"column {name!r} is new ({given.field(name).type})"
        for name in given.names
        if name not in known
    ]
    lines += [
        f"column {name!r} is {given.field(name).type}, not {expected.field(name).type}"
        for name in expected.names
        if name in found and given.field(name).type != expected.field(name).type
    ]
    return lines

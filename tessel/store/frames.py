"""Whatever people hold their tables in, taken as Arrow: the one door for data to be written.

Accepted: pandas frames and Series, Polars frames (lazy ones too), pyarrow tables, datasets, record
batches and readers of them, anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``,
dictionaries of columns, lists of dictionaries (one a row), iterables of any of these (all of one
schema), and paths of files (:mod:`tessel.store.files`). Neither pandas nor Polars is imported here.

Rules
-----
* Column names are text, and no two are equal; anything else is refused.
* A table without columns is refused; one without rows is taken, and gives the symbol its schema.
* Of pandas: the rules of :mod:`tessel.store.pandas_frames`.
* Types are those of :mod:`tessel.store.segment.types`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tessel import telemetry
from tessel.errors import (
    DuplicateColumnError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    UnicodeTextError,
    UnsupportedTypeError,
)
from tessel.errors.arguments import check_nesting
from tessel.expression.scalars import array_of
from tessel.lazy import dataclass
from tessel.store.pandas_shape import PandasShape
from tessel.store.segment.types import accepted_schema, normalise


@dataclass(frozen=True)
class Frame:
    """A table that is about to be written.

    Attributes
    ----------
    index
        The instants that the frame itself brings along (a first level of a pandas index), or None.
    tables
        The rows, as tables of ``schema``; can be gone through once.
    increases
        Whether those instants never go back; in the first table, if there are more.
    pandas
        What else a frame of pandas showed, by column.
    """

    schema: pa.Schema
    index: str | None
    tables: Iterator[pa.Table]
    increases: bool = False
    pandas: PandasShape | None = None

    def time_index(self, *, sort: bool) -> str | None:
        """Return the index of a symbol that is made of the frame, if it shall have none other."""
        return self.index if sort or self.increases else None


_NO_PARTS = (str, os.PathLike, bytes, bytearray, memoryview)


def read_frame(data: Any, stored: pa.Schema | None = None) -> Frame:
    """Take a table of any accepted kind; of a file, values in types that are stored already.

    Raises InvalidInputError for anything that is no table, has no columns, or values that Arrow
    cannot hold; DuplicateColumnError for two columns of one name; UnsupportedTypeError for a column
    type that is not stored; SchemaMismatchError while going through ``tables``, when the parts of
    an iterable differ.
    """
    if isinstance(names := getattr(getattr(data, "dtype", None), "names", None), tuple):
        data = {name: data[name] for name in names}  # numpy's structured arrays
    if isinstance(data, Iterator) and not _is_table(data):
        first = list(itertools.islice(data, 1))
        data = [*first, *data] if _are_rows(first) else itertools.chain(first, data)
    if _are_rows(data):
        data = _rows_as_table(data)
    rows = getattr(data, "num_rows", None) or next(iter(getattr(data, "shape", ())), 0)
    if type(rows) is int:  # of a stream nobody knows them
        telemetry.emit("write.rows", of=id(data), done=0, total=rows)
    if isinstance(data, str | os.PathLike):
        return _made(*_from_file(Path(data), stored))
    return _frame_of(data)


def _frame_of(data: Any) -> Frame:
    is_one = _is_table(data) or _is_column(data) or isinstance(data, _NO_PARTS)
    if not is_one and isinstance(data, Iterable):
        if getattr(data, "ndim", 1) == 0:  # numpy says that it can be iterated
            raise _no_table(data)
        return _from_parts(iter(data))
    if _is_of("pandas", data, "DataFrame", "Series"):
        return _from_pandas(data)
    return _made(*_open(data))


def _made(schema: pa.Schema, tables: Iterable[pa.Table]) -> Frame:
    if not schema.names:
        raise InvalidInputError(
            "a table without columns cannot be written",
            hint="give it at least one column; it may be without rows",
        )
    check_column_names(schema.names)
    stored = accepted_schema(schema)
    return Frame(stored, None, (normalise(table, stored) for table in tables))


def _from_parts(parts: Iterator[Any]) -> Frame:
    first = next(parts, None)
    if first is None:
        raise InvalidInputError(
            "an iterable without any tables has no columns",
            hint="give at least one table; it may be without rows",
        )
    head = _frame_of(_required_table(first))

    def tables() -> Iterator[pa.Table]:
        yield from head.tables
        for part in parts:
            frame = _frame_of(_required_table(part))
            differences = describe_differences(head.schema, frame.schema)
            if differences:
                raise SchemaMismatchError(
                    "the tables of an iterable have different columns",
                    detail="\n".join(differences),
                    hint="bring them to one schema first",
                )
            for table in frame.tables:
                yield table.select(head.schema.names)

    return dataclasses.replace(head, tables=tables())


def _required_table(part: Any) -> Any:
    if not _is_table(part):
        raise _no_table(part)
    return part


def _is_table(data: Any) -> bool:
    return (
        isinstance(data, Mapping | pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or _is_of("pandas", data, "DataFrame", "Series")
    )


def _is_column(data: Any) -> bool:
    """Return whether these are the values of one column, which has no name of its own."""
    module, name = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return not pa.types.is_struct(data.type)
    return name == "Series" and module == "polars"


def _are_rows(data: Any) -> bool:
    """Return whether this is a list of rows, not of tables: dictionaries with a value a name."""
    if not (isinstance(data, list | tuple) and data and isinstance(data[0], Mapping)):
        return False
    columns = (list, tuple, pa.Array, pa.ChunkedArray)
    values = data[0].values()
    return not all(isinstance(v, columns) or getattr(v, "ndim", 0) for v in values)


def _rows_as_table(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Any]]:
    """Return rows as a dictionary of columns; a name that a row lacks is missing in it."""
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidInputError(
                f"row {at} is a {type(row).__name__}, and those before it are dictionaries",
                hint='give one dictionary a row: [{"price": 1.5}, {"price": 1.25}]',
            )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _open(data: Any) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return schema and rows of one table, in the types it has."""
    if _is_column(data):
        raise InvalidInputError(
            f"a {type(data).__name__} is one column, and a table was asked for",
            hint='name it: write("symbol", {"price": values})',
        )
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, (pa.Table.from_batches([batch]) for batch in data)
    if _is_of("pyarrow.dataset", data, "Dataset"):
        return _open(data.scanner().to_reader())
    with _telling(data):
        table = _as_table(data.collect() if _is_of("polars", data, "LazyFrame") else data)
    return table.schema, iter([table])


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        check_column_names(list(data))
        check_nesting(dict(data))
        return pa.table({name: _values(name, values) for name, values in data.items()})
    if _is_of("polars", data, "DataFrame"):
        for column in data.iter_columns():
            _refuse_objects(column.name, column)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    raise _no_table(data)


def _values(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    """Return the values of one column; anything but a list has a type of its own."""
    try:
        if isinstance(values, list | tuple):
            return array_of(values)
        if isinstance(values, str | bytes):
            raise TypeError(f"{values!r:.40} is one value")
        _refuse_objects(name, values)
        return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, TesselError):
            raise
        hint = _hint(error)
        if (
            isinstance(values, str | bytes)
            or getattr(values, "ndim", 1) != 1
            or not hasattr(values, "__len__")
        ):
            hint = f"one value for each row: {{{name!r}: [...]}}"
        elif any(map(_has_zone, values)) and not all(map(_has_zone, values)):
            hint = "some times have a time zone and some have none: give all of them one"
        raise InvalidInputError(
            f"column {name!r} cannot be taken: {error}", hint=hint, column=name
        ) from error


def _refuse_objects(name: str, values: Any) -> None:
    """Refuse objects of Polars, of which Arrow gets the addresses."""
    if _is_of("polars", getattr(values, "dtype", None), "Object"):
        raise UnsupportedTypeError(
            f"column {name!r} holds objects of Polars, which are not stored",
            hint="give its values a type: text, numbers, times, lists or structs",
            column=name,
            type="Object",
        )


def _has_zone(value: Any) -> bool:
    return getattr(value, "tzinfo", None) is not None


def _from_file(path: Path, stored: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.Table]]:
    from tessel.store.files import Files

    files = Files([path], stored=stored)
    batches = files.settled_rows()
    return files.schema, (pa.Table.from_batches([batch]) for batch in batches)


def _is_of(module: str, data: Any, *names: str) -> bool:
    # Another thread may be importing it right now: then nothing can be of it.
    found = sys.modules.get(module)
    return isinstance(data, tuple([getattr(found, name, ()) for name in names]))


def _from_pandas(data: Any) -> Frame:
    from tessel.store.pandas_frames import read_pandas

    with _telling(data):
        columns = read_pandas(data)
    made = _made(columns.table.schema, [columns.table])
    shape = columns.shape or None
    return Frame(made.schema, columns.instants, made.tables, columns.increases, shape)


@contextlib.contextmanager
def _telling(data: Any) -> Iterator[None]:
    """Tell what Arrow cannot hold of a table."""
    try:
        yield
    except TesselError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"a {type(data).__name__} could not be taken as a table: "
            + "; ".join(map(str, error.args)),
            hint=_ragged(data) or _hint(error),
        ) from error


def _hint(error: Exception) -> str:
    """Return the hint for values that Arrow makes no column of."""
    if isinstance(error, OverflowError):
        return (
            "whole numbers have 64 bits: take an array of uint64 for those from 2**63 on, and "
            "float, Decimal or text for longer ones"
        )
    return "give every column values of one type"


def _ragged(data: Any) -> str | None:
    """Return the hint for a dictionary whose columns are not of one length."""
    if not isinstance(data, Mapping):
        return None
    lengths = {str(name): len(each) for name, each in data.items() if hasattr(each, "__len__")}
    if len(set(lengths.values())) < 2:
        return None
    told = ", ".join(f"{name!r} {length:,}" for name, length in list(lengths.items())[:8])
    return f"all columns have one value for each row; values: {told}"


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


def _no_table(data: Any) -> InvalidInputError:
    name = type(data).__name__
    collect = " (collect() it first)" if hasattr(data, "collect") else ""
    return InvalidInputError(
        f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name} is no table{collect}",
        hint="give a pandas or Polars frame, a pyarrow table or reader, a dictionary of columns, "
        "or an iterable of such; a list of dictionaries, one a row; or the path of a file",
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

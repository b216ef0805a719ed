"""What a pandas frame, or a Series, is as columns; :mod:`tessel.pandas_results` is the way back.

Rules
-----
* A level of the index is a column, before the others: by its name, or as ``reset_index`` names it
  (``index``, ``level_0`` …). A ``RangeIndex`` is none; its name, start and step are kept.
* A first level of instants that never go back is the time index.
* Column names are text, or all of them integers.
* ``Period`` and ``Interval`` values, and columns of several levels, are refused.

Imported where a frame is given, and so where pandas is there.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import sys
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from tessel.arrays import arrow_array
from tessel.errors import (
    DuplicateColumnError,
    InvalidInputError,
    UnicodeTextError,
    UnsupportedTypeError,
)
from tessel.store.frames import check_column_names
from tessel.store.pandas_shape import PandasShape

_MOST_CATEGORY_BYTES = 1 << 15
"""Of all categories of a symbol: they are part of what each commit of it writes."""


class PandasColumns(NamedTuple):
    """What a frame is as columns.

    Attributes
    ----------
    table
        The levels of its index, and its columns; in types as Arrow takes them.
    instants
        The first level, where it is one of instants.
    increases
        Whether these never go back, and are all there.
    """

    table: pa.Table
    instants: str | None
    increases: bool
    shape: PandasShape


def read_pandas(data: Any) -> PandasColumns:
    """Take a frame or a Series.

    Raises InvalidInputError or UnsupportedTypeError for what is refused; DuplicateColumnError for
    two columns, or a column and a level, of one name.
    """
    pandas = sys.modules["pandas"]
    is_series = isinstance(data, pandas.Series)
    frame = data.to_frame(0 if data.name is None else data.name) if is_series else data
    names = _column_names(frame.columns)
    ranged = isinstance(frame.index, pandas.RangeIndex)
    levels = [] if ranged else _level_names(frame.index, names)
    index = frame.index
    if (clash := next((level for level in levels if level in names), None)) is not None:
        raise DuplicateColumnError(
            f"a level of the index and a column are both named {clash!r}",
            hint=f"name the level otherwise: frame.rename_axis(index={{{clash!r}: 'time'}})",
            column=clash,
        )
    check_column_names([*levels, *names])
    parts = [] if ranged else index.levels if len(levels) > 1 else [index]
    kinds = dict(zip([*names, *levels], [*frame.dtypes, *(p.dtype for p in parts)], strict=True))
    _refuse_dtypes(frame.columns, list(kinds.values()))
    table = pa.Table.from_pandas(frame, preserve_index=not ranged)
    told = json.loads(table.schema.metadata[b"pandas"])["columns"]
    table = _with_zones(table.rename_columns([*names, *levels]), kinds)
    for name, each in zip(table.column_names, told, strict=True):
        if isinstance(kinds[name], pandas.ArrowDtype):  # of decimals Arrow says "object"
            each["numpy_type"] = str(kinds[name])
    held = itertools.chain((frame.iloc[:, at] for at in range(len(names))), parts)
    for (name, dtype), each in zip(kinds.items(), held, strict=True):
        if isinstance(dtype, np.dtype) and dtype.kind == "O":
            _refuse_mixed(name, each, table.schema.field(name).type)
    for at, (name, part) in enumerate(zip(levels, parts, strict=True) if len(levels) > 1 else ()):
        codes = index.codes[at]
        if part.dtype.kind in "iu" and (codes < 0).any():  # pandas gives such values as floats
            level = arrow_array(np.asarray(part)).take(arrow_array(codes, mask=codes < 0))
            table = table.set_column(len(names) + at, name, level)
            told[len(names) + at]["numpy_type"] = str(part.dtype)
    text = str(pandas.Index(["a"]).dtype)
    dtypes = {
        field.name: each["numpy_type"]
        for field, each in zip(table.schema, told, strict=True)
        if not _is_default(field.type, each["numpy_type"], text)
    }
    usual = pandas.StringDtype().storage  # which pandas 2 and 3 choose differently
    for name in (name for name, dtype in dtypes.items() if dtype == "string"):
        if (storage := kinds[name].storage) != usual:
            dtypes[name] = f"string[{storage}]"
    label = _label(frame.columns.name, "the name of the columns")
    kind = frame.columns.inferred_type
    shown = "int64" if kind == "integer" else str(frame.columns.dtype)
    shape = PandasShape(
        tuple(zip(levels, index.names, strict=True)) if levels else (),
        _range(index) if ranged else None,
        dtypes,
        _categories(kinds),
        None if label is None and shown == text else (label, shown),
        (names[0], _label(data.name, "the name of the Series")) if is_series else None,
    )
    first = index.levels[0] if levels and len(levels) > 1 else index
    timed = isinstance(first, pandas.DatetimeIndex)
    values: Any = index.get_level_values(0) if timed else None
    return PandasColumns(
        table.select([*levels, *names]),
        levels[0] if timed else None,
        timed and bool(values.is_monotonic_increasing) and not values.hasnans,
        shape,
    )


def _column_names(columns: Any) -> list[str]:
    if columns.nlevels > 1:
        raise InvalidInputError(
            f"columns of {columns.nlevels} levels (a MultiIndex) cannot be written",
            hint='join the levels: frame.columns = ["_".join(map(str, each)) for each in '
            "frame.columns]",
        )
    if columns.inferred_type == "integer":
        return [str(name) for name in columns]
    for name in columns:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"the column name {name!r} is no text but {type(name).__name__}",
                hint="rename the columns to text: frame.columns = frame.columns.map(str); names "
                "that are all integers are taken as they are",
            )
    return list(columns)


def _level_names(index: Any, columns: list[str]) -> list[str]:
    """Return the names that the levels have as columns, as ``reset_index`` gives them."""
    single = "level_0" if "index" in columns else "index"
    found = []
    for at, name in enumerate(index.names):
        if name is None:
            name = f"level_{at}" if index.nlevels > 1 else single
        elif not isinstance(name, str):
            raise InvalidInputError(
                f"the name {name!r} of an index level is no text but {type(name).__name__}",
                hint=f"rename it: frame.rename_axis({str(name)!r})",
            )
        found.append(name)
    return found


def _label(name: Any, what: str) -> Any:
    if name is None or (isinstance(name, int) and not isinstance(name, bool)):
        return name
    if isinstance(name, str):
        UnicodeTextError.require(name, what)
        return name
    if hasattr(name, "__index__"):
        return int(name)
    raise InvalidInputError(
        f"{what}, {name!r}, is neither text nor an integer",
        hint="rename it, or take it away: name = None",
    )


def _range(index: Any) -> tuple[str | None, int, int] | None:
    if index.name is not None and not isinstance(index.name, str):
        _level_names(index, [])
    if index.name is not None:
        UnicodeTextError.require(index.name, "the name of the index")
    plain = (None, 0, 1)
    found = (index.name, int(index.start), int(index.step))
    return None if found == plain else found


def _refuse_dtypes(columns: Any, dtypes: list[Any]) -> None:
    names = (f"column {name!r}" for name in columns)
    for what, dtype in zip(
        itertools.chain(names, itertools.repeat("the index")), dtypes, strict=False
    ):
        values = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        kind = "complex" if values.kind == "c" else type(values).__name__
        if kind in _REFUSED:
            word, of_column, of_index = _REFUSED[kind]
            if values is not dtype:
                of_column, of_index = ("the categories as text: .astype(str)",) * 2
            raise UnsupportedTypeError(
                f"{what} holds {word} of pandas ({dtype}), which are not stored",
                hint=of_index if what == "the index" else of_column,
                type=str(dtype),
            )


def _refuse_mixed(name: str, values: Any, kind: pa.DataType) -> None:
    """Refuse objects of several types that Arrow takes as values of one, and changes.

    Times without a time zone become UTC beside others, times beside dates lose their hours, and
    text beside bytes becomes bytes.
    """
    if not (pat.is_timestamp(kind) or pat.is_date(kind) or pat.is_binary(kind)):
        return
    known = values.dropna()
    if pat.is_timestamp(kind) and len({value.tzinfo is None for value in known}) > 1:
        text = "times with a time zone and times without"
        hint = f"give all of them one: pandas.to_datetime(frame[{name!r}], utc=True)"
    elif pat.is_date(kind) and any(isinstance(value, dt.datetime) for value in known):
        text = "dates and times"
        hint = f"make all of them times: pandas.to_datetime(frame[{name!r}])"
    elif pat.is_binary(kind) and any(isinstance(value, str) for value in known):
        text, hint = "bytes and text", "give every column values of one type"
    else:
        return
    raise InvalidInputError(f"column {name!r} has {text}", hint=hint, column=name)


_REFUSED = {
    "PeriodDtype": (
        "periods",
        "their first instants are: values.dt.to_timestamp()",
        "their first instants are: frame.index.to_timestamp()",
    ),
    "IntervalDtype": (
        "intervals",
        "their ends are, as two columns: values.array.left and values.array.right",
        "their ends are, as two columns: frame.index.left and frame.index.right",
    ),
    "SparseDtype": (
        "sparse values",
        "dense ones are: values.sparse.to_dense()",
        "dense ones are: frame.set_axis(frame.index.to_numpy())",
    ),
    "complex": (
        "complex numbers",
        "their parts are, as two columns: values.to_numpy().real and values.to_numpy().imag",
        "their parts are, as two columns: frame.index.to_numpy().real and .imag",
    ),
}


_PLAIN = {pa.float16(): "float32", pa.float32(): "float32", pa.float64(): "float64"}


def _is_default(kind: pa.DataType, dtype: str, text: str) -> bool:
    """Return whether Arrow gives a column of this type the dtype that it had."""
    if pat.is_dictionary(kind):
        return not dtype.endswith("[pyarrow]")  # what else it was is in the categories
    if pat.is_timestamp(kind) or pat.is_duration(kind):
        return dtype.startswith(("datetime64", "timedelta64")) and "pyarrow" not in dtype
    if pat.is_string(kind) or pat.is_large_string(kind):
        return dtype == text
    if pat.is_primitive(kind) and not pat.is_temporal(kind):
        return dtype == _PLAIN.get(kind, str(kind))
    return dtype == "object"


# --- categories -----------------------------------------------------------------------------------


def _with_zones(table: pa.Table, kinds: dict[str, Any]) -> pa.Table:
    """Return the columns with the zones of their categories, which Arrow cannot see in pandas 2."""
    for at, field in enumerate(table.schema):
        categories: Any = getattr(kinds[field.name], "categories", None)
        if getattr(categories, "tz", None) is not None:
            zoned = pa.timestamp(field.type.value_type.unit, categories.tz)
            kind = pa.dictionary(field.type.index_type, zoned, field.type.ordered)
            table = table.set_column(at, field.name, table.column(at).cast(kind))
    return table


def _categories(kinds: dict[str, Any]) -> dict[str, tuple[str, str]]:
    pandas = sys.modules["pandas"]
    found, room = {}, _MOST_CATEGORY_BYTES
    for name, dtype in kinds.items():
        if isinstance(dtype, pandas.CategoricalDtype):
            values = pa.array(dtype.categories, from_pandas=True)
            held = _encoded(values, "ordered" if dtype.ordered else "")
            room -= len(held)
            if room >= 0:
                found[name] = (str(dtype.categories.dtype), held)
    return found


def _encoded(values: Any, name: str) -> str:
    batch = pa.record_batch([values], names=[name])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()
